//! Waiting for work that can be cancelled.

use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::LoopError;
use tokio_util::sync::CancellationToken;

/// Waits for `work`, or for the cancellation of the run. Work of a run that is cancelled already does not begin. Work
/// that is done counts, also when both are.
pub(crate) async fn or_cancelled<T>(
    token: &CancellationToken,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    check(token)?;
    match select(pin!(work), pin!(token.cancelled())).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => Err(LoopError::Cancelled),
    }
}

/// Fails if the run was cancelled.
pub(crate) fn check(token: &CancellationToken) -> Result<(), LoopError> {
    if token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
