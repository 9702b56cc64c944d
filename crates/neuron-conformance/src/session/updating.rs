//! Writing what was read, if nobody else wrote.

use neuron_types::{SessionRevision, VersionedSessionStorage};

use super::context::{TestContext, conflict};
use super::sample;

/// Checks that [`update`](VersionedSessionStorage::update) writes for who knows the newest revision,
/// and else writes nothing.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn updating<S: VersionedSessionStorage>(storage: &S) {
    let ctx = TestContext::new("updating", storage);
    let id = ctx.id("session");
    let version = |writer: u64, messages| sample::written(&id, writer, messages, 50);

    let case = ctx.case("who knows the newest revision");
    let mut known = vec![case.ok(case.soon(storage.create(&version(0, 4))).await)];
    for (writer, messages) in [(1, 4), (2, 9), (3, 2), (4, 0), (5, 5)] {
        let newest = case.some("a revision", known.last());
        let session = version(writer, messages);
        known.push(case.ok(case.soon(storage.update(&session, newest)).await));
        ctx.stored(&case, &session).await;
        let newest = case.some("a revision", known.last());
        case.equal("the revision", &case.ok(storage.revision(&id).await), newest);
        case.equal("what is listed", ctx.listed(&case).await, vec![session.summary()]);
    }
    let newest = case.some("a revision", known.pop());
    let stored = version(5, 5);

    for (age, old) in known.iter().rev().enumerate() {
        let case = ctx.case(format_args!("who knows a revision that is {} older", age + 1));
        let error = case.err(case.soon(storage.update(&version(9, 9), old)).await);
        conflict(&case, &error, &id);
        ctx.stored(&case, &stored).await;
        case.equal("the revision", &case.ok(storage.revision(&id).await), &newest);
    }

    let case = ctx.case("the revision of another session");
    // Written as often as this one.
    let session = ctx.session("other");
    let mut other = case.ok(case.soon(storage.create(&session)).await);
    for _ in 0..5 {
        other = case.ok(case.soon(storage.update(&session, &other)).await);
    }
    conflict(&case, &case.err(storage.update(&version(9, 9), &other).await), &id);

    let long = "9".repeat(10_000);
    for token in ["", "0", "1", "-1", "nonsense", "a\0b", "' OR 1=1 --", long.as_str()] {
        let case = ctx.case(format_args!("a revision that none gave: {token:.20?}"));
        let foreign = SessionRevision::new(token);
        let error = case.err(case.soon(storage.update(&version(9, 9), &foreign)).await);
        conflict(&case.step("update"), &error, &id);
        let error = case.err(case.soon(storage.append(&id, &[], None, &foreign)).await);
        conflict(&case.step("append"), &error, &id);
    }
    let case = ctx.case("after all conflicts");
    ctx.stored(&case, &stored).await;

    let case = ctx.case("a revision that was written down");
    let copied = SessionRevision::new(newest.as_str());
    case.ok(case.soon(storage.update(&version(6, 6), &copied)).await);
    ctx.stored(&case, &version(6, 6)).await;

    let case = ctx.case("after a save");
    let before = case.ok(storage.revision(&id).await);
    ctx.save(&case, &version(7, 7)).await;
    conflict(&case, &case.err(storage.update(&version(9, 9), &before).await), &id);
    ctx.stored(&case, &version(7, 7)).await;
    ctx.finish().await;
}
