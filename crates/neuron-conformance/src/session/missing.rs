//! Sessions that are not there.

use neuron_types::{SessionStorage, StorageError};

use super::context::{TestContext, not_found};

/// Checks that a session that was never there, or was deleted, is
/// [`StorageError::NotFound`], and that its id is free again.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn missing<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("missing", storage);
    let refused = async |case: &crate::case::Case, id: &str| {
        ctx.absent(case, id).await;
        let error: StorageError = case.err(case.soon(storage.delete(id)).await);
        not_found(case, &error, id);
    };

    refused(&ctx.case("never there"), &ctx.id("never")).await;

    let case = ctx.case("deleted");
    let (session, other) = (ctx.session("session"), ctx.session("session-2"));
    ctx.save(&case, &session).await;
    ctx.save(&case, &other).await;
    case.ok(case.soon(storage.delete(&session.id)).await);
    refused(&case, &session.id).await;
    let ids: Vec<String> = ctx.listed(&case).await.into_iter().map(|one| one.id).collect();
    case.equal("the sessions listed", ids, vec![other.id.clone()]);
    ctx.stored(&case.step("the other one"), &other).await;

    let case = ctx.case("saved after it was deleted");
    let mut shorter = session.clone();
    shorter.messages.pop();
    ctx.save(&case, &shorter).await;
    ctx.stored(&case, &shorter).await;
    ctx.finish().await;
}
