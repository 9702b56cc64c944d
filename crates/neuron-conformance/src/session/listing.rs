//! The list of sessions.

use neuron_types::SessionStorage;

use super::context::TestContext;
use super::sample;

/// Ids in an order that is not the order of their bytes. The orders of languages differ from both.
const NAMES: [&str; 15] =
    ["b", "a", "B", "a-b", "ab", "a_b", "a b", "ä", "z", "A", "10", "9", "対", "~", "a.b"];

/// Checks that all sessions are listed in the order of the bytes of their ids.
///
/// Each has the number of its messages and its times. Lists follow every save and delete.
///
/// # Panics
///
/// At the first violation.
pub async fn listing<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("listing", storage);
    ctx.begin("nothing");
    ctx.check_list().await;
    for (index, name) in NAMES.into_iter().enumerate() {
        ctx.begin(format_args!("{name:?} more"));
        let mut session = sample::written(ctx.id(name), 1, index, 10);
        session.created_at = sample::moment(1_700_000_000, 999_999_999);
        session.updated_at = sample::moment(1_700_000_000 - index as i64, 1);
        ctx.save(&session).await;
    }
    ctx.begin("the list with the sessions of others");
    let all = ctx.ok(storage.list()).await;
    ctx.case.holds(all.is_sorted_by(|one, other| one.id < other.id), "it is not sorted by id");
    for summary in ctx.listed().await.into_iter().rev() {
        ctx.begin(format_args!("{:?} less", summary.id));
        ctx.delete(&summary.id).await;
    }
    ctx.finish().await;
}
