//! Shows the effect of each context strategy on a long conversation.
//!
//! Run the example with `cargo run -p neuron-context --example compaction`. It needs no API key and no network.

use neuron_context::strategies::BoxedStrategy;
use neuron_context::{
    CompositeStrategy, SlidingWindowStrategy, SummarizationStrategy, ToolResultClearingStrategy,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ContentBlock, ContentItem, ContextError, ContextStrategy, Message, Role};
use serde_json::json;

/// The budget in tokens. It is so small that a short conversation exceeds it.
const MAX_TOKENS: usize = 250;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ContextError> {
    show("SlidingWindowStrategy: the last 2 messages", &SlidingWindowStrategy::new(2, 30), talk())
        .await?;

    let window = SlidingWindowStrategy::new(4, MAX_TOKENS);
    show("SlidingWindowStrategy: the last 4 messages, and what is pinned", &window, work()).await?;

    let clearing = ToolResultClearingStrategy::new(1, MAX_TOKENS);
    show("ToolResultClearingStrategy: the newest result stays", &clearing, work()).await?;

    // Any provider can write summaries. This provider returns a scripted summary, without a network.
    let model = || {
        ScriptedProvider::new([Reply::text(
            "The user asked for the cause of a failing build. Two logs were read; the first showed \
             nothing, the second an old compiler.",
        )])
    };
    let summarizing = SummarizationStrategy::new(model(), 2, MAX_TOKENS);
    show("SummarizationStrategy: a model writes what was before", &summarizing, work()).await?;

    let composite = CompositeStrategy::new(
        vec![
            BoxedStrategy::new(ToolResultClearingStrategy::new(1, MAX_TOKENS)),
            BoxedStrategy::new(SummarizationStrategy::new(model(), 2, MAX_TOKENS)),
            BoxedStrategy::new(SlidingWindowStrategy::new(2, MAX_TOKENS)),
        ],
        MAX_TOKENS,
    );
    show("CompositeStrategy: clearing was enough", &composite, work()).await
}

/// Compacts the conversation if it is too long, and prints it before and after.
async fn show<C: ContextStrategy>(
    title: &str,
    strategy: &C,
    messages: Vec<Message>,
) -> Result<(), ContextError> {
    let tokens = strategy.token_estimate(&messages);
    println!("{title}\n\n  before: {} messages, ~{tokens} tokens", messages.len());
    print(&messages);
    if strategy.should_compact(&messages, tokens) {
        let compacted = strategy.compact(messages).await?;
        let tokens = strategy.token_estimate(&compacted);
        println!("  after: {} messages, ~{tokens} tokens", compacted.len());
        print(&compacted);
    }
    println!();
    Ok(())
}

fn print(messages: &[Message]) {
    for message in messages {
        let role = match message.role {
            Role::System => "[system]",
            Role::User => "[user]",
            Role::Assistant => "[asst]",
        };
        let text: Vec<String> = message.content.iter().map(ToString::to_string).collect();
        let text = text.join(" ").replace('\n', " ");
        let short: String = text.chars().take(70).collect();
        let dots = if short.len() < text.len() { "..." } else { "" };
        let pin = if message.is_pinned() { "  <- pinned" } else { "" };
        println!("    {role:8} {short}{dots}{pin}");
    }
}

/// Creates a conversation without tools.
fn talk() -> Vec<Message> {
    vec![
        Message::system("You are a helpful assistant."),
        Message::user("What is Rust?"),
        Message::assistant("Rust is a systems programming language..."),
        Message::user("How about memory safety?"),
        Message::assistant("Rust uses ownership and borrowing..."),
        Message::user("What about async?"),
        Message::assistant("Rust supports async/await via futures..."),
    ]
}

/// Creates the conversation of an agent, with tool calls and long results.
fn work() -> Vec<Message> {
    let call = |id: &str, path: &str| Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: id.into(),
            name: "read_file".into(),
            input: json!({ "path": path }),
        }],
    };
    let result = |id: &str, text: String| Message {
        role: Role::User,
        content: vec![ContentBlock::ToolResult {
            tool_use_id: id.into(),
            content: vec![ContentItem::Text(text)],
            is_error: false,
        }],
    };
    vec![
        Message::system("You are a build engineer."),
        Message::user("Never change the lock file.").pinned(),
        Message::assistant("Understood."),
        Message::user("Why does the build fail?"),
        call("1", "build-1.log"),
        result("1", "Compiling... ".repeat(40)),
        call("2", "build-2.log"),
        result("2", "error: rustc 1.80 is too old. ".repeat(20)),
        call("3", "rust-toolchain.toml"),
        result("3", "channel = \"1.80\"".into()),
    ]
}
