//! Sessions that are not stored.

use neuron_types::SessionStorage;

use super::context::{Kind, TestContext};

/// Checks that a session that was never stored, or was deleted, is
/// [`StorageError::NotFound`](neuron_types::StorageError::NotFound), and that its id can be used again.
///
/// # Panics
///
/// At the first violation.
pub async fn missing<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("missing", storage);
    let (mut session, other) = (ctx.session("session"), ctx.session("session-2"));
    ctx.begin("never there");
    ctx.fails(Kind::NotFound, &session.id, storage.load(&session.id)).await;
    ctx.fails(Kind::NotFound, &session.id, storage.delete(&session.id)).await;

    ctx.begin("deleted");
    ctx.save(&session).await;
    ctx.save(&other).await;
    ctx.delete(&session.id).await;
    ctx.fails(Kind::NotFound, &session.id, storage.delete(&session.id)).await;
    ctx.check(&other.id).await;

    ctx.begin("saved after it was deleted");
    session.messages.pop();
    ctx.save(&session).await;
    ctx.finish().await;
}
