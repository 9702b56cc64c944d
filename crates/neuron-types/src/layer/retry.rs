//! Retries of model calls after transient errors.

use std::future::Future;

use crate::clock::sleep;
use crate::{
    Backoff, CompletionResponse, LoopError, ModelCall, ModelLayer, ModelNext, ProviderError,
    StreamEvent, WasmCompatSend,
};

/// A [layer](ModelLayer) that retries a model call after a transient error.
///
/// - Before a retry, the layer waits for the delay that the provider requests, or else for 0.5 s before the first retry
///   and twice as long before each further one. See [`Backoff`]. If the provider requests more than one minute, the call
///   is not retried.
/// - If no timer is available (see [`sleep`]), a retry is made immediately.
/// - If the response is streamed, a [`StreamEvent::Reset`] is sent before each retry. The reader must discard the
///   deltas of the failed attempt.
/// - Calls through a durable engine are not retried, because the engine retries them itself.
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
    /// Maximum number of retries per model call.
    retries: usize,
}

impl Retry {
    /// Creates a layer with a maximum number of retries per model call.
    #[must_use]
    pub fn new(retries: usize) -> Self {
        Self { retries }
    }
}

impl ModelLayer for Retry {
    // Not an `async fn`, because its future would store `call` twice.
    fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> impl Future<Output = Result<CompletionResponse, LoopError>> + WasmCompatSend {
        async move {
            let mut retries = 0;
            loop {
                let error = match next.run(call).await {
                    Err(LoopError::Provider(error)) if is_transient(&error, next) => error,
                    answered => return answered,
                };
                let pause = Backoff::default().delay(retries, error.retry_after());
                // FAULT a call of the model is tried once too often: `self.retries` -> `self.retries + 1`
                let may_retry = retries < self.retries && !call.is_last && !call.is_durable;
                let Some(pause) = pause.filter(|_| may_retry) else {
                    return Err(error.into());
                };
                // A reset announces another attempt, so a cancelled run must not send it.
                // FAULT a cancelled run announces another attempt: `call.cancellation.is_cancelled()` -> `false`
                //     (stream_retries::run_cancelled_when_its_stream_broke_makes_no_further_attempt)
                if call.cancellation.is_cancelled() {
                    return Err(LoopError::Cancelled);
                }
                retries += 1;
                if let Some(sink) = next.sink() {
                    let error = LoopError::Provider(error).into();
                    // FAULT the reader is told the number of the attempt that failed: `retries + 1` -> `retries`
                    sink.send(StreamEvent::Reset { attempt: retries + 1, error }).await;
                }
                if call.cancellation.run_until_cancelled(sleep(pause)).await.is_none() {
                    return Err(LoopError::Cancelled);
                }
            }
        }
    }
}

/// Returns `true` if the call may be retried after this error.
///
/// This includes a stream that broke off within the response, if the response is streamed to a reader. Before the
/// retry, a [`StreamEvent::Reset`] tells the reader to discard the deltas of the broken stream.
fn is_transient(error: &ProviderError, next: ModelNext<'_>) -> bool {
    match next.sink() {
        Some(_) => error.is_retryable_from_start(),
        // FAULT a broken stream that nobody reads is tried again: `is_retryable()` -> `is_retryable_from_start()`
        None => error.is_retryable(),
    }
}
