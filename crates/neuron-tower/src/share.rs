//! A service that cannot be cloned, shared by all calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service};

/// Makes a service cloneable whose clones are one service: put it directly around a `rate_limit`.
///
/// A [`ServiceProvider`](crate::ServiceProvider) clones its service for each call, and tower's
/// `retry` does too; a rate limit has a state of its own and cannot be cloned. Unlike `buffer` this
/// spawns no task and takes requests that borrow.
///
/// # Example
///
/// ```
/// # use std::time::Duration;
/// use neuron_tower::{RetryTransient, ServiceProvider, ShareLayer};
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = neuron_testing::ScriptedProvider::default();
/// let layers = ServiceBuilder::new()
///     .retry(RetryTransient::new())
///     .layer(ShareLayer)
///     .rate_limit(50, Duration::from_secs(60));
/// let provider = ServiceProvider::layered(layers, provider);
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ShareLayer;

impl<S> Layer<S> for ShareLayer {
    type Service = Share<S>;

    fn layer(&self, service: S) -> Share<S> {
        Share::new(service)
    }
}

/// A service that all its clones share; see [`ShareLayer`].
///
/// Clones wait for the service in turn, in the order in which they came. One that is ready has the
/// turn until it is called or dropped. Calls do not wait for each other's answers.
pub struct Share<S> {
    service: Arc<Mutex<S>>,
    turns: PollSemaphore,
    /// Held from the first question whether the service is ready to the call.
    turn: Option<OwnedSemaphorePermit>,
}

impl<S> Share<S> {
    /// Shares a service.
    pub fn new(service: S) -> Self {
        Self {
            service: Arc::new(Mutex::new(service)),
            turns: PollSemaphore::new(Arc::new(Semaphore::new(1))),
            turn: None,
        }
    }

    /// Locks the service, which nobody else does: whoever locks it has the turn.
    fn lock(&self) -> MutexGuard<'_, S> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Service<R>, R> Service<R> for Share<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.turn.is_none() {
            self.turn = ready!(self.turns.poll_acquire(cx));
        }
        let result = ready!(self.lock().poll_ready(cx));
        if result.is_err() {
            self.turn = None;
        }
        Poll::Ready(result)
    }

    fn call(&mut self, request: R) -> S::Future {
        let future = self.lock().call(request);
        self.turn = None;
        future
    }
}

/// Shares the service, without the turn.
impl<S> Clone for Share<S> {
    fn clone(&self) -> Self {
        Self { service: Arc::clone(&self.service), turns: self.turns.clone(), turn: None }
    }
}

impl<S> fmt::Debug for Share<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").finish_non_exhaustive()
    }
}
