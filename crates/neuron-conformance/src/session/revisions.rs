//! Revisions of writes.

use neuron_types::VersionedSessionStorage;

use super::context::TestContext;
use super::sample;

/// Checks that every write gives a new revision, and that reading gives none.
///
/// A write gives a new revision also if it writes the stored content, or a session that was deleted before.
///
/// # Panics
///
/// At the first violation.
pub async fn revisions<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("revisions", storage);
    let id = &ctx.id("session");
    let (one, other) = (sample::written(id, 1, 4, 20), sample::written(id, 2, 4, 20));
    let mut old = Vec::new();
    for round in 0..5 {
        // Each write checks that its revision is new.
        ctx.begin(format_args!("round {round}"));
        let created = ctx.create(&one).await;
        // There and back: a reader from before must not take the session for unchanged.
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
