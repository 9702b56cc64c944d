//! Reports a model call that missed the vendor's prompt cache, because the system prompt contains the time.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::runtime::{CacheMissCause, CacheMissDetector};

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: hook
    let detector = CacheMissDetector::new().on_miss(|miss| {
        println!("missed: read {} of {} tokens", miss.read_tokens, miss.expected_tokens);
        println!("cause: {}", miss.cause);
        if let CacheMissCause::Changed(change) = &miss.cause {
            println!("first change: {}, byte {}", change.path, change.offset_in_value);
        }
    });
    // ANCHOR_END: hook

    let mut conversation = Conversation::new();
    for (time, question) in [("09:15", "What do ferns need?"), ("09:16", "And moss?")] {
        // ANCHOR: agent
        let agent = Agent::builder(Anthropic::from_env()?)
            .system_prompt(format!("You are a gardener. It is {time}."))
            .hook(detector.clone())
            .build();
        // ANCHOR_END: agent
        println!("agent: {}", agent.run(&mut conversation, question).await?.response);
    }
    Ok(())
}
