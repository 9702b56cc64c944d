//! Updating sessions.

use neuron_types::{SessionRevision, VersionedSessionStorage};

use super::context::TestContext;
use super::sample;

/// Checks that [`update`](VersionedSessionStorage::update) writes with the newest revision, and writes nothing
/// with any other.
///
/// # Panics
///
/// At the first violation.
pub async fn updating<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("updating", storage);
    let id = ctx.id("session");
    let version = |writer: u64, messages| sample::written(&id, writer, messages, 50);
    let lost = version(9, 9);

    ctx.begin("the newest revision");
    let mut newest = ctx.create(&version(0, 4)).await;
    let mut old = Vec::new();
    for (writer, messages) in [(1, 4), (2, 9), (3, 2), (4, 0), (5, 5)] {
        let revision = ctx.update(&version(writer, messages), &newest).await;
        old.push(std::mem::replace(&mut newest, revision));
    }
    for (age, old) in old.iter().rev().enumerate() {
        ctx.begin(format_args!("a revision that is {} older", age + 1));
        ctx.conflict(&id, storage.update(&lost, old)).await;
        ctx.check_versioned(&id, &newest).await;
    }

    ctx.begin("the revision of another session");
    let session = ctx.session("other");
    let mut other = ctx.create(&session).await;
    // As many writes as the first session has.
    for _ in 0..5 {
        other = ctx.update(&session, &other).await;
    }
    ctx.conflict(&id, storage.update(&lost, &other)).await;

    let long = "9".repeat(10_000);
    for token in ["", "0", "1", "-1", "nonsense", "a\0b", "' OR 1=1 --", long.as_str()] {
        ctx.begin(format_args!("a revision of no write: {token:.20?}"));
        let foreign = SessionRevision::new(token);
        ctx.conflict(&id, storage.update(&lost, &foreign)).await;
        ctx.conflict(&id, storage.append(&id, &[], None, &foreign)).await;
    }
    ctx.check_versioned(&id, &newest).await;

    ctx.begin("a revision that was copied as text");
    let copied = SessionRevision::new(newest.as_str());
    let before = ctx.update(&version(6, 6), &copied).await;

    ctx.begin("after a save");
    ctx.save(&version(7, 7)).await;
    ctx.conflict(&id, storage.update(&lost, &before)).await;
    ctx.finish().await;
}
