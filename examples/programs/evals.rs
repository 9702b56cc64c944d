//! Evaluates an agent with two cases and prints the report.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron_testing::evals::{Case, Check, Eval};
use serde_json::json;

/// Returns the temperature in a city, in degrees Celsius.
#[neuron_tool(effect = Pure)]
async fn get_temperature(city: String) -> Result<f64, ToolError> {
    Ok(if city == "Oslo" { -3.0 } else { 22.5 })
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetTemperatureTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).max_turns(5).build();

    let eval = Eval::new("weather")
        .concurrency(1)
        .check(Check::max_turns(3)) // For all cases.
        .case(
            Case::new("tokyo", "How warm is it in Tokyo?")
                .check(Check::calls_with("get_temperature", json!({ "city": "Tokyo" })))
                .check(Check::response_contains("22.5")),
        )
        .case(
            Case::new("oslo", "Do I need a coat in Oslo?")
                .check(Check::calls("get_temperature"))
                .check(Check::new("says yes", |_, run| run.response().starts_with("Yes"))),
        );
    let report = eval
        .run(async |case| {
            let mut conversation = Conversation::new();
            let result = agent.run(&mut conversation, case.input()).await?;
            Ok::<_, LoopError>(result.with_messages(&conversation))
        })
        .await;
    print!("{report}");
    println!("passed: {} of {}", report.pass_rate().passed, report.pass_rate().runs);
    Ok(())
}
