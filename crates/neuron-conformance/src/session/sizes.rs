//! Sessions that are empty, long, large or deep.

use neuron_types::{ContentBlock, Message, Role, SessionStorage};
use serde_json::{Value, json};

use super::context::{TestContext, same};
use super::sample;

/// How deep every storage must take the arguments of a tool. Providers' answers may go to 127.
const DEEP: usize = 100;

/// Checks sessions without messages, with ten thousand, with one of four megabytes, and with values
/// that are deeply nested. What is too deep may be refused; it must not be stored and then be
/// unreadable.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn sizes<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("sizes", storage);

    let case = ctx.case("no messages");
    let mut session = ctx.session("session");
    session.messages.clear();
    ctx.save(&case, &session).await;
    ctx.stored(&case, &session).await;

    let case = ctx.case("10000 messages");
    let long = sample::written(ctx.id("long"), 1, 10_000, 100);
    ctx.save(&case, &long).await;
    ctx.stored(&case, &long).await;
    let counts: Vec<usize> =
        ctx.listed(&case).await.iter().map(|summary| summary.message_count).collect();
    case.equal("the numbers of messages listed", counts, vec![10_000, 0]);

    let case = ctx.case("a message of 4 MB");
    let large = sample::written(ctx.id("large"), 1, 1, 4 << 20);
    ctx.save(&case, &large).await;
    ctx.stored(&case, &large).await;

    for depth in [10, DEEP] {
        let case = ctx.case(format_args!("arguments nested {depth} deep"));
        session.messages = nested(depth);
        ctx.save(&case, &session).await;
        ctx.stored(&case, &session).await;
    }
    for depth in [127, 300] {
        let case = ctx.case(format_args!("arguments nested {depth} deep"));
        let before = session.clone();
        session.messages = nested(depth);
        if case.soon(storage.save(&session)).await.is_err() {
            session = before;
        }
        let loaded = case.ok(case.soon(storage.load(&session.id)).await);
        same(&case, &loaded, &session);
        ctx.listed(&case).await;
    }
    ctx.finish().await;
}

/// A conversation with a call whose arguments are nested.
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
