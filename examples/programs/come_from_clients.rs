//! Calls a model without an agent loop, and then gives the same provider to an agent.

// ANCHOR: imports
use neuron::openai::OpenAi;
use neuron::prelude::*;
// ANCHOR_END: imports

// ANCHOR: call
/// Works with every provider.
async fn ask(provider: &impl Provider, question: &str) -> Result<String, ProviderError> {
    let request = CompletionRequest {
        model: "gpt-4o-mini".into(),
        system: Some("Answer in one sentence.".into()),
        messages: vec![Message::user(question)],
        ..Default::default()
    };
    let response = provider.complete(request).await?;
    Ok(response.message.text())
}
// ANCHOR_END: call

// ANCHOR: stream
async fn print_stream(provider: &impl Provider, question: &str) -> Result<(), ProviderError> {
    let request = CompletionRequest {
        model: "gpt-4o-mini".into(),
        messages: vec![Message::user(question)],
        ..Default::default()
    };
    let mut stream = provider.complete_stream(request).await?.receiver;
    while let Some(event) = stream.recv().await {
        match event {
            StreamEvent::TextDelta(text) => print!("{text}"),
            StreamEvent::Error(error) => return Err(error.into()),
            _ => {}
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: stream

// ANCHOR: agent
/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("{city}: 22 °C, sunny"))
}

async fn ask_with_tool(provider: OpenAi) -> Result<(), LoopError> {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(provider).model("gpt-4o-mini").tools(tools).build();

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "What's the weather in Tokyo?").await?;
    println!("{}", result.response);
    Ok(())
}
// ANCHOR_END: agent

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = OpenAi::from_env()?;
    println!("{}", ask(&provider, "Why is the sky blue?").await?);
    print_stream(&provider, "Why is it red in the evening?").await?;
    ask_with_tool(provider).await?;
    Ok(())
}
// ANCHOR_END: main
