//! Checks saving, loading, listing and deleting.

use neuron_types::{ContentBlock, Message, Role, Session, SessionState, SessionStorage};
use serde_json::{Value, json};

use super::context::{Kind, TestContext};
use super::sample;

/// Checks that a loaded session is equal to the saved session.
///
/// The sessions contain every kind of content block, unusual texts and numbers, a state, and times with nanoseconds.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn round_trips<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("round_trips", storage);
    ctx.begin("a small session");
    let small = ctx.session("small");
    ctx.save(&small).await;
    ctx.begin("a small session, loaded again");
    ctx.check(&small.id).await;

    ctx.begin("every kind of block");
    let everything = sample::everything(ctx.id("everything"));
    ctx.save(&everything).await;

    ctx.begin("a state without messages");
    let mut session = ctx.session("state");
    session.messages.clear();
    session.state = sample::state();
    ctx.save(&session).await;
    ctx.begin("an empty state");
    session.state = SessionState::default();
    ctx.save(&session).await;

    let times = [(0, 0), (-1, 1), (253_402_300_799, 999_999_999), (-62_135_596_800, 0)];
    for (index, (seconds, nanoseconds)) in times.into_iter().enumerate() {
        ctx.begin(format_args!("the time {seconds} s, {nanoseconds} ns"));
        let mut session = ctx.session(format_args!("time-{index}"));
        session.updated_at = sample::moment(seconds, nanoseconds);
        session.created_at = session.updated_at;
        ctx.save(&session).await;
    }

    ctx.begin("sessions do not disturb each other");
    ctx.check(&everything.id).await;
    ctx.save(&ctx.session("other")).await;
    ctx.check(&everything.id).await;

    ctx.begin("a message that came last is there at once");
    let mut session = ctx.session("growing");
    for index in 0..20 {
        session.messages.push(Message::user(format!("message {index}")));
        ctx.save(&session).await;
    }
    ctx.finish().await;
}

/// Checks sessions of unusual sizes.
///
/// The sessions have no messages, 10,000 messages, a message of four megabytes, or deeply nested arguments. Every
/// storage must accept arguments with 100 levels. A storage may reject more levels, but must not store a session that
/// it cannot load. Responses of providers have up to 127 levels.
///
/// # Panics
///
/// Panics at the first violation.
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

/// Returns a conversation with a tool call whose arguments are nested `depth` levels deep.
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

/// Checks the error for a session that was never stored or was deleted.
///
/// The error must be [`StorageError::NotFound`](neuron_types::StorageError::NotFound). A new session must be able to
/// use the id of a deleted session.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn missing<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("missing", storage);
    let (mut session, other) = (ctx.session("session"), ctx.session("session-2"));
    ctx.begin("never there");
    ctx.fails(Kind::NotFound, &session.id, storage.load(&session.id)).await;
    ctx.fails(Kind::NotFound, &session.id, storage.delete(&session.id)).await;

    ctx.begin("deleted");
    ctx.save(&session).await;
    ctx.save(&other).await;
    ctx.delete(&session.id).await;
    ctx.fails(Kind::NotFound, &session.id, storage.delete(&session.id)).await;
    ctx.check(&other.id).await;

    ctx.begin("saved after it was deleted");
    session.messages.pop();
    ctx.save(&session).await;
    ctx.finish().await;
}

/// A function that changes a session.
type Change = fn(&mut Session);

/// Changes to a session with 50 messages, each with a name for the case.
const CHANGES: [(&str, Change); 16] = [
    ("equal", |_| {}),
    ("longer", |session| session.messages.push(another())),
    ("much longer", |session| session.messages = sample::messages(1, 500, 100)),
    ("shorter", |session| session.messages.truncate(20)),
    ("without its first message", |session| drop(session.messages.remove(0))),
    ("with a first message more", |session| session.messages.insert(0, another())),
    ("with a message more in the middle", |session| session.messages.insert(25, another())),
    ("with another first message", |session| replace(session, 0)),
    ("with another message in the middle", |session| replace(session, 25)),
    ("with another last message", |session| replace(session, 49)),
    ("reversed", |session| session.messages.reverse()),
    ("empty", |session| session.messages.clear()),
    ("by another writer", |session| *session = sample::written(&session.id, 2, 50, 100)),
    ("shorter and by another writer", |session| {
        *session = sample::written(&session.id, 3, 3, 100);
    }),
    ("with an older time", |session| {
        session.updated_at = sample::moment(1_000_000_000, 1);
        session.created_at = sample::moment(1_000_000_000, 0);
    }),
    ("with another state", |session| session.state = sample::state()),
];

fn another() -> Message {
    Message::user("another")
}

fn replace(session: &mut Session, index: usize) {
    drop(session.messages.splice(index..=index, [another()]));
}

/// Checks that a save replaces the stored session completely.
///
/// The new history is longer, shorter or equal, or has another first, last or middle message. The new time may be older
/// than the stored time.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn rewriting<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("rewriting", storage);
    let original = sample::written(ctx.id("session"), 1, 50, 100);
    let versions = CHANGES.map(|(name, change)| {
        let mut version = original.clone();
        change(&mut version);
        (name, version)
    });
    ctx.save(&original).await;
    for (name, version) in &versions {
        ctx.begin(name);
        ctx.save(version).await;
        ctx.begin(format_args!("{name}, and back"));
        ctx.save(&original).await;
    }
    // Saves each version directly after the previous version, without the original in between.
    for (name, version) in &versions {
        ctx.begin(format_args!("{name}, after another"));
        ctx.save(version).await;
    }
    ctx.finish().await;
}

/// Ids in an order that is neither the order of their bytes nor the sort order of a language.
const NAMES: [&str; 15] =
    ["b", "a", "B", "a-b", "ab", "a_b", "a b", "ä", "z", "A", "10", "9", "対", "~", "a.b"];

/// Checks that [`list`](SessionStorage::list) returns all sessions, sorted by the bytes of their ids.
///
/// Each summary must have the times and the number of messages of its session. A list after a save or a delete must
/// include the change.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn listing<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("listing", storage);
    ctx.begin("nothing");
    ctx.check_list().await;
    for (index, name) in NAMES.into_iter().enumerate() {
        ctx.begin(format_args!("{name:?} more"));
        let mut session = sample::written(ctx.id(name), 1, index, 10);
        session.created_at = sample::moment(1_700_000_000, 999_999_999);
        session.updated_at = sample::moment(1_700_000_000 - index as i64, 1);
        ctx.save(&session).await;
    }
    ctx.begin("the list with the sessions of others");
    let all = ctx.ok(storage.list()).await;
    ctx.case.holds(all.is_sorted_by(|one, other| one.id < other.id), "it is not sorted by id");
    for summary in ctx.listed().await.into_iter().rev() {
        ctx.begin(format_args!("{:?} less", summary.id));
        ctx.delete(&summary.id).await;
    }
    ctx.finish().await;
}
