//! Routes each task to a fitting model, with another vendor per run or another route per turn.

use neuron::anthropic::{Anthropic, models};
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::router::{Route, Router};
use neuron::types::BoxedProvider;

/// Returns the weather in a city.
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("{city}: 22 °C, sunny"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: run
    let anthropic = BoxedProvider::new(Anthropic::from_env()?);
    let openai = BoxedProvider::new(OpenAi::from_env()?);
    let agent = Agent::builder(anthropic.clone()).build();

    let mut conversation = Conversation::new();
    for question in ["Write a haiku about rust.", "Translate it into German."] {
        let provider = match question.starts_with("Translate") {
            true => openai.clone(),
            false => anthropic.clone(),
        };
        let name = provider.info().name.to_owned();
        // The conversation continues with the other vendor.
        let result = agent.run(&mut conversation, question).provider(provider).await?;
        println!("{name}: {}", result.response);
    }
    // ANCHOR_END: run

    // ANCHOR: turn
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let router = Router::builder()
        .route(Route::new("plan", anthropic).model(models::CLAUDE_OPUS_4_8))
        .route(Route::new("write", openai))
        .build()?;
    // The large model plans. A smaller model of the other vendor writes the response from the results of the tools.
    let agent = Agent::builder(router)
        .tools(tools)
        .prepare_turn(|turn| {
            turn.settings.model = if turn.run.turns == 0 { "plan" } else { "write" }.to_owned();
            println!("turn {}: {}", turn.run.turns, turn.settings.model);
        })
        .build();
    let result = agent.run(&mut Conversation::new(), "How is the weather in Rome?").await?;
    println!("{}", result.response);
    // ANCHOR_END: turn
    Ok(())
}
