//! Checks writes whose future is dropped before it completes.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use neuron_types::{Message, Session, SessionStorage, StorageError, VersionedSessionStorage};

use super::context::{TestContext, same, same_content};
use super::sample;

/// Checks that dropping a save at any point leaves either the old or the new session.
///
/// The storage must remain usable. A dropped save must not overwrite a later save.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn dropping<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("dropping", storage);
    let id = ctx.id("session");
    for (round, moment) in moments().enumerate() {
        ctx.begin(format_args!("a save dropped after {moment:?}"));
        let [old, new, later] = [0, 1, 2].map(|which| version(&id, round as u64 * 3 + which));
        ctx.save(&old).await;
        moment.poll(storage.save(&new)).await;
        let loaded = ctx.ok(storage.load(&id)).await;
        let is_old = loaded.state.event_count == old.state.event_count;
        same(&ctx.case, &loaded, if is_old { &old } else { &new });

        ctx.begin(format_args!("a save dropped after {moment:?}, then saved again"));
        ctx.save(&later).await;
        // Gives a dropped save that still runs in the background time to write.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        ctx.check(&id).await;
    }
    // The first save of a session leaves no session or a whole session.
    for (round, moment) in moments().enumerate() {
        ctx.begin(format_args!("a first save dropped after {moment:?}"));
        let session = version(&ctx.id(format_args!("first-{round}")), 1);
        moment.poll(storage.save(&session)).await;
        match ctx.case.soon(storage.load(&session.id)).await {
            Ok(loaded) => same(&ctx.case, &loaded, &session),
            Err(StorageError::NotFound(_)) => {}
            Err(error) => ctx.case.fail(format_args!("failed: {error} ({error:?})")),
        }
        ctx.listed().await;
    }
    ctx.finish().await;
}

/// Checks that dropping an `update` or `append` at any point leaves either the old or the new session.
///
/// After a dropped write, a caller does not know the revision and must load the session again.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn versioned_dropping<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("versioned_dropping", storage);
    let id = ctx.id("session");
    for (round, moment) in moments().enumerate() {
        let old = version(&id, round as u64 * 2);
        let updated = version(&id, round as u64 * 2 + 1);
        ctx.begin(format_args!("an update dropped after {moment:?}"));
        let revision = ctx.save_versioned(&old).await;
        moment.poll(storage.update(&updated, &revision)).await;
        settle(&mut ctx, &old, &updated).await;

        ctx.begin(format_args!("an append dropped after {moment:?}"));
        let revision = ctx.save_versioned(&old).await;
        let messages = sample::messages(9, 7, 1000);
        moment.poll(storage.append(&id, &messages, None, &revision)).await;
        let mut appended = old.clone();
        appended.messages.extend(messages);
        settle(&mut ctx, &old, &appended).await;
    }
    ctx.finish().await;
}

/// Appends a message, and retries after each conflict until the append succeeds. An earlier dropped write can then no
/// longer take effect.
///
/// Checks that the stored session is `old` or `new`, followed by the appended message.
async fn settle<S: VersionedSessionStorage>(
    ctx: &mut TestContext<'_, S>,
    old: &Session,
    new: &Session,
) {
    let (storage, id, mark) = (ctx.storage, &old.id, Message::user("the last one"));
    let append = async {
        loop {
            let revision = storage.revision(id).await?;
            match storage.append(id, std::slice::from_ref(&mark), None, &revision).await {
                Err(StorageError::Conflict { .. }) => {}
                appended => return appended,
            }
        }
    };
    ctx.ok(append).await;
    let settled = ctx.ok(storage.load(id)).await;
    let is_old = settled.messages.len() == old.messages.len() + 1
        && settled.state.event_count == old.state.event_count;
    let mut expected = if is_old { old } else { new }.clone();
    expected.messages.push(mark);
    same_content(&ctx.case, &settled, &expected);
    ctx.must_hold(&settled);
}

/// Returns a session that is large enough for its write to take some time. Its `event_count` is the number `writer`.
fn version(id: &str, writer: u64) -> Session {
    sample::written(id, writer, 200 + (writer % 7) as usize, 500)
}

/// The point at which a test drops a future of the storage.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// The future is dropped after this many polls.
    Polls(usize),
    /// The future is dropped after this time.
    Time(Duration),
}

/// Returns all points at which the checks drop a future.
fn moments() -> impl Iterator<Item = Moment> {
    let polls = [0, 1, 2, 3, 4, 6, 9, 14, 22, 35, 56, 90, 145].map(Moment::Polls);
    let times = [1, 2, 3, 4, 6, 9].map(|millis| Moment::Time(Duration::from_millis(millis)));
    polls.into_iter().chain(times)
}

impl Moment {
    /// Polls `work` until this point, then drops it. Returns earlier if `work` completes.
    async fn poll(self, work: impl Future) {
        let end = pin!(async {
            match self {
                Self::Polls(polls) => {
                    for _ in 0..polls {
                        tokio::task::yield_now().await;
                    }
                }
                Self::Time(time) => tokio::time::sleep(time).await,
            }
        });
        futures_util::future::select(end, pin!(work)).await;
    }
}
