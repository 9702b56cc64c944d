//! A tower service as a provider.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use neuron_model::{
    CompletionRequest, CompletionResponse, EmbeddingProvider, ForcedCalls, Provider, ProviderError,
    ProviderInfo, RequestRef, RouteModel, StreamHandle, WasmCompatSend,
};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::error::provider_error;
use crate::{EmbeddingService, ModelCall, ModelResponseFuture, ProviderService};

/// An adapter from a tower service to a [`Provider`], for example for an agent. A service for embeddings, such as an
/// [`EmbeddingService`], becomes an [`EmbeddingProvider`].
///
/// The service must accept a [`ModelCall`] of any lifetime and must implement `Clone`. Each call clones the service and
/// waits until the clone is ready.
///
/// - Put a [`SharedServiceLayer`](crate::SharedServiceLayer) around a layer whose service is not `Clone`, such as
///   `rate_limit`.
/// - Put an [`OwnedRequestLayer`](crate::OwnedRequestLayer) around a layer that needs requests without borrowed data,
///   such as `buffer`.
///
/// # Errors
///
/// | error of the service | becomes |
/// |---|---|
/// | [`ProviderError`], boxed or not | the same error |
/// | [`Elapsed`](tower::timeout::error::Elapsed) | [`ProviderError::Timeout`] with the time since the service was called, earlier attempts included |
/// | [`Overloaded`](tower::load_shed::error::Overloaded) | [`ProviderError::ServiceUnavailable`], which is retryable |
/// | any other error | [`ProviderError::Other`] with the error as source |
///
/// # Cancel safety
///
/// Dropping a call's future cancels the call, even while the call waits for a limit, for a retry, or for the provider.
/// The permits of limits, such as `concurrency_limit`, are released immediately.
///
/// # Example: an agent
///
/// ```
/// # use std::time::Duration;
/// use neuron_loop::{Agent, Conversation};
/// use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider};
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
/// let agent = Agent::builder(provider).build();
/// let result = agent.run(&mut Conversation::new(), "hello").await?;
/// assert_eq!(result.response, "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServiceProvider<S> {
    service: S,
    /// The metadata of the wrapped provider. Empty for a provider from [`new`](Self::new).
    info: StoredInfo,
}

/// An owned form of [`ProviderInfo`], for [`Provider::info`] and [`EmbeddingProvider::embedding_info`].
#[derive(Clone, Default)]
struct StoredInfo {
    name: String,
    default_model: String,
    server_address: String,
    server_port: Option<u16>,
    forced_calls: ForcedCalls,
    routes: Vec<RouteModel>,
}

impl StoredInfo {
    /// Copies the metadata of a provider.
    fn of(info: ProviderInfo<'_>) -> Self {
        Self {
            name: info.name.to_owned(),
            default_model: info.default_model.to_owned(),
            server_address: info.server_address.to_owned(),
            server_port: info.server_port,
            forced_calls: info.forced_calls,
            routes: info.routes.to_vec(),
        }
    }
}

impl<S> ServiceProvider<S> {
    /// Creates a provider from a service. Its [`ProviderInfo`] is empty, so telemetry contains no provider name.
    pub fn new(service: S) -> Self {
        Self { service, info: StoredInfo::default() }
    }

    /// Wraps a provider with layers, for example from a [`ServiceBuilder`](tower::ServiceBuilder).
    ///
    /// The result has the [`ProviderInfo`] of the wrapped provider. Telemetry therefore shows the wrapped provider's
    /// name, default model and server.
    pub fn layered<P, L>(layers: L, provider: P) -> Self
    where
        P: Provider,
        L: Layer<ProviderService<P>, Service = S>,
    {
        let info = StoredInfo::of(provider.info());
        Self { service: layers.layer(ProviderService::new(provider)), info }
    }

    /// Wraps an embedding provider with layers.
    ///
    /// The result has the [`ProviderInfo`] of the wrapped provider. Telemetry therefore shows the wrapped provider's
    /// name, default embedding model and server.
    pub fn layered_embeddings<P, L>(layers: L, provider: P) -> Self
    where
        P: EmbeddingProvider,
        L: Layer<EmbeddingService<P>, Service = S>,
    {
        let info = StoredInfo::of(provider.embedding_info());
        Self { service: layers.layer(EmbeddingService::new(provider)), info }
    }

    /// Returns the wrapped service.
    #[must_use]
    pub fn service(&self) -> &S {
        &self.service
    }

    /// Returns the stored metadata. Both provider traits use it.
    pub(crate) fn own_info(&self) -> ProviderInfo<'_> {
        let info = &self.info;
        ProviderInfo::new(&info.name, &info.default_model)
            .at_server(&info.server_address, info.server_port)
            .with_forced_calls(info.forced_calls)
            .with_routes(&info.routes)
    }
}

impl<S, E> Provider for ServiceProvider<S>
where
    S: for<'r> Service<ModelCall<'r>, Response = ModelResponseFuture, Error = E>
        + Clone
        + Send
        + Sync,
    for<'r> <S as Service<ModelCall<'r>>>::Future: Send,
    E: Into<BoxError>,
{
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        // The layers share the owned request, so a retry does not copy it.
        let call = ModelCall::owned_whole(Arc::new(request));
        async move { self.send_call(call).await?.into_response().await }
    }

    fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        let call = ModelCall::owned_streamed(Arc::new(request));
        async move { Ok(self.send_call(call).await?.into_stream()) }
    }

    fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move { self.send_call(ModelCall::whole(request)).await?.into_response().await }
    }

    fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        async move { Ok(self.send_call(ModelCall::streamed(request)).await?.into_stream()) }
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.own_info()
    }
}

impl<S, E> ServiceProvider<S>
where
    S: for<'r> Service<ModelCall<'r>, Response = ModelResponseFuture, Error = E> + Clone,
    E: Into<BoxError>,
{
    /// Waits until the service is ready, makes the call, and converts its error.
    async fn send_call(&self, call: ModelCall<'_>) -> Result<ModelResponseFuture, ProviderError> {
        let start = Instant::now();
        let answer = call_when_ready(&self.service, call).await;
        let answer = answer.map_err(|error| provider_error(error, start.elapsed()))?;
        // Measure the time from the call, without the wait for readiness. tower's timeouts do the same.
        let start = Instant::now();
        answer.await.map_err(|error| provider_error(error.into(), start.elapsed()))
    }
}

/// Clones the service, waits until the clone is ready, and calls the clone. Returns the future of the response.
///
/// The clone is dropped when this function returns, before the response arrives. It may hold a permit that other calls
/// need.
pub(crate) async fn call_when_ready<S, R>(service: &S, request: R) -> Result<S::Future, BoxError>
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
            .field("name", &self.info.name)
            .field("default_model", &self.info.default_model)
            .finish_non_exhaustive()
    }
}
