//! Functions that poll a future a number of times, and futures that wait for a number of polls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use neuron_types::{
    CompletionRequest, CompletionResponse, Provider, ProviderError, StreamHandle, StreamReceiver,
};

/// A delay that is visible in the duration of a span.
pub(crate) const LONG: Duration = Duration::from_millis(50);

/// A number of polls that is larger than any run in these tests needs.
pub(crate) const TO_THE_END: usize = 10_000;

/// Waits for [`LONG`] without polling anything.
pub(crate) fn nothing_happens() {
    std::thread::sleep(LONG);
}

/// Polls a future at most `times` times, even without a wake-up. Returns its output, or `None` if the future is still
/// pending.
pub(crate) fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// A future that is pending for the given number of polls.
pub(crate) struct Waits(pub(crate) u64);

impl Future for Waits {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A provider that is pending for some polls before each response and before each event of a stream.
#[derive(Clone)]
pub(crate) struct Waiting<P>(pub(crate) P);

impl<P: Provider> Provider for Waiting<P> {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Waits(2).await;
        self.0.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        use futures_util::StreamExt;
        Waits(1).await;
        let events = self.0.complete_stream(request).await?.receiver;
        let slow = events.then(|event| async {
            Waits(1).await;
            event
        });
        Ok(StreamReceiver::new(slow).into())
    }
}
