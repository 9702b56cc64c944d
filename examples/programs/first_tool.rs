//! Gives a model a tool, and prints the response that uses the tool's result.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(
    /// The city to get the weather for, for example "Tokyo"
    city: String,
) -> Result<String, ToolError> {
    // A real tool would call a weather service here.
    Ok(format!("{city}: 22 °C, sunny"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .system_prompt("You are a helpful weather assistant.")
        .build();

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "What's the weather in Tokyo?").await?;
    println!("{}", result.response);
    println!("{} turns, {} tokens", result.turns, result.usage.total_tokens());
    Ok(())
}
