//! A limit on open calls, which counts a streamed call until the end of its stream.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use neuron_model::{StreamEvent, StreamReceiver};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service};

use crate::{ModelCall, ModelResponseFuture};

/// A layer that limits the number of open calls. A streamed call is open until its stream ends or is dropped.
///
/// Vendors count a streamed call until its stream ends. tower's `concurrency_limit` counts it only until the stream
/// starts.
///
/// All services that are wrapped by the layer or by its clones share one limit. A limit of 0 blocks every call.
///
/// # Example: two agents that share a limit
///
/// ```
/// use neuron_tower::{CallLimitLayer, ServiceProvider};
/// use tower::ServiceBuilder;
///
/// # let (first, second) = (neuron_testing::ScriptedProvider::default(), neuron_testing::ScriptedProvider::default());
/// let limit = CallLimitLayer::new(4);
/// let first = ServiceProvider::layered(ServiceBuilder::new().layer(limit.clone()), first);
/// let second = ServiceProvider::layered(ServiceBuilder::new().layer(limit), second);
/// ```
#[derive(Debug, Clone)]
pub struct CallLimitLayer {
    /// The permits, one for each call that may be open.
    permits: Arc<Semaphore>,
}

impl CallLimitLayer {
    /// Creates a layer with a maximum number of open calls.
    #[must_use]
    pub fn new(open_calls: usize) -> Self {
        // tokio's semaphore panics if the number of permits exceeds its maximum.
        Self { permits: Arc::new(Semaphore::new(open_calls.min(Semaphore::MAX_PERMITS))) }
    }
}

impl<S> Layer<S> for CallLimitLayer {
    type Service = CallLimit<S>;

    fn layer(&self, service: S) -> CallLimit<S> {
        CallLimit { service, permits: PollSemaphore::new(Arc::clone(&self.permits)), permit: None }
    }
}

/// A service with a limit on its open calls. See [`CallLimitLayer`].
#[derive(Debug)]
pub struct CallLimit<S> {
    service: S,
    permits: PollSemaphore,
    /// The permit for the next call. Acquired by `poll_ready` and moved to the future by `call`.
    permit: Option<OwnedSemaphorePermit>,
}

impl<'r, S> Service<ModelCall<'r>> for CallLimit<S>
where
    S: Service<ModelCall<'r>, Response = ModelResponseFuture>,
{
    type Response = ModelResponseFuture;
    type Error = S::Error;
    type Future = CallLimitFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // `poll_ready` may be called several times before `call`. Acquire only one permit.
        if self.permit.is_none() {
            self.permit = ready!(self.permits.poll_acquire(cx));
        }
        self.service.poll_ready(cx)
    }

    fn call(&mut self, call: ModelCall<'r>) -> Self::Future {
        CallLimitFuture { answer: self.service.call(call), permit: self.permit.take() }
    }
}

/// Creates a service that shares the limit. The clone has no permit, because it was not polled to be ready.
impl<S: Clone> Clone for CallLimit<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), permits: self.permits.clone(), permit: None }
    }
}

pin_project! {
    /// The response future of a [`CallLimit`]. It holds the permit of the call.
    pub struct CallLimitFuture<F> {
        #[pin]
        answer: F,
        permit: Option<OwnedSemaphorePermit>,
    }
}

impl<F, E> Future for CallLimitFuture<F>
where
    F: Future<Output = Result<ModelResponseFuture, E>>,
{
    type Output = Result<ModelResponseFuture, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx));
        let permit = this.permit.take();
        Poll::Ready(answer.map(|answer| match answer {
            ModelResponseFuture::Stream(handle) => {
                let events = PermittedStream { events: handle.receiver, permit };
                ModelResponseFuture::Stream(StreamReceiver::new(events).into())
            }
            // A call with a whole response has ended. Its permit is dropped here.
            whole @ ModelResponseFuture::Whole(_) => whole,
        }))
    }
}

impl<F> fmt::Debug for CallLimitFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLimitFuture").finish_non_exhaustive()
    }
}

/// A stream that holds the permit of its call until the last event.
struct PermittedStream {
    events: StreamReceiver,
    permit: Option<OwnedSemaphorePermit>,
}

impl Stream for PermittedStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let event = ready!(Pin::new(&mut self.events).poll_next(cx));
        // Release the permit after the last event, because the caller may keep the receiver.
        if matches!(event, None | Some(StreamEvent::ResponseComplete(_) | StreamEvent::Error(_))) {
            self.permit = None;
        }
        Poll::Ready(event)
    }
}
