//! A copy of the request, for layers that keep it longer than it is borrowed.

use std::task::{Context, Poll};

use tower::{Layer, Service};

use crate::ModelCall;

/// Converts borrowed requests to owned requests for the inner layers. Put it around a `buffer` or a boxed service.
///
/// It copies the request of each call, including the history. The inner layers share the copy, also for retries, so put
/// it outside of `retry`. Otherwise each attempt makes a copy. An owned request
/// ([`Provider::complete`](neuron_types::Provider::complete)) is not copied.
///
/// # Example
///
/// ```
/// use neuron_tower::{ModelCall, OwnedRequestLayer, RetryTransient, ServiceProvider};
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = neuron_testing::ScriptedProvider::default();
/// let layers = ServiceBuilder::new()
///     .layer(OwnedRequestLayer)
///     .retry(RetryTransient::new())
///     .buffer::<ModelCall<'static>>(16);
/// let provider = ServiceProvider::layered(layers, provider);
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnedRequestLayer;

impl<S> Layer<S> for OwnedRequestLayer {
    type Service = OwnRequest<S>;

    fn layer(&self, service: S) -> OwnRequest<S> {
        OwnRequest { service }
    }
}

/// A service that converts borrowed requests for an inner service with owned requests. See [`OwnedRequestLayer`].
#[derive(Debug, Clone)]
pub struct OwnRequest<S> {
    service: S,
}

impl<S: Service<ModelCall<'static>>> Service<ModelCall<'_>> for OwnRequest<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, call: ModelCall<'_>) -> S::Future {
        self.service.call(call.into_owned())
    }
}
