//! Checks concurrent writes to one session.

use neuron_types::{Session, SessionStorage, StorageError};
use tokio::task::JoinHandle;

use super::context::{TestContext, same};
use super::sample;

/// Number of tasks that save concurrently.
const WRITERS: u64 = 12;

/// Number of saves in each task.
const SAVES: usize = 6;

/// Checks that all concurrent saves of a session succeed, and that the stored session equals one of the saved sessions.
///
/// Concurrent loads and lists must return complete sessions. After a concurrent delete, the session must be complete or
/// not stored.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn writers<S>(storage: &S)
where
    S: SessionStorage + Clone + 'static,
{
    let mut ctx = TestContext::new("writers", storage);
    ctx.begin(format_args!("{WRITERS} writers of one session"));
    let id = ctx.id("session");
    let version = |writer: u64| sample::written(&id, writer, 10 + writer as usize, 200);
    ctx.save(&version(0)).await;
    let tasks: Vec<_> =
        (0..WRITERS).map(|writer| spawn_saves(storage, version(writer), SAVES)).collect();
    for _ in 0..SAVES * 4 {
        // A storage whose futures never wait would block the other tasks without this yield.
        tokio::task::yield_now().await;
        let loaded = ctx.ok(storage.load(&id)).await;
        same(&ctx.case, &loaded, &version(loaded.state.event_count));
        for summary in ctx.listed().await {
            let counts = 10..10 + WRITERS as usize;
            ctx.case.holds(counts.contains(&summary.message_count), format_args!("{summary:?}"));
        }
    }
    for task in tasks {
        ctx.case.ok(ctx.case.ok(ctx.case.soon(task).await));
    }
    let last = ctx.ok(storage.load(&id)).await;
    same(&ctx.case, &last, &version(last.state.event_count));

    ctx.begin("a writer and a task that deletes");
    let writer = spawn_saves(storage, version(1), SAVES * 4);
    let is_missing = |error: &StorageError| matches!(error, StorageError::NotFound(_));
    for _ in 0..SAVES * 4 {
        tokio::task::yield_now().await;
        if let Err(error) = ctx.case.soon(storage.delete(&id)).await {
            ctx.case.holds(is_missing(&error), format_args!("delete failed: {error}"));
        }
        match ctx.case.soon(storage.load(&id)).await {
            Ok(session) => same(&ctx.case, &session, &version(1)),
            Err(error) => ctx.case.holds(is_missing(&error), format_args!("load failed: {error}")),
        }
        ctx.listed().await;
    }
    ctx.case.ok(ctx.case.ok(ctx.case.soon(writer).await));
    ctx.save(&version(1)).await;
    ctx.finish().await;
}

/// Starts a task that saves the same session `saves` times.
fn spawn_saves<S: SessionStorage + Clone + 'static>(
    storage: &S,
    session: Session,
    saves: usize,
) -> JoinHandle<Result<(), StorageError>> {
    let storage = storage.clone();
    tokio::spawn(async move {
        for _ in 0..saves {
            storage.save(&session).await?;
        }
        Ok(())
    })
}
