//! Keeps a long conversation within a token budget, and prints what each compaction changes.

use neuron::anthropic::Anthropic;
use neuron::context::strategies::{BoxedStrategy, CompositeStrategy, ToolResultClearingStrategy};
use neuron::prelude::*;

/// Returns the log of a day.
#[neuron_tool(effect = Pure)]
async fn read_log(
    /// The day, for example "Monday"
    day: String,
) -> Result<String, ToolError> {
    // Long results fill a conversation quickly.
    Ok(format!("{day}: {}", "service started, all checks passed; ".repeat(50)))
}

/// The size of a request in tokens above which the strategy shortens the conversation. It is small here, so that a
/// short conversation exceeds it. A real budget is, for example, 100,000.
const MAX_TOKENS: usize = 1_500;

fn strategy() -> CompositeStrategy {
    let strategies = vec![
        // First, clear all tool results except the newest one.
        BoxedStrategy::new(ToolResultClearingStrategy::new(1, MAX_TOKENS)),
        // If the conversation is still too long, keep only the last 4 messages.
        BoxedStrategy::new(SlidingWindowStrategy::new(4, MAX_TOKENS)),
    ];
    CompositeStrategy::new(strategies, MAX_TOKENS).with_low_water_mark(750)
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(ReadLogTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).context(strategy()).build();

    let mut conversation = Conversation::new();
    // No compaction removes a pinned message.
    let rule = Message::user("Only report failures. Never quote a log.").pinned();
    agent.run(&mut conversation, rule).await?;

    for question in ["Did a check fail from Monday to Wednesday?", "And on Thursday and Friday?"] {
        println!("user: {question}");
        let mut steps = agent.run(&mut conversation, question).steps();
        while let Some(step) = steps.next().await {
            match step? {
                Step::Compacted { old_tokens, new_tokens } => {
                    println!("compacted from {old_tokens} to {new_tokens} tokens:");
                    print_messages(steps.conversation().messages());
                }
                Step::Ended(result) => println!("agent: {}", result.response),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Prints the first 60 characters of each message.
fn print_messages(messages: &[Message]) {
    for message in messages {
        let text: Vec<String> = message.content.iter().map(ToString::to_string).collect();
        let text: String = text.join(" ").trim_end().chars().take(60).collect();
        let pin = if message.is_pinned() { " (pinned)" } else { "" };
        println!("  {:?}: {text}{pin}", message.role);
    }
}
