//! Falls back from Anthropic to OpenAI while Anthropic is overloaded, with a router over both.

use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::router::{Route, Router};

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let router = Router::builder()
        .route(Route::new("anthropic", Anthropic::from_env()?))
        .route(Route::new("openai", OpenAi::from_env()?))
        .deadline(Duration::from_secs(120))
        .build()?;
    let agent = Agent::builder(router).build();

    let mut conversation = Conversation::new();
    for question in ["What is a lease?", "And a fencing token?"] {
        println!("you: {question}");
        let result = agent.run(&mut conversation, question).await?;
        let metadata = conversation.messages().last().and_then(Message::metadata);
        let route = metadata.and_then(|metadata| metadata.route).unwrap_or_default();
        for failed in &route.failed {
            println!("[{} failed: {}]", failed.name, failed.error.detail);
        }
        println!("{}: {}", route.name, result.response);
    }
    Ok(())
}
// ANCHOR_END: main
