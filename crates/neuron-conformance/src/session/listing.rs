//! What a list says.

use neuron_types::SessionStorage;

use super::context::TestContext;
use super::sample;

/// Checks that all sessions are listed in the order of their ids, byte by byte, each with the number
/// of its messages and its times, and that lists follow every save and delete.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn listing<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("listing", storage);
    let case = ctx.case("nothing");
    case.equal("what is listed", ctx.listed(&case).await.len(), 0);

    // Saved in another order than that of their bytes, in which languages would not have them.
    let names =
        ["b", "a", "B", "a-b", "ab", "a_b", "a b", "ä", "z", "A", "10", "9", "対", "~", "a.b"];
    let mut expected = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let case = ctx.case(format_args!("{name:?} more"));
        let mut session = sample::written(ctx.id(name), 1, index, 10);
        session.created_at = sample::moment(1_700_000_000, 999_999_999);
        session.updated_at = sample::moment(1_700_000_000 - index as i64, 1);
        ctx.save(&case, &session).await;
        expected.push(session.summary());
        expected.sort_by(|one, other| one.id.cmp(&other.id));
        case.equal("what is listed", ctx.listed(&case).await, expected.clone());
    }

    let case = ctx.case("the list as a whole");
    let all = case.ok(case.soon(storage.list()).await);
    case.holds(
        all.is_sorted_by(|one, other| one.id < other.id),
        "it is not in the order of the ids",
    );

    while let Some(removed) = expected.pop() {
        let case = ctx.case(format_args!("{:?} less", removed.id));
        case.ok(case.soon(storage.delete(&removed.id)).await);
        case.equal("what is listed", ctx.listed(&case).await, expected.clone());
    }
    ctx.finish().await;
}
