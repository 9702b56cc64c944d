//! Conversions between embedding providers and tower services.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use neuron_model::{
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, ProviderInfo,
    WasmBoxedFuture, WasmCompatSend,
};
use tokio::time::Instant;
use tower::{BoxError, Service};

use crate::ServiceProvider;
use crate::error::embedding_error;
use crate::service_provider::call_when_ready;

/// An [`EmbeddingProvider`] as a tower service.
///
/// The service is always ready, and its clones share the provider. A request is an `Arc`, which is cheap to clone.
///
/// The provider needs an owned request. If a layer such as `retry` holds a second clone of the `Arc`, each attempt
/// therefore copies the request.
///
/// To use the service as an [`EmbeddingProvider`] again, wrap it in a [`ServiceProvider`].
///
/// # Example
///
/// ```
/// use neuron_tower::{RetryTransient, ServiceProvider};
/// use neuron_model::*;
/// use tower::ServiceBuilder;
///
/// # struct Length;
/// # impl EmbeddingProvider for Length {
/// #     async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
/// #         let embeddings = request.input.iter().map(|text| vec![text.len() as f32]).collect();
/// #         Ok(EmbeddingResponse { embeddings, ..Default::default() })
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), EmbeddingError> {
/// let layers = ServiceBuilder::new().retry(RetryTransient::new());
/// let provider = ServiceProvider::layered_embeddings(layers, Length);
///
/// let request = EmbeddingRequest { input: vec!["four".into()], ..Default::default() };
/// assert_eq!(provider.embed(request).await?.embeddings, vec![vec![4.0]]);
/// # Ok(())
/// # }
/// ```
pub struct EmbeddingService<P> {
    provider: Arc<P>,
}

impl<P> EmbeddingService<P> {
    /// Creates a service from an embedding provider.
    pub fn new(provider: P) -> Self {
        Self { provider: Arc::new(provider) }
    }
}

impl<P: EmbeddingProvider + 'static> Service<Arc<EmbeddingRequest>> for EmbeddingService<P> {
    type Response = EmbeddingResponse;
    type Error = EmbeddingError;
    type Future = WasmBoxedFuture<'static, Result<EmbeddingResponse, EmbeddingError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EmbeddingError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Arc<EmbeddingRequest>) -> Self::Future {
        let provider = Arc::clone(&self.provider);
        // `unwrap_or_clone` copies the request only if a layer holds another clone of the `Arc`.
        Box::pin(async move { provider.embed(Arc::unwrap_or_clone(request)).await })
    }
}

impl<P> Clone for EmbeddingService<P> {
    fn clone(&self) -> Self {
        Self { provider: Arc::clone(&self.provider) }
    }
}

impl<P> fmt::Debug for EmbeddingService<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingService").finish_non_exhaustive()
    }
}

impl<S> EmbeddingProvider for ServiceProvider<S>
where
    S: Service<Arc<EmbeddingRequest>, Response = EmbeddingResponse> + Clone + Send + Sync,
    S::Future: Send,
    S::Error: Into<BoxError>,
{
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend {
        async move {
            let start = Instant::now();
            let answer = call_when_ready(self.service(), Arc::new(request)).await;
            let answer = answer.map_err(|error| embedding_error(error, start.elapsed()))?;
            // Measure the time from the call, without the wait for readiness. tower's timeouts do the same.
            let start = Instant::now();
            answer.await.map_err(|error| embedding_error(error.into(), start.elapsed()))
        }
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.own_info()
    }
}
