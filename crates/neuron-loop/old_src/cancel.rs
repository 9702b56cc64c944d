//! What cancelling means, and waiting for work that can be cancelled.

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::{LoopError, ToolContext};
use tokio_util::sync::CancellationToken;

/// When a run ends whose [`ToolContext::cancellation_token`] is cancelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// At once, inside a hanging provider, stream or tool. The default.
    #[default]
    Now,
    /// Before the next turn: what the turn has begun is finished, the model's answer, its tools and
    /// their results, and then the run ends with [`LoopError::Cancelled`]. If the answer was the last,
    /// the run ends with it.
    ///
    /// Tools, and agents within them, do not learn of the cancellation: their token is one of its own.
    /// A provider or tool that hangs is waited for; dropping the run stops it at once in any case.
    AfterTurn,
}

impl CancelMode {
    /// The context of what happens within a turn.
    pub(crate) fn within_turn(self, ctx: &ToolContext) -> Cow<'_, ToolContext> {
        match self {
            Self::Now => Cow::Borrowed(ctx),
            Self::AfterTurn => {
                let cancellation_token = CancellationToken::new();
                Cow::Owned(ToolContext { cancellation_token, ..ctx.clone() })
            }
        }
    }
}

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
