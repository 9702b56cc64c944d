//! Sessions that are empty, long, large or deep.

use neuron_types::{ContentBlock, Message, Role, Session, SessionStorage};
use serde_json::{Value, json};

use super::context::TestContext;
use super::sample;

/// Checks sessions without messages, with ten thousand, with one of four megabytes, and with arguments that
/// are deeply nested. Every storage must take 100 levels. Responses of providers have up to 127. A storage may
/// refuse more, but must not store a session that it cannot load.
///
/// # Panics
///
/// At the first violation.
pub async fn sizes<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("sizes", storage);
    ctx.begin("no messages");
    let empty = Session { messages: vec![], ..ctx.session("session") };
    ctx.save(&empty).await;
    ctx.begin("10000 messages");
    ctx.save(&sample::written(ctx.id("long"), 1, 10_000, 100)).await;
    ctx.begin("a message of 4 MB");
    ctx.save(&sample::written(ctx.id("large"), 1, 1, 4 << 20)).await;
    for (depth, may_be_refused) in [(10, false), (100, false), (127, true), (300, true)] {
        ctx.begin(format_args!("arguments nested {depth} deep"));
        let session = Session { messages: nested(depth), ..empty.clone() };
        match ctx.case.soon(storage.save(&session)).await {
            Ok(()) => ctx.must_hold(&session),
            Err(error) => ctx.case.holds(may_be_refused, error),
        }
        ctx.check(&session.id).await;
    }
    ctx.finish().await;
}

/// Returns a conversation with a tool call whose arguments are nested.
fn nested(depth: usize) -> Vec<Message> {
    let mut input: Value = json!({});
    for level in 1..depth {
        input = match level % 2 {
            0 => json!([input]),
            _ => json!({ "in": input }),
        };
    }
    let call = ContentBlock::ToolUse { id: "call".into(), name: "nest".into(), input };
    vec![Message::user("Nest"), Message { role: Role::Assistant, content: vec![call] }]
}
