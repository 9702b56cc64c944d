//! Asks a model a question and prints its response.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let agent = Agent::builder(Anthropic::from_env()?)
        .system_prompt("You are a helpful assistant. Answer in one sentence.")
        .build();

    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "What is Rust?").await?;
    println!("{}", result.response);
    Ok(())
}
