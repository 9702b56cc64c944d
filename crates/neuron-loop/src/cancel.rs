//! Waiting for work that can be cancelled.

use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::{LoopError, ToolContext};

/// Waits for `work`, or for the run to be cancelled. Of a run that is cancelled already the work does
/// not begin; work that is done counts, also when both are.
pub(crate) async fn or_cancelled<T>(
    ctx: &ToolContext,
    work: impl Future<Output = Result<T, LoopError>>,
) -> Result<T, LoopError> {
    check(ctx)?;
    match select(pin!(work), pin!(ctx.cancellation_token.cancelled())).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => Err(LoopError::Cancelled),
    }
}

pub(crate) fn check(ctx: &ToolContext) -> Result<(), LoopError> {
    if ctx.cancellation_token.is_cancelled() { Err(LoopError::Cancelled) } else { Ok(()) }
}
