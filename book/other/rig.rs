// ANCHOR: imports
use rig::extractor::ExtractorBuilder;
use rig::prelude::*;
use rig::providers::openai::{self, OpenAI};
use rig::schemars::{self, JsonSchema};
use rig::tool::ToolExecutionError;
use serde::{Deserialize, Serialize};
// ANCHOR_END: imports

// ANCHOR: tool
#[rig::rig_tool(
    description = "Subtracts y from x.",
    params(x = "The number to subtract from", y = "The number to subtract")
)]
async fn subtract(x: i64, y: i64) -> Result<i64, ToolExecutionError> {
    x.checked_sub(y).ok_or_else(|| ToolExecutionError::invalid_args("the result is too large"))
}

async fn calculate() -> Result<(), Box<dyn std::error::Error>> {
    let agent = AgentBuilder::new(OpenAI::from_env()?.completion(openai::GPT_4O))
        .preamble("You are a calculator. Use the tools.")
        .tool(Subtract)
        .build();

    let response = agent.prompt("Calculate 2 - 5.").max_turns(3).await?;
    println!("{}", response.output());
    Ok(())
}
// ANCHOR_END: tool

// ANCHOR: typed
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

async fn extract() -> Result<(), Box<dyn std::error::Error>> {
    let model = OpenAI::from_env()?.completion(openai::GPT_4O);
    let extractor = ExtractorBuilder::<Person>::new(model).retries(2).build();

    let Person { name, age } = extractor.extract("Ada is 36.").await?.output;
    println!("{name} is {age} years old.");
    Ok(())
}
// ANCHOR_END: typed

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    calculate().await?;
    extract().await
}
// ANCHOR_END: main
