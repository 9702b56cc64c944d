//! Creating sessions.

use neuron_types::VersionedSessionStorage;

use super::context::{Kind, TestContext, is_error, same};
use super::sample;

/// Number of tasks that create a session at the same time.
const CREATORS: u64 = 12;

/// Checks that [`create`](VersionedSessionStorage::create) succeeds once for an id, also if several tasks
/// create at the same time, and that all methods report a missing session.
///
/// # Panics
///
/// At the first violation.
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
    // Equal content is a conflict too.
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
