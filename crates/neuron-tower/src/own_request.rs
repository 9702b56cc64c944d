//! A copy of the request, for layers that keep it longer than a borrow lasts.

use std::task::{Context, Poll};

use tower::{Layer, Service};

use crate::ModelCall;

/// Gives the layers below a request of their own: put it around a `buffer`, or a boxed service.
///
/// It copies the request of each call that comes through, history included; layers below share the
/// copy, retries among them. So put it outside of `retry`, or each attempt makes a copy. A request
/// that the caller gave away ([`Provider::complete`](neuron_types::Provider::complete)) is not
/// copied.
///
/// # Example
///
/// ```
/// use neuron_tower::{ModelCall, OwnRequestLayer, RetryTransient, ServiceProvider};
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let provider = neuron_testing::ScriptedProvider::default();
/// let layers = ServiceBuilder::new()
///     .layer(OwnRequestLayer)
///     .retry(RetryTransient::new())
///     .buffer::<ModelCall<'static>>(16);
/// let provider = ServiceProvider::layered(layers, provider);
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnRequestLayer;

impl<S> Layer<S> for OwnRequestLayer {
    type Service = OwnRequest<S>;

    fn layer(&self, service: S) -> OwnRequest<S> {
        OwnRequest { service }
    }
}

/// A service for borrowed requests over one for owned ones; see [`OwnRequestLayer`].
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
