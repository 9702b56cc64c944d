//! Runs an agent with one tool, and extracts a typed value from a text, as with rig.

// ANCHOR: imports
use neuron::openai::OpenAi;
use neuron::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
// ANCHOR_END: imports

// ANCHOR: tool
/// Subtracts y from x.
#[neuron_tool]
async fn subtract(
    /// The number to subtract from
    x: i64,
    /// The number to subtract
    y: i64,
) -> Result<i64, ToolError> {
    x.checked_sub(y).ok_or_else(|| ToolError::ModelRetry("the result is too large".into()))
}

async fn calculate(provider: OpenAi) -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(SubtractTool);
    let agent = Agent::builder(provider)
        .model("gpt-4o")
        .system_prompt("You are a calculator. Use the tools.")
        .tools(tools)
        .max_turns(3)
        .build();

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Calculate 2 - 5.").await?;
    println!("{}", result.response);
    Ok(())
}
// ANCHOR_END: tool

// ANCHOR: typed
#[derive(Debug, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

async fn extract(provider: OpenAi) -> Result<(), MainError> {
    let agent = Agent::builder(provider).model("gpt-4o").build();
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, "Extract the person: Ada is 36.").typed::<Person>();
    let Person { name, age } = run.await?.output;
    println!("{name} is {age} years old.");
    Ok(())
}
// ANCHOR_END: typed

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = OpenAi::from_env()?;
    calculate(provider.clone()).await?;
    extract(provider).await
}
// ANCHOR_END: main
