//! Sessions that are not there.

use neuron_types::{SessionStorage, StorageError};

use super::bench::{Bench, not_found};

/// Checks that a session that was never there, or was deleted, is
/// [`StorageError::NotFound`], and that its id is free again.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn missing<S: SessionStorage>(storage: &S) {
    let bench = Bench::new("missing", storage);
    let refused = async |case: &crate::conformance::case::Case, id: &str| {
        bench.absent(case, id).await;
        let error: StorageError = case.err(case.soon(storage.delete(id)).await);
        not_found(case, &error, id);
    };

    refused(&bench.case("never there"), &bench.id("never")).await;

    let case = bench.case("deleted");
    let (session, other) = (bench.session("session"), bench.session("session-2"));
    bench.save(&case, &session).await;
    bench.save(&case, &other).await;
    case.ok(case.soon(storage.delete(&session.id)).await);
    refused(&case, &session.id).await;
    let ids: Vec<String> = bench.listed(&case).await.into_iter().map(|one| one.id).collect();
    case.equal("the sessions listed", ids, vec![other.id.clone()]);
    bench.stored(&case.step("the other one"), &other).await;

    let case = bench.case("saved after it was deleted");
    let mut shorter = session.clone();
    shorter.messages.pop();
    bench.save(&case, &shorter).await;
    bench.stored(&case, &shorter).await;
    bench.finish().await;
}
