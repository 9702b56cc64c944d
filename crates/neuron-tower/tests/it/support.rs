//! Providers and helper functions for the tests.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use neuron_model::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, RequestRef,
    StreamEvent, StreamHandle,
};
use neuron_testing::{Reply, ScriptedProvider};
use tokio::time::Instant;

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn unavailable() -> ProviderError {
    ProviderError::ServiceUnavailable("529 busy".into())
}

pub(crate) fn limited(retry_after: Duration) -> ProviderError {
    ProviderError::RateLimit { retry_after: Some(retry_after) }
}

pub(crate) fn script(replies: impl IntoIterator<Item = Reply>) -> ScriptedProvider {
    ScriptedProvider::new(replies)
}

pub(crate) fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hello")], ..Default::default() }
}

/// Calls a provider and returns the text of its response.
pub(crate) async fn ask(provider: &impl Provider) -> Result<String, ProviderError> {
    let request = request();
    Ok(in_time(provider.complete_ref(request.view())).await?.message.text())
}

/// Requests a stream from a provider, reads it to its end, and returns the text of its response.
pub(crate) async fn ask_streamed(provider: &impl Provider) -> Result<String, ProviderError> {
    let request = request();
    let handle = in_time(provider.complete_stream_ref(request.view())).await?;
    Ok(in_time(handle.into_response()).await?.message.text())
}

/// Waits for a future, and panics if it hangs. With a paused clock, the panic comes as soon as no other timer is set.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(seconds(1_000_000), future).await.expect("it hangs")
}

/// Polls a pinned future once.
pub(crate) async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Reads a stream to its end and returns the events.
pub(crate) async fn rest(mut handle: StreamHandle) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    while let Some(event) = handle.receiver.recv().await {
        events.push(event);
    }
    events
}

/// A provider that forwards calls to another provider. It records the start times of the calls and the maximum number
/// of concurrent calls.
///
/// The provider methods that take an owned request fail, because layers must pass requests by reference.
#[derive(Clone, Default)]
pub(crate) struct CallRecorder {
    inner: ScriptedProvider,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    open: AtomicUsize,
    most: AtomicUsize,
    begun: Mutex<Vec<Instant>>,
    histories: Mutex<Vec<usize>>,
}

impl CallRecorder {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self { inner: script(replies), state: Arc::default() }
    }

    /// Returns the maximum number of open calls. A streamed call counts until its stream starts.
    pub(crate) fn most_open(&self) -> usize {
        self.state.most.load(Ordering::SeqCst)
    }

    /// Returns the start times of the calls, in seconds since `start`.
    pub(crate) fn begun(&self, start: Instant) -> Vec<u64> {
        self.state.begun.lock().unwrap().iter().map(|at| (*at - start).as_secs()).collect()
    }

    /// Returns the memory address of the request's messages in each call. If a request is copied for a retry, the
    /// addresses of its two calls differ.
    pub(crate) fn histories(&self) -> Vec<usize> {
        self.state.histories.lock().unwrap().clone()
    }

    pub(crate) fn script(&self) -> &ScriptedProvider {
        &self.inner
    }

    fn begin(&self, request: RequestRef<'_>) -> Open<'_> {
        self.state.histories.lock().unwrap().push(history(request));
        self.state.begun.lock().unwrap().push(Instant::now());
        let open = self.state.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.state.most.fetch_max(open, Ordering::SeqCst);
        Open(&self.state)
    }
}

pub(crate) fn history(request: RequestRef<'_>) -> usize {
    request.messages.as_ptr().addr()
}

struct Open<'a>(&'a State);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Provider for CallRecorder {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("the request was copied".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("the request was copied".into()))
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        let _open = self.begin(request);
        self.inner.complete_ref(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let _open = self.begin(request);
        self.inner.complete_stream_ref(request).await
    }
}
