//! Saving over a stored session.

use neuron_types::{Message, Session, SessionStorage};

use super::context::TestContext;
use super::sample;

type Change = fn(&mut Session);

/// Changes of a session with 50 messages.
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

/// Checks that the last write wins.
///
/// The written history is longer, shorter, equal, or different from its first, a middle or its last message. The
/// written time may be older.
///
/// # Panics
///
/// At the first violation.
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
    // Each after the previous one, without the original between them.
    for (name, version) in &versions {
        ctx.begin(format_args!("{name}, after another"));
        ctx.save(version).await;
    }
    ctx.finish().await;
}
