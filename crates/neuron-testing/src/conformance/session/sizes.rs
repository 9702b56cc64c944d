//! Sessions that are empty, long, large or deep.

use neuron_types::{ContentBlock, Message, Role, SessionStorage};
use serde_json::{Value, json};

use super::bench::{Bench, same};
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
    let bench = Bench::new("sizes", storage);

    let case = bench.case("no messages");
    let mut session = bench.session("session");
    session.messages.clear();
    bench.save(&case, &session).await;
    bench.stored(&case, &session).await;

    let case = bench.case("10000 messages");
    let long = sample::written(bench.id("long"), 1, 10_000, 100);
    bench.save(&case, &long).await;
    bench.stored(&case, &long).await;
    let counts: Vec<usize> =
        bench.listed(&case).await.iter().map(|summary| summary.message_count).collect();
    case.equal("the numbers of messages listed", counts, vec![10_000, 0]);

    let case = bench.case("a message of 4 MB");
    let large = sample::written(bench.id("large"), 1, 1, 4 << 20);
    bench.save(&case, &large).await;
    bench.stored(&case, &large).await;

    for depth in [10, DEEP] {
        let case = bench.case(format_args!("arguments nested {depth} deep"));
        session.messages = nested(depth);
        bench.save(&case, &session).await;
        bench.stored(&case, &session).await;
    }
    for depth in [127, 300] {
        let case = bench.case(format_args!("arguments nested {depth} deep"));
        let before = session.clone();
        session.messages = nested(depth);
        if case.soon(storage.save(&session)).await.is_err() {
            session = before;
        }
        let loaded = case.ok(case.soon(storage.load(&session.id)).await);
        same(&case, &loaded, &session);
        bench.listed(&case).await;
    }
    bench.finish().await;
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
