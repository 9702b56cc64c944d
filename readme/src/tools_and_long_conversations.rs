//! The example "Tools and long conversations". Shows that the middleware and the strategies do what the comments of the
//! example say.

use std::error::Error;

use neuron::context::strategies::CompositeStrategy;
use neuron::prelude::*;
use serde_json::json;

/// Returns a long text.
#[neuron_tool]
async fn long(
    /// The length
    length: usize,
) -> Result<String, ToolError> {
    Ok("x".repeat(length))
}

/// Never returns.
#[neuron_tool]
async fn hang() -> Result<String, ToolError> {
    std::future::pending().await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let (mut tools, context) = example();
    tools.register(LongTool);
    tools.register(HangTool);
    let ctx = ToolContext::default();

    let output = tools.execute("long", json!({"length": 20_000}), &ctx).await?;
    let length = output.content.iter().map(|item| item.to_string().len()).sum::<usize>();
    println!("20000 characters became fewer than 10500: {}", length < 10_500);
    let error = tools.execute("long", json!({"length": "many"}), &ctx).await;
    println!("the model may correct its arguments: {}", is_retry(&error));

    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let error = tools.execute("hang", json!({}), &ctx).await;
    println!("a tool that hangs fails: {}, after {} s", error.is_err(), began.elapsed().as_secs());

    // 25 exchanges of a call and a result, with about 10,000 tokens each.
    let history = history(10_000);
    println!("compacts: {}", context.should_compact(&history, context.token_estimate(&history)));
    show("emptied", &context.compact(history).await?);
    // Without tool results to clear, the strategies must drop messages.
    let mut history = history_of_text();
    history.push(Message::user("And now?"));
    let before = history.len();
    let after = context.compact(history).await?;
    println!("messages dropped: {}", after.len() < before);
    println!("within the budget: {}", context.token_estimate(&after) <= 100_000);
    Ok(())
}

/// Returns `true` if the model receives the error and may correct its arguments.
fn is_retry(result: &Result<ToolOutput, ToolError>) -> bool {
    match result {
        Ok(output) => output.is_error,
        Err(error) => matches!(error, ToolError::ModelRetry(_)),
    }
}

/// Returns a history of 25 tool calls. Each result has about `tokens` tokens.
fn history(tokens: usize) -> Vec<Message> {
    let mut messages = vec![Message::user("Look at everything.")];
    for number in 0..25 {
        let id = format!("c{number}");
        let input = json!({"length": 1});
        let call = ContentBlock::ToolUse { id: id.clone(), name: "long".into(), input };
        let content = vec![ContentItem::Text("x".repeat(tokens * 4))];
        let result = ContentBlock::ToolResult { tool_use_id: id, content, is_error: false };
        messages.push(Message { role: Role::Assistant, content: vec![call] });
        messages.push(Message { role: Role::User, content: vec![result] });
    }
    messages
}

/// Returns a history of 40 text messages with about 10,000 tokens each.
fn history_of_text() -> Vec<Message> {
    let text = |number: usize| match number % 2 {
        0 => Message::user("x".repeat(40_000)),
        _ => Message::assistant("x".repeat(40_000)),
    };
    (0..40).map(text).collect()
}

/// Prints how many tool results were shortened, and how many of the last results are complete.
fn show(what: &str, messages: &[Message]) {
    let results =
        messages.iter().flat_map(|message| &message.content).filter_map(|block| match block {
            ContentBlock::ToolResult { content, .. } => {
                Some(content.iter().map(|item| item.to_string().len()).sum())
            }
            _ => None,
        });
    let results: Vec<usize> = results.collect();
    let whole = results.iter().rev().take_while(|length| **length == 40_000).count();
    println!(
        "{what}: {} of {} results, the last {whole} are whole",
        results.len() - whole,
        results.len()
    );
}

/// Returns the tools and the compaction strategy that the example defines.
fn example() -> (ToolRegistry, CompositeStrategy) {
    include!(concat!(env!("OUT_DIR"), "/tools-and-long-conversations.rs"))
}
