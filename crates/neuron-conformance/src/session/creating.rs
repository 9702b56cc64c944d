//! Sessions under ids that are free, or not.

use neuron_types::VersionedSessionStorage;

use super::context::{TestContext, conflict, not_found, same};
use super::sample;

/// How many create a session at once.
const CREATORS: u64 = 12;

/// Checks that [`create`](VersionedSessionStorage::create) gives an id once, also to several at the
/// same time, and that what cannot be found is told by all methods.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn creating<S>(storage: &S)
where
    S: VersionedSessionStorage + Clone + 'static,
{
    let ctx = TestContext::new("creating", storage);
    let case = ctx.case("an id that is free");
    let session = sample::everything(ctx.id("session"));
    let first = case.ok(case.soon(storage.create(&session)).await);
    let (loaded, revision) = case.ok(case.soon(storage.load_versioned(&session.id)).await);
    same(&case, &loaded, &session);
    case.equal("the revision loaded", &revision, &first);
    case.equal("the revision", &case.ok(storage.revision(&session.id).await), &first);
    case.equal("what is listed", ctx.listed(&case).await, vec![session.summary()]);

    let case = ctx.case("an id that is taken");
    let other = sample::written(&session.id, 2, 5, 10);
    conflict(&case, &case.err(case.soon(storage.create(&other)).await), &session.id);
    // Equal content is no excuse.
    conflict(&case, &case.err(case.soon(storage.create(&session)).await), &session.id);
    ctx.stored(&case, &session).await;
    case.equal("the revision", &case.ok(storage.revision(&session.id).await), &first);

    let case = ctx.case("an id that was saved");
    let saved = ctx.session("saved");
    ctx.save(&case, &saved).await;
    conflict(&case, &case.err(case.soon(storage.create(&saved)).await), &saved.id);

    let case = ctx.case("an id that was deleted");
    case.ok(case.soon(storage.delete(&session.id)).await);
    let error = case.err(case.soon(storage.load_versioned(&session.id)).await);
    not_found(&case.step("load_versioned"), &error, &session.id);
    let error = case.err(case.soon(storage.revision(&session.id)).await);
    not_found(&case.step("revision"), &error, &session.id);
    let error = case.err(case.soon(storage.update(&session, &first)).await);
    not_found(&case.step("update"), &error, &session.id);
    let error = case.err(case.soon(storage.append(&session.id, &[], None, &first)).await);
    not_found(&case.step("append"), &error, &session.id);
    ctx.absent(&case, &session.id).await;
    case.ok(case.soon(storage.create(&other)).await);
    ctx.stored(&case, &other).await;

    for round in 0..5 {
        let case = ctx.case(format_args!("{CREATORS} at once"));
        let id = ctx.id(format_args!("contested-{round}"));
        let version = |creator: u64| sample::written(&id, creator, creator as usize, 50);
        let tasks: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (storage, session) = (storage.clone(), version(creator));
                tokio::spawn(async move { (creator, storage.create(&session).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            match case.ok(case.soon(task).await) {
                (creator, Ok(revision)) => winners.push((creator, revision)),
                (_, Err(error)) => conflict(&case, &error, &id),
            }
        }
        case.equal("the number of those who could", winners.len(), 1);
        let (loaded, revision) = case.ok(case.soon(storage.load_versioned(&id)).await);
        case.equal("the winner", winners, vec![(loaded.state.event_count, revision)]);
        same(&case, &loaded, &version(loaded.state.event_count));
    }
    ctx.finish().await;
}
