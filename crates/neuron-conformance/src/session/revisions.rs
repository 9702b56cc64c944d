//! Revisions: one a write.

use std::collections::HashSet;

use neuron_types::VersionedSessionStorage;

use super::context::{TestContext, conflict, same};
use super::sample;

/// Checks that every write gives a revision that there never was, also if it writes what is there
/// already or a session that was deleted in between, and that reading gives none.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn revisions<S: VersionedSessionStorage>(storage: &S) {
    let ctx = TestContext::new("revisions", storage);
    let id = ctx.id("session");
    let one = sample::written(&id, 1, 4, 20);
    let other = sample::written(&id, 2, 4, 20);
    let mut seen = HashSet::new();

    for round in 0..5 {
        let case = ctx.case(format_args!("round {round}"));
        let mut note = |what: &str, revision: &neuron_types::SessionRevision| {
            let is_new = seen.insert(revision.clone());
            case.holds(is_new, format_args!("{what} gave {revision:?}, which there was before"));
        };
        let created = case.ok(case.soon(storage.create(&one)).await);
        note("create", &created);
        // There and back: who read before must not take it for unchanged.
        let there = case.ok(case.soon(storage.update(&other, &created)).await);
        note("update", &there);
        let back = case.ok(case.soon(storage.update(&one, &there)).await);
        note("update", &back);
        conflict(&case, &case.err(storage.update(&other, &created).await), &id);
        let same_again = case.ok(case.soon(storage.update(&one, &back)).await);
        note("update with what is there", &same_again);
        let appended = case.ok(case.soon(storage.append(&id, &[], None, &same_again)).await);
        note("append of nothing", &appended);
        ctx.save(&case, &one).await;
        let saved = case.ok(case.soon(storage.revision(&id)).await);
        note("save", &saved);
        ctx.save(&case, &one).await;
        let saved = case.ok(case.soon(storage.revision(&id)).await);
        note("save of what is there", &saved);

        let case = case.step("reading");
        for _ in 0..3 {
            let (loaded, revision) = case.ok(case.soon(storage.load_versioned(&id)).await);
            same(&case, &loaded, &one);
            case.equal("the revision", &revision, &saved);
            ctx.listed(&case).await;
        }

        let case = ctx.case(format_args!("round {round}, deleted and created between"));
        case.ok(case.soon(storage.delete(&id)).await);
        let recreated = case.ok(case.soon(storage.create(&one)).await);
        case.holds(seen.insert(recreated.clone()), "create gave a revision that there was before");
        for old in seen.iter().filter(|old| **old != recreated) {
            conflict(&case, &case.err(storage.update(&other, old).await), &id);
            conflict(&case, &case.err(storage.append(&id, &[], None, old).await), &id);
        }
        ctx.stored(&case, &one).await;
        case.ok(case.soon(storage.delete(&id)).await);
        // Saved instead of created, too.
        ctx.save(&case, &one).await;
        let saved = case.ok(case.soon(storage.revision(&id)).await);
        case.holds(seen.insert(saved), "save gave a revision that there was before");
        conflict(&case, &case.err(storage.update(&other, &recreated).await), &id);
        case.ok(case.soon(storage.delete(&id)).await);
    }
    ctx.finish().await;
}
