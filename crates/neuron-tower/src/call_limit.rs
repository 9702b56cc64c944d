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

use crate::{ModelAnswer, ModelCall};

/// Limits how many calls are open at once; a streamed answer is open until it ends or is dropped.
///
/// tower's `concurrency_limit` counts a stream only until it begins, which is early: vendors count
/// it until it ends.
///
/// The limit belongs to the layer: all services that it or a clone of it is put around share it.
/// A limit of 0 lets nothing through.
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
    places: Arc<Semaphore>,
}

impl CallLimitLayer {
    /// Makes a limit.
    #[must_use]
    pub fn new(open_calls: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(open_calls.min(Semaphore::MAX_PERMITS))) }
    }
}

impl<S> Layer<S> for CallLimitLayer {
    type Service = CallLimit<S>;

    fn layer(&self, service: S) -> CallLimit<S> {
        CallLimit { service, places: PollSemaphore::new(Arc::clone(&self.places)), place: None }
    }
}

/// A service with a limit on its open calls; see [`CallLimitLayer`].
#[derive(Debug)]
pub struct CallLimit<S> {
    service: S,
    places: PollSemaphore,
    /// Held from the first question whether the service is ready to the call.
    place: Option<OwnedSemaphorePermit>,
}

impl<'r, S> Service<ModelCall<'r>> for CallLimit<S>
where
    S: Service<ModelCall<'r>, Response = ModelAnswer>,
{
    type Response = ModelAnswer;
    type Error = S::Error;
    type Future = CallLimitFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.place.is_none() {
            self.place = ready!(self.places.poll_acquire(cx));
        }
        self.service.poll_ready(cx)
    }

    fn call(&mut self, call: ModelCall<'r>) -> Self::Future {
        CallLimitFuture { answer: self.service.call(call), place: self.place.take() }
    }
}

/// Shares the limit; the clone has no place yet.
impl<S: Clone> Clone for CallLimit<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), places: self.places.clone(), place: None }
    }
}

pin_project! {
    /// The answer of a [`CallLimit`], which holds the call's place.
    pub struct CallLimitFuture<F> {
        #[pin]
        answer: F,
        place: Option<OwnedSemaphorePermit>,
    }
}

impl<F, E> Future for CallLimitFuture<F>
where
    F: Future<Output = Result<ModelAnswer, E>>,
{
    type Output = Result<ModelAnswer, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx));
        let place = this.place.take();
        Poll::Ready(answer.map(|answer| match answer {
            ModelAnswer::Stream(handle) => {
                let events = Placed { events: handle.receiver, place };
                ModelAnswer::Stream(StreamReceiver::new(events).into())
            }
            whole @ ModelAnswer::Whole(_) => whole,
        }))
    }
}

impl<F> fmt::Debug for CallLimitFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLimitFuture").finish_non_exhaustive()
    }
}

/// A stream that holds its call's place until its last event.
struct Placed {
    events: StreamReceiver,
    place: Option<OwnedSemaphorePermit>,
}

impl Stream for Placed {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        let event = ready!(Pin::new(&mut self.events).poll_next(cx));
        if matches!(event, None | Some(StreamEvent::ResponseComplete(_) | StreamEvent::Error(_))) {
            self.place = None;
        }
        Poll::Ready(event)
    }
}
