//! A wrapper that makes any service cloneable. All clones share one service.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;
use tower::{Layer, Service};

/// A layer that makes the wrapped service cloneable. All clones share this service.
///
/// Put the layer directly around tower's `rate_limit`, whose service does not implement `Clone`.
/// [`ServiceProvider`](crate::ServiceProvider) and tower's `retry` need `Clone`, because they clone their service for
/// each call.
///
/// Unlike tower's `buffer`, this layer spawns no task and accepts borrowed requests.
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
/// Only one clone at a time can be ready. It stays ready until it is called or dropped. The other clones wait in FIFO
/// order. The response futures of several calls run concurrently.
pub struct SharedService<S> {
    service: Arc<Mutex<S>>,
    /// The single permit to use the service, which all clones share.
    permits: PollSemaphore,
    /// The permit, if this clone holds it. Held from `poll_ready` until `call`.
    permit: Option<OwnedSemaphorePermit>,
}

impl<S> SharedService<S> {
    /// Wraps a service. All clones of the result share the wrapped service.
    pub fn new(service: S) -> Self {
        Self {
            service: Arc::new(Mutex::new(service)),
            permits: PollSemaphore::new(Arc::new(Semaphore::new(1))),
            permit: None,
        }
    }

    /// Locks the service. The lock never waits, because only the holder of the permit locks the service.
    fn lock(&self) -> MutexGuard<'_, S> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Service<R>, R> Service<R> for SharedService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // `poll_ready` may be called several times before `call`. Acquire only one permit.
        if self.permit.is_none() {
            self.permit = ready!(self.permits.poll_acquire(cx));
        }
        let result = ready!(self.lock().poll_ready(cx));
        // After an error, let the next clone use the service.
        if result.is_err() {
            self.permit = None;
        }
        Poll::Ready(result)
    }

    fn call(&mut self, request: R) -> S::Future {
        // Release the permit when the call has started, so that calls run concurrently.
        let future = self.lock().call(request);
        self.permit = None;
        future
    }
}

/// Creates a clone that shares the service. The clone has no permit, because it was not polled to be ready.
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
