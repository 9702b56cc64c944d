//! Replaces the old part of a conversation with a summary that a cheaper model writes.

// ANCHOR: imports
use neuron::anthropic::{Anthropic, models};
use neuron::context::strategies::{BoxedStrategy, CompositeStrategy, SummarizationStrategy};
use neuron::prelude::*;
// ANCHOR_END: imports

/// The size of a request in tokens above which the model writes a summary. A real budget is, for example, 100,000.
const MAX_TOKENS: usize = 400;

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: strategy
    let provider = Anthropic::from_env()?;
    // The summary needs a cheaper model than the conversation.
    let writer = provider.clone().model(models::CLAUDE_HAIKU_4_5);
    // The strategy keeps the last 2 messages unchanged.
    let summary = SummarizationStrategy::new(writer, 2, MAX_TOKENS).with_instructions(
        "Summarize the conversation in at most five sentences. Keep names, dates and decisions.",
    );
    let strategies = vec![
        BoxedStrategy::new(summary),
        // If the summary fails, drop the oldest messages.
        BoxedStrategy::new(SlidingWindowStrategy::new(4, MAX_TOKENS)),
    ];
    let agent = Agent::builder(provider)
        .system_prompt("You plan a trip with the user.")
        .context(CompositeStrategy::new(strategies, MAX_TOKENS))
        .build();
    // ANCHOR_END: strategy

    let mut conversation = Conversation::new();
    for text in [
        "Ada and I want to visit Japan.",
        "We have two weeks in May, and we like trains.",
        "We do not like large cities.",
        "Where do we start?",
    ] {
        let result = agent.run(&mut conversation, text).await?;
        println!("user: {text}\nagent: {}", result.response);
    }

    println!("\nThe model sees these messages next time:");
    for message in conversation.messages() {
        println!("  {:?}: {}", message.role, message.text().replace('\n', " "));
    }
    println!("{} tokens, including the summary", conversation.total_usage().total_tokens());
    Ok(())
}
