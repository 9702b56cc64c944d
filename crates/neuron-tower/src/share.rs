//! A shared service that need not be cloneable.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service};

/// Makes a service cloneable, with clones that share it. Put it directly around a `rate_limit`.
///
/// [`ServiceProvider`](crate::ServiceProvider) and tower's `retry` clone their service for each call, but a rate limit
/// has state and cannot be cloned. Unlike `buffer`, this layer spawns no task and accepts requests that borrow.
///
/// # Example
///
/// ```
/// # use std::time::Duration;
/// use neuron_tower::{RetryTransient, ServiceProvider, SharedServiceLayer};
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = neuron_testing::ScriptedProvider::default();
/// let layers = ServiceBuilder::new()
///     .retry(RetryTransient::new())
///     .layer(SharedServiceLayer)
///     .rate_limit(50, Duration::from_secs(60));
/// let provider = ServiceProvider::layered(layers, provider);
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SharedServiceLayer;

impl<S> Layer<S> for SharedServiceLayer {
    type Service = SharedService<S>;

    fn layer(&self, service: S) -> SharedService<S> {
        SharedService::new(service)
    }
}

/// A service that is shared by all its clones. See [`SharedServiceLayer`].
///
/// Clones wait for the service in first-in, first-out order. A clone that is ready holds the permit until it is called
/// or dropped. Calls run concurrently.
pub struct SharedService<S> {
    service: Arc<Mutex<S>>,
    permits: PollSemaphore,
    /// Held from the first `poll_ready` to the call.
    permit: Option<OwnedSemaphorePermit>,
}

impl<S> SharedService<S> {
    /// Creates a shared service.
    pub fn new(service: S) -> Self {
        Self {
            service: Arc::new(Mutex::new(service)),
            permits: PollSemaphore::new(Arc::new(Semaphore::new(1))),
            permit: None,
        }
    }

    /// Locks the service. The lock is never contended, because only the holder of the permit locks it.
    fn lock(&self) -> MutexGuard<'_, S> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Service<R>, R> Service<R> for SharedService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        if self.permit.is_none() {
            self.permit = ready!(self.permits.poll_acquire(cx));
        }
        let result = ready!(self.lock().poll_ready(cx));
        // A failed service is passed on to the next clone.
        if result.is_err() {
            self.permit = None;
        }
        Poll::Ready(result)
    }

    fn call(&mut self, request: R) -> S::Future {
        // The permit is released when the call has begun, and not when it ends.
        let future = self.lock().call(request);
        self.permit = None;
        future
    }
}

/// Shares the service. The clone has no permit.
impl<S> Clone for SharedService<S> {
    fn clone(&self) -> Self {
        Self { service: Arc::clone(&self.service), permits: self.permits.clone(), permit: None }
    }
}

impl<S> fmt::Debug for SharedService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedService").finish_non_exhaustive()
    }
}
