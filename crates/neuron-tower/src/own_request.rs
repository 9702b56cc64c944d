//! A layer that copies the request, for inner layers that need a request without borrowed data.

use std::task::{Context, Poll};

use tower::{Layer, Service};

use crate::ModelCall;

/// A layer that converts borrowed requests to owned requests. Put it around a `buffer` or a boxed service, which need
/// owned requests.
///
/// The layer copies the request of each call, including the history. The inner layers share the copy. A request that is
/// already owned, from [`Provider::complete`](neuron_model::Provider::complete), is not copied.
///
/// Put the layer outside of `retry`, because otherwise each attempt makes a copy.
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

/// A service that converts borrowed requests to owned requests for its inner service. See [`OwnedRequestLayer`].
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
