//! Writes whose future is dropped.

use std::future::Future;
use std::time::Duration;

use neuron_types::{Message, Session, SessionStorage, StorageError, VersionedSessionStorage};

use super::context::{TestContext, same, same_content};
use super::sample;
use crate::case::Case;

/// Checks that a save that is dropped at any point leaves the old or the new session, whole, that the
/// storage can be used as before, and that a dropped save does not undo a later one.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn dropping<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("dropping", storage);
    let id = ctx.id("session");
    for (round, moment) in moments().enumerate() {
        let case = ctx.case(format_args!("a save dropped after {moment:?}"));
        let writer = round as u64 * 3;
        let [old, new, later] = [0, 1, 2].map(|which| version(&id, writer + which));
        ctx.save(&case, &old).await;
        moment.give(storage.save(&new)).await;
        let loaded = case.ok(case.soon(storage.load(&id)).await);
        same(&case, &loaded, if loaded.state.event_count == writer { &old } else { &new });

        let case = case.step("then saved again");
        ctx.save(&case, &later).await;
        ctx.stored(&case, &later).await;
        // What may still be under way has its turn.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        ctx.stored(&case.step("a moment later"), &later).await;
    }
    first_save(&ctx).await;
    ctx.finish().await;
}

/// A first save leaves nothing or all of it.
async fn first_save<S: SessionStorage>(ctx: &TestContext<'_, S>) {
    for (round, moment) in moments().enumerate() {
        let case = ctx.case(format_args!("a first save dropped after {moment:?}"));
        let session = version(&ctx.id(format_args!("first-{round}")), 1);
        moment.give(ctx.storage.save(&session)).await;
        match case.soon(ctx.storage.load(&session.id)).await {
            Ok(loaded) => same(&case, &loaded, &session),
            Err(StorageError::NotFound(_)) => {}
            Err(error) => case.fail(format_args!("failed: {error} ({error:?})")),
        }
        ctx.listed(&case).await;
    }
}

/// Checks the same of update and append. Who lost sight of a write reads the session again.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn versioned_dropping<S: VersionedSessionStorage>(storage: &S) {
    let ctx = TestContext::new("versioned_dropping", storage);
    let id = ctx.id("session");
    for (round, moment) in moments().enumerate() {
        let case = ctx.case(format_args!("an update dropped after {moment:?}"));
        let (old, new) = (version(&id, round as u64 * 2), version(&id, round as u64 * 2 + 1));
        ctx.save(&case, &old).await;
        let revision = case.ok(case.soon(storage.revision(&id)).await);
        moment.give(storage.update(&new, &revision)).await;
        let settled = settle(&case, storage, &id).await;
        let expected = if settled.state.event_count == old.state.event_count { &old } else { &new };
        same_content(&case, &settled, &with_mark(expected));

        let case = ctx.case(format_args!("an append dropped after {moment:?}"));
        ctx.save(&case, &old).await;
        let revision = case.ok(case.soon(storage.revision(&id)).await);
        let messages: Vec<Message> = (0..7).map(|index| sample::message(9, index, 1000)).collect();
        moment.give(storage.append(&id, &messages, None, &revision)).await;
        let settled = settle(&case, storage, &id).await;
        let mut expected = old.clone();
        if settled.messages.len() > expected.messages.len() + 1 {
            expected.messages.extend(messages);
        }
        same_content(&case, &settled, &with_mark(&expected));
    }
    ctx.finish().await;
}

/// Adds a message to whatever is there, until it is there: then nothing else is under way.
async fn settle<S: VersionedSessionStorage>(case: &Case, storage: &S, id: &str) -> Session {
    let work = async {
        loop {
            let revision = case.ok(storage.revision(id).await);
            match storage.append(id, &[mark()], None, &revision).await {
                Ok(_) => break case.ok(storage.load(id).await),
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => case.fail(format_args!("failed: {error} ({error:?})")),
            }
        }
    };
    case.soon(work).await
}

fn mark() -> Message {
    Message::user("the last one")
}

fn with_mark(session: &Session) -> Session {
    let mut session = session.clone();
    session.messages.push(mark());
    session
}

/// A session that takes a moment to write, and whose length says which it is.
fn version(id: &str, writer: u64) -> Session {
    sample::written(id, writer, 200 + (writer % 7) as usize, 500)
}

/// How long a future lives.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// It is never polled.
    Never,
    /// For so many turns of the executor.
    Turns(usize),
    /// For so long.
    Time(Duration),
}

fn moments() -> impl Iterator<Item = Moment> {
    let turns = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144].map(Moment::Turns);
    let times = [1, 2, 3, 4, 6, 9].map(|millis| Moment::Time(Duration::from_millis(millis)));
    [Moment::Never].into_iter().chain(turns).chain(times)
}

impl Moment {
    /// Polls a future for as long, and drops it.
    async fn give(self, work: impl Future) {
        match self {
            Self::Never => drop(work),
            Self::Turns(turns) => {
                let end = async {
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                };
                let work = std::pin::pin!(work);
                futures_util::future::select(work, std::pin::pin!(end)).await;
            }
            Self::Time(time) => drop(tokio::time::timeout(time, work).await),
        }
    }
}
