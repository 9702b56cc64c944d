//! Adding messages, if nobody else wrote.

use neuron_types::{Message, Session, VersionedSessionStorage};

use super::context::{TestContext, conflict, same_content};
use super::sample;
use crate::case::Case;

/// Checks that [`append`](VersionedSessionStorage::append) adds messages behind those that are there,
/// replaces the state if one is given, and adds nothing for who does not know the newest revision.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn appending<S: VersionedSessionStorage>(storage: &S) {
    let ctx = TestContext::new("appending", storage);
    let id = ctx.id("session");
    let mut session = sample::small(&id);
    session.state = sample::state();
    let case = ctx.case("the session");
    let first = case.ok(case.soon(storage.create(&session)).await);
    let everything = sample::everything("source").messages;

    let case = ctx.case("messages of every kind");
    let mut revision = append(&ctx, &case, &mut session, &everything, false, &first).await;
    let case = ctx.case("one message, many times");
    for index in 0..20 {
        let message = [Message::user(format!("message {index}"))];
        revision = append(&ctx, &case, &mut session, &message, false, &revision).await;
    }
    let case = ctx.case("no message");
    revision = append(&ctx, &case, &mut session, &[], false, &revision).await;
    let case = ctx.case("no message, and a state");
    session.state.event_count = 3;
    session.state.custom.clear();
    revision = append(&ctx, &case, &mut session, &[], true, &revision).await;
    let case = ctx.case("messages and a state");
    session.state = sample::state();
    session.state.custom.insert("more".into(), sample::values());
    revision = append(&ctx, &case, &mut session, &everything, true, &revision).await;

    let case = ctx.case("an old revision");
    let lost = [Message::user("lost")];
    let error = case.err(case.soon(storage.append(&id, &lost, None, &first)).await);
    conflict(&case, &error, &id);
    let state = Default::default();
    let error = case.err(case.soon(storage.append(&id, &lost, Some(&state), &first)).await);
    conflict(&case.step("with a state"), &error, &id);
    let error = case.err(case.soon(storage.append(&id, &[], None, &first)).await);
    conflict(&case.step("without messages"), &error, &id);
    let loaded = case.ok(case.soon(storage.load(&id)).await);
    same_content(&case, &loaded, &session);
    case.equal("the revision", &case.ok(storage.revision(&id).await), &revision);

    let case = ctx.case("after a history was made shorter");
    session.messages.truncate(3);
    let shorter = case.ok(case.soon(storage.update(&session, &revision)).await);
    revision = append(&ctx, &case, &mut session, &everything, false, &shorter).await;
    let case = ctx.case("after a history was emptied");
    session.messages.clear();
    let empty = case.ok(case.soon(storage.update(&session, &revision)).await);
    revision = append(&ctx, &case, &mut session, &everything, false, &empty).await;
    let case = ctx.case("after a save");
    session.messages.pop();
    ctx.save(&case, &session).await;
    conflict(&case, &case.err(storage.append(&id, &lost, None, &revision).await), &id);
    let saved = case.ok(case.soon(storage.revision(&id)).await);
    append(&ctx, &case, &mut session, &everything, false, &saved).await;

    let case = ctx.case("to 10000 messages");
    session.messages = sample::written(&id, 1, 10_000, 50).messages;
    ctx.save(&case, &session).await;
    let saved = case.ok(case.soon(storage.revision(&id)).await);
    let many = sample::written(&id, 2, 1000, 50).messages;
    append(&ctx, &case, &mut session, &many, false, &saved).await;
    ctx.finish().await;
}

/// Appends to the storage and to the session, and compares them.
async fn append<S: VersionedSessionStorage>(
    ctx: &TestContext<'_, S>,
    case: &Case,
    session: &mut Session,
    messages: &[Message],
    with_state: bool,
    expected: &neuron_types::SessionRevision,
) -> neuron_types::SessionRevision {
    let begin = chrono::Utc::now();
    let state = with_state.then_some(&session.state);
    let appended = ctx.storage.append(&session.id, messages, state, expected);
    let revision = case.ok(case.soon(appended).await);
    session.messages.extend_from_slice(messages);
    let (loaded, stored) = case.ok(case.soon(ctx.storage.load_versioned(&session.id)).await);
    same_content(case, &loaded, session);
    case.equal("created_at", loaded.created_at, session.created_at);
    // A database may have a clock of its own, and cut the time.
    let difference = (loaded.updated_at - begin).num_minutes().abs();
    case.holds(difference <= 10, format_args!("updated_at is {}", loaded.updated_at));
    case.equal("the revision", &stored, &revision);
    case.holds(revision != *expected, "the revision is the one before");
    case.equal("what is listed", ctx.listed(case).await, vec![loaded.summary()]);
    session.updated_at = loaded.updated_at;
    revision
}
