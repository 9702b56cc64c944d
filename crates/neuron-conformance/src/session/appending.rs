//! Appending messages.

use neuron_types::{Message, Session, SessionState, VersionedSessionStorage};

use super::context::TestContext;
use super::sample;

/// Checks that [`append`](VersionedSessionStorage::append) adds messages behind the stored messages.
///
/// It replaces the state if one is given, and writes nothing with an old revision.
///
/// # Panics
///
/// At the first violation.
pub async fn appending<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("appending", storage);
    let original = Session { state: sample::state(), ..ctx.session("session") };
    let id = &original.id;
    let everything = sample::everything("source").messages;
    let first = ctx.create(&original).await;

    ctx.begin("messages of every kind");
    let mut revision = ctx.append(id, &everything, None, &first).await;
    ctx.begin("one message, many times");
    for index in 0..20 {
        let message = [Message::user(format!("message {index}"))];
        revision = ctx.append(id, &message, None, &revision).await;
    }
    ctx.begin("no message");
    revision = ctx.append(id, &[], None, &revision).await;
    ctx.begin("no message, and a state");
    let mut state = SessionState { event_count: 3, custom: Default::default(), ..sample::state() };
    revision = ctx.append(id, &[], Some(&state), &revision).await;
    ctx.begin("messages and a state");
    state = sample::state();
    state.custom.insert("more".into(), sample::values());
    revision = ctx.append(id, &everything, Some(&state), &revision).await;

    let lost = [Message::user("lost")];
    ctx.begin("an old revision");
    ctx.conflict(id, storage.append(id, &lost, None, &first)).await;
    ctx.begin("an old revision, with a state");
    ctx.conflict(id, storage.append(id, &lost, Some(&SessionState::default()), &first)).await;
    ctx.begin("an old revision, without messages");
    ctx.conflict(id, storage.append(id, &[], None, &first)).await;
    ctx.check_versioned(id, &revision).await;

    for (name, length) in [("shorter", 3), ("empty", 0)] {
        ctx.begin(format_args!("after a history was made {name}"));
        let mut session = ctx.stored(id).clone();
        session.messages.truncate(length);
        revision = ctx.update(&session, &revision).await;
        revision = ctx.append(id, &everything, None, &revision).await;
    }
    ctx.begin("after a save");
    let mut session = ctx.stored(id).clone();
    session.messages.pop();
    ctx.save(&session).await;
    ctx.conflict(id, storage.append(id, &lost, None, &revision)).await;
    let saved = ctx.ok(storage.revision(id)).await;
    ctx.append(id, &everything, None, &saved).await;

    ctx.begin("to 10000 messages");
    session.messages = sample::messages(1, 10_000, 50);
    let saved = ctx.save_versioned(&session).await;
    ctx.append(id, &sample::messages(2, 1000, 50), None, &saved).await;
    ctx.finish().await;
}
