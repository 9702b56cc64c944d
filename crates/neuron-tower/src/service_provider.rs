//! A tower service as a provider.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use neuron_types::{
    CompletionRequest, CompletionResponse, Provider, ProviderError, ProviderInfo, StreamHandle,
    WasmCompatSend,
};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::error::provider_error;
use crate::{ModelAnswer, ModelCall, ProviderService};

/// A tower service as a [`Provider`]: what an agent takes.
///
/// The service takes a [`ModelCall`] of any lifetime and can be cloned: each call goes to a clone,
/// once that is ready. Around a layer that cannot be cloned (`rate_limit`) put a
/// [`ShareLayer`](crate::ShareLayer); around one that keeps requests (`buffer`) an
/// [`OwnRequestLayer`](crate::OwnRequestLayer).
///
/// Over an [`EmbeddingService`](crate::EmbeddingService) it is an
/// [`EmbeddingProvider`](neuron_types::EmbeddingProvider).
///
/// # Errors
///
/// | error of the service | becomes |
/// |---|---|
/// | [`ProviderError`], boxed or not | itself |
/// | [`Elapsed`](tower::timeout::error::Elapsed) | [`ProviderError::Timeout`] with the time since the service was called, earlier attempts included |
/// | [`Overloaded`](tower::load_shed::error::Overloaded) | [`ProviderError::ServiceUnavailable`], which is retryable |
/// | anything else | [`ProviderError::Other`] with the error as it is |
///
/// # Cancel safety
///
/// Dropping a call's future drops the call, wherever it is: waiting for a limit, for a retry, or
/// for the provider. Its places in limits are free at once.
///
/// # Example: an agent
///
/// ```
/// # use std::time::Duration;
/// use neuron_context::SlidingWindowStrategy;
/// use neuron_loop::AgentLoop;
/// use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider};
/// use neuron_types::ToolContext;
/// use tower::ServiceBuilder;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuron_types::LoopError> {
/// # let provider = neuron_testing::ScriptedProvider::new(["Hello."]);
/// let layers = ServiceBuilder::new()
///     .layer(CallLimitLayer::new(4))
///     .retry(RetryTransient::new())
///     .timeout(Duration::from_secs(60));
/// let provider = ServiceProvider::layered(layers, provider);
///
/// let mut agent =
///     AgentLoop::builder(provider, SlidingWindowStrategy::new(20, 100_000)).build();
/// let result = agent.run_text("hello", &ToolContext::default()).await?;
/// assert_eq!(result.response, "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServiceProvider<S> {
    service: S,
    /// What [`Provider::info`] says.
    name: String,
    default_model: String,
}

impl<S> ServiceProvider<S> {
    /// Makes a provider of a service. Telemetry learns no name of it.
    pub fn new(service: S) -> Self {
        Self { service, name: String::new(), default_model: String::new() }
    }

    /// Puts layers, such as those of a [`ServiceBuilder`](tower::ServiceBuilder), around a provider.
    /// Telemetry goes on to see the provider's name and default model.
    pub fn layered<P, L>(layers: L, provider: P) -> Self
    where
        P: Provider,
        L: Layer<ProviderService<P>, Service = S>,
    {
        let ProviderInfo { name, default_model, .. } = provider.info();
        let (name, default_model) = (name.to_owned(), default_model.to_owned());
        Self { service: layers.layer(ProviderService::new(provider)), name, default_model }
    }

    /// Returns the service.
    #[must_use]
    pub fn service(&self) -> &S {
        &self.service
    }
}

impl<S, E> Provider for ServiceProvider<S>
where
    S: for<'r> Service<ModelCall<'r>, Response = ModelAnswer, Error = E> + Clone + Send + Sync,
    for<'r> <S as Service<ModelCall<'r>>>::Future: Send,
    E: Into<BoxError>,
{
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        let call = ModelCall::owned_whole(Arc::new(request));
        async move { self.ask(call).await?.into_response().await }
    }

    fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        let call = ModelCall::owned_streamed(Arc::new(request));
        async move { Ok(self.ask(call).await?.into_stream()) }
    }

    fn complete_ref(
        &self,
        request: &CompletionRequest,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move { self.ask(ModelCall::whole(request)).await?.into_response().await }
    }

    fn complete_stream_ref(
        &self,
        request: &CompletionRequest,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        async move { Ok(self.ask(ModelCall::streamed(request)).await?.into_stream()) }
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new(&self.name, &self.default_model)
    }
}

impl<S, E> ServiceProvider<S>
where
    S: for<'r> Service<ModelCall<'r>, Response = ModelAnswer, Error = E> + Clone,
    E: Into<BoxError>,
{
    async fn ask(&self, call: ModelCall<'_>) -> Result<ModelAnswer, ProviderError> {
        let start = Instant::now();
        let answer = begin(&self.service, call).await;
        let answer = answer.map_err(|error| provider_error(error, start.elapsed()))?;
        // Anew: tower's time limits begin with the call, too.
        let start = Instant::now();
        answer.await.map_err(|error| provider_error(error.into(), start.elapsed()))
    }
}

/// Calls a clone of the service once it is ready. The clone is gone before the answer is waited
/// for: it could hold what others wait for.
pub(crate) async fn begin<S, R>(service: &S, request: R) -> Result<S::Future, BoxError>
where
    S: Service<R> + Clone,
    S::Error: Into<BoxError>,
{
    let mut service = service.clone();
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    Ok(service.call(request))
}

impl<S> fmt::Debug for ServiceProvider<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProvider")
            .field("name", &self.name)
            .field("default_model", &self.default_model)
            .finish_non_exhaustive()
    }
}
