//! A limit on open calls that counts a stream until it ends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use neuron_types::{StreamEvent, StreamReceiver};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service};

use crate::{ModelCall, ModelResponseFuture};

/// Limits the number of open calls. A streamed response is open until it ends or is dropped.
///
/// tower's `concurrency_limit` counts a stream only until it begins. Vendors count it until it ends.
///
/// The limit belongs to the layer. All services that are wrapped by it or by its clones share it. A limit of 0 blocks
/// every call.
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
    permits: Arc<Semaphore>,
}

impl CallLimitLayer {
    /// Creates a limit.
    #[must_use]
    pub fn new(open_calls: usize) -> Self {
        // tokio's semaphore panics above its maximum.
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
    /// Held from the first `poll_ready` to the call.
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
        if self.permit.is_none() {
            self.permit = ready!(self.permits.poll_acquire(cx));
        }
        self.service.poll_ready(cx)
    }

    fn call(&mut self, call: ModelCall<'r>) -> Self::Future {
        CallLimitFuture { answer: self.service.call(call), permit: self.permit.take() }
    }
}

/// Shares the limit. The clone has no permit.
impl<S: Clone> Clone for CallLimit<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), permits: self.permits.clone(), permit: None }
    }
}

pin_project! {
    /// The response future of a [`CallLimit`], which holds the call's permit.
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
            // The permit is dropped here, because a whole response ends the call.
            whole @ ModelResponseFuture::Whole(_) => whole,
        }))
    }
}

impl<F> fmt::Debug for CallLimitFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLimitFuture").finish_non_exhaustive()
    }
}

/// A stream that holds the call's permit until its last event.
struct PermittedStream {
    events: StreamReceiver,
    permit: Option<OwnedSemaphorePermit>,
}

impl Stream for PermittedStream {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let event = ready!(Pin::new(&mut self.events).poll_next(cx));
        // The call ends with its last event, even if the caller keeps the receiver.
        if matches!(event, None | Some(StreamEvent::ResponseComplete(_) | StreamEvent::Error(_))) {
            self.permit = None;
        }
        Poll::Ready(event)
    }
}
