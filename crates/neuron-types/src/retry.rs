//! Making a call of the model again after an error that may pass.

use std::time::Duration;

use crate::clock::sleep;
use crate::{
    CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext, ProviderError, StreamEvent,
};

/// The longest wait that a provider may ask for before another attempt.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A [layer](ModelLayer) that makes a call again after an error that may pass. It waits as long as the provider asks, up to
/// a minute, where there is a clock. A durable engine makes calls again itself. The reader of a stream is told that what it was shown counts no more.
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
    /// Makes each call again so often.
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
                Err(LoopError::Provider(error)) if may_pass(&error, next) => error,
                answered => return answered,
            };
            let pause = error.retry_after().unwrap_or_default();
            if attempt > self.retries || call.is_last || call.is_durable || pause > MAX_WAIT {
                return Err(error.into());
            }
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

/// Whether the same call may succeed. A stream that breaks within an answer is retried too: what was shown is taken back.
fn may_pass(error: &ProviderError, next: ModelNext<'_>) -> bool {
    error.is_retryable()
        || (next.sink().is_some() && matches!(error, ProviderError::StreamError(_)))
}
