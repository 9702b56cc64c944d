//! Checks the methods of [`VersionedSessionStorage`].

use neuron_types::{Message, Session, SessionRevision, SessionState, VersionedSessionStorage};

use super::context::{Kind, TestContext, is_error, same};
use super::sample;

/// Number of tasks that create the same session concurrently.
const CREATORS: u64 = 12;

/// Checks that [`create`](VersionedSessionStorage::create) succeeds once for an id, even if several tasks call it
/// concurrently.
///
/// After a session was deleted, `load`, `load_versioned`, `revision`, `update` and `append` must return
/// [`NotFound`](neuron_types::StorageError::NotFound).
///
/// # Panics
///
/// Panics at the first violation.
pub async fn creating<S>(storage: &S)
where
    S: VersionedSessionStorage + Clone + 'static,
{
    let mut ctx = TestContext::new("creating", storage);
    ctx.begin("an id that is free");
    let session = sample::everything(ctx.id("session"));
    let id = &session.id;
    let first = ctx.create(&session).await;

    ctx.begin("an id that is taken");
    let other = sample::written(id, 2, 5, 10);
    ctx.conflict(id, storage.create(&other)).await;
    // Creating a session that is equal to the stored session is a conflict too.
    ctx.conflict(id, storage.create(&session)).await;
    ctx.check_versioned(id, &first).await;

    ctx.begin("an id that was saved");
    let saved = ctx.session("saved");
    ctx.save(&saved).await;
    ctx.conflict(&saved.id, storage.create(&saved)).await;

    ctx.begin("an id that was deleted");
    ctx.delete(id).await;
    ctx.fails(Kind::NotFound, id, storage.load_versioned(id)).await;
    ctx.fails(Kind::NotFound, id, storage.revision(id)).await;
    ctx.fails(Kind::NotFound, id, storage.update(&session, &first)).await;
    ctx.fails(Kind::NotFound, id, storage.append(id, &[], None, &first)).await;
    ctx.fails(Kind::NotFound, id, storage.load(id)).await;
    ctx.create(&other).await;

    for round in 0..5 {
        ctx.begin(format_args!("{CREATORS} at once"));
        let id = ctx.id(format_args!("contested-{round}"));
        let version = |creator: u64| sample::written(&id, creator, creator as usize, 50);
        let create = |creator| {
            let (storage, session) = (storage.clone(), version(creator));
            tokio::spawn(async move { (creator, storage.create(&session).await) })
        };
        let mut winners = Vec::new();
        for task in (0..CREATORS).map(create).collect::<Vec<_>>() {
            match ctx.case.ok(ctx.case.soon(task).await) {
                (creator, Ok(revision)) => winners.push((creator, revision)),
                (_, Err(error)) => is_error(&ctx.case, Kind::Conflict, &id, error),
            }
        }
        ctx.case.equal("the number of creators that succeeded", winners.len(), 1);
        let (loaded, revision) = ctx.ok(storage.load_versioned(&id)).await;
        let creator = loaded.state.event_count;
        ctx.case.equal("the winner", winners, vec![(creator, revision)]);
        same(&ctx.case, &loaded, &version(creator));
        ctx.must_hold(&loaded);
    }
    ctx.finish().await;
}

/// Checks that [`update`](VersionedSessionStorage::update) writes the session if the caller passes the newest revision.
/// If the caller passes any other revision, `update` must return a conflict and write nothing.
///
/// # Panics
///
/// Panics at the first violation.
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
    // The other session gets as many writes as the first one, so a storage that only counts writes would accept its
    // revision.
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

/// Checks that [`append`](VersionedSessionStorage::append) adds messages after the stored messages.
///
/// If the caller passes a state, `append` must replace the stored state. If the caller passes an old revision, `append`
/// must return a conflict and write nothing.
///
/// # Panics
///
/// Panics at the first violation.
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

/// Checks that every write creates a new revision, and that loading and listing create none.
///
/// A write that does not change the content must also create a new revision. A session that is created again after a
/// delete must not reuse an earlier revision.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn revisions<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("revisions", storage);
    let id = &ctx.id("session");
    let (one, other) = (sample::written(id, 1, 4, 20), sample::written(id, 2, 4, 20));
    let mut old = Vec::new();
    for round in 0..5 {
        // Every write method of the context checks that the returned revision is new.
        ctx.begin(format_args!("round {round}"));
        let created = ctx.create(&one).await;
        // The content changes and changes back. A caller with the revision from before must still get a conflict.
        let there = ctx.update(&other, &created).await;
        let back = ctx.update(&one, &there).await;
        ctx.conflict(id, storage.update(&other, &created)).await;
        ctx.begin(format_args!("round {round}, writes of the stored content"));
        let again = ctx.update(&one, &back).await;
        let appended = ctx.append(id, &[], None, &again).await;
        let saved = ctx.save_versioned(&one).await;
        let saved_again = ctx.save_versioned(&one).await;
        ctx.begin(format_args!("round {round}, reading"));
        for _ in 0..3 {
            ctx.check_list().await;
            ctx.check_versioned(id, &saved_again).await;
        }

        ctx.begin(format_args!("round {round}, deleted and created between"));
        ctx.delete(id).await;
        let recreated = ctx.create(&one).await;
        old.extend([created, there, back, again, appended, saved, saved_again]);
        for old in &old {
            ctx.conflict(id, storage.update(&other, old)).await;
            ctx.conflict(id, storage.append(id, &[], None, old)).await;
        }
        ctx.delete(id).await;
        ctx.begin(format_args!("round {round}, deleted and saved between"));
        let saved = ctx.save_versioned(&one).await;
        ctx.conflict(id, storage.update(&other, &recreated)).await;
        ctx.delete(id).await;
        old.extend([recreated, saved]);
    }
    ctx.finish().await;
}
