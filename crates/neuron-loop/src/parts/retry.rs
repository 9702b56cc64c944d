//! Making a call of the model again after an error that may pass.

use std::time::Duration;

use neuron_types::{
    CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext, ProviderError, StreamEvent,
};

use super::{check, or_cancelled, wait};

/// The longest wait that a provider may ask for before another attempt.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Makes a call again after an error that may pass. The reader of a stream is told that what it was shown counts no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    /// How often a call is made again.
    pub(crate) retries: usize,
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
            if attempt > self.retries || call.is_last || pause > MAX_WAIT {
                return Err(error.into());
            }
            check(call.cancellation)?;
            attempt += 1;
            tracing::debug!(parent: None, %error, attempt, "a call of the model failed; it is made again");
            if let Some(sink) = next.sink() {
                let error = LoopError::Provider(error).into();
                sink.send(StreamEvent::Reset { attempt, error }).await;
            }
            or_cancelled(call.cancellation, async {
                wait(pause).await;
                Ok(())
            })
            .await?;
        }
    }
}

/// Whether the same call may succeed. A stream that breaks within an answer is retried too: what was shown is taken back.
fn may_pass(error: &ProviderError, next: ModelNext<'_>) -> bool {
    error.is_retryable()
        || (next.sink().is_some() && matches!(error, ProviderError::StreamError(_)))
}
