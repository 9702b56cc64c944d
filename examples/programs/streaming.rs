//! Prints the events of a run as they arrive.

use std::io::Write;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Returns the current weather in a city.
#[neuron_tool(effect = Pure)]
async fn get_weather(
    /// The city to get the weather for, for example "Tokyo"
    city: String,
) -> Result<String, ToolError> {
    Ok(format!("{city}: 22 °C, sunny"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();
    let mut conversation = Conversation::new();

    let mut events = agent.run(&mut conversation, "How is the weather in Tokyo?").stream();
    while let Some(event) = events.next().await {
        match event? {
            RunEvent::Event(StreamEvent::TextDelta(text)) => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            RunEvent::Event(StreamEvent::ToolUse { name, input, .. }) => {
                println!("\n-> {name} {input}");
            }
            RunEvent::Event(StreamEvent::ToolResult { name, output, .. }) => {
                for item in &output.content {
                    println!("<- {name}: {item}");
                }
            }
            RunEvent::Event(StreamEvent::Reset { .. }) => {
                println!("\n[the response broke off, a new attempt starts]");
            }
            RunEvent::Ended(result) => {
                println!("\n{} turns, {} tokens", result.turns, result.usage.total_tokens());
            }
            _ => {}
        }
    }
    Ok(())
}
