//! Retries of model calls after transient errors.

use std::time::Duration;

use crate::clock::sleep;
use crate::{
    CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext, ProviderError, StreamEvent,
};

/// Longest delay requested by a provider after which a call is retried.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A [layer](ModelLayer) that retries a model call after a transient error.
///
/// It waits for the delay that the provider requests, if there is a clock. A requested delay of more than one minute
/// ends the retries. Before each retry, the reader of a stream receives a [`StreamEvent::Reset`] that voids the deltas
/// so far. Calls of a durable engine are not retried, because the engine retries them itself.
///
/// # Example
///
/// ```
/// use neuron_types::{BoxedLayer, Retry};
///
/// let layer = BoxedLayer::new(Retry::new(2));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    retries: usize,
}

impl Retry {
    /// Creates a layer with a maximum number of retries per call.
    #[must_use]
    pub fn new(retries: usize) -> Self {
        Self { retries }
    }
}

impl ModelLayer for Retry {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let mut attempt = 1;
        loop {
            let error = match next.run(call).await {
                Err(LoopError::Provider(error)) if is_transient(&error, next) => error,
                answered => return answered,
            };
            let pause = error.retry_after().unwrap_or_default();
            if attempt > self.retries || call.is_last || call.is_durable || pause > MAX_WAIT {
                return Err(error.into());
            }
            // A cancelled run must not announce another attempt.
            if call.cancellation.is_cancelled() {
                return Err(LoopError::Cancelled);
            }
            attempt += 1;
            if let Some(sink) = next.sink() {
                let error = LoopError::Provider(error).into();
                sink.send(StreamEvent::Reset { attempt, error }).await;
            }
            if call.cancellation.run_until_cancelled(sleep(pause)).await.is_none() {
                return Err(LoopError::Cancelled);
            }
        }
    }
}

/// Returns `true` if the call may be retried. That includes a stream that broke within the response, because a reset
/// voids the deltas.
fn is_transient(error: &ProviderError, next: ModelNext<'_>) -> bool {
    error.is_retryable()
        || (next.sink().is_some() && matches!(error, ProviderError::StreamError(_)))
}
