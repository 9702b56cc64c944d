//! Several writers of one session at the same time.

use neuron_types::{Session, SessionStorage, StorageError};

use super::context::{TestContext, same};
use super::sample;

/// How many save at once.
const WRITERS: u64 = 12;

/// How often each of them does.
const SAVES: usize = 6;

/// Checks that of saves at the same time one wins, whole, and none fails; that loads and lists in
/// between see whole sessions; and that deletes in between leave all or nothing.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn writers<S>(storage: &S)
where
    S: SessionStorage + Clone + 'static,
{
    let ctx = TestContext::new("writers", storage);
    let case = ctx.case(format_args!("{WRITERS} writers of one session"));
    let id = ctx.id("session");
    let version = |writer: u64| sample::written(&id, writer, 10 + writer as usize, 200);
    ctx.save(&case, &version(0)).await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (storage, session) = (storage.clone(), version(writer));
            tokio::spawn(async move {
                for _ in 0..SAVES {
                    storage.save(&session).await?;
                }
                Ok::<(), StorageError>(())
            })
        })
        .collect();
    let whole = |session: &Session| same(&case, session, &version(session.state.event_count));
    for _ in 0..SAVES * 4 {
        // A storage that waits for nothing would let nobody else have a turn.
        tokio::task::yield_now().await;
        whole(&case.ok(case.soon(storage.load(&id)).await));
        for summary in ctx.listed(&case).await {
            let counts = 10..10 + WRITERS as usize;
            case.holds(counts.contains(&summary.message_count), format_args!("lists {summary:?}"));
        }
    }
    for task in tasks {
        case.ok(case.ok(case.soon(task).await));
    }
    whole(&case.ok(case.soon(storage.load(&id)).await));

    let case = ctx.case("a writer and one who deletes");
    let writer = {
        let (storage, session) = (storage.clone(), version(1));
        tokio::spawn(async move {
            for _ in 0..SAVES * 4 {
                storage.save(&session).await?;
            }
            Ok::<(), StorageError>(())
        })
    };
    let is_missing = |error: &StorageError| matches!(error, StorageError::NotFound(_));
    for _ in 0..SAVES * 4 {
        tokio::task::yield_now().await;
        if let Err(error) = case.soon(storage.delete(&id)).await {
            case.holds(is_missing(&error), format_args!("delete failed: {error}"));
        }
        match case.soon(storage.load(&id)).await {
            Ok(session) => same(&case, &session, &version(1)),
            Err(error) => case.holds(is_missing(&error), format_args!("load failed: {error}")),
        }
        ctx.listed(&case).await;
    }
    case.ok(case.ok(case.soon(writer).await));
    ctx.finish().await;
}
