//! A provider that calls the model through a durable context.

use crate::{
    ActivityOptions, CompletionRequest, CompletionResponse, Durability, DurableContext,
    DurableError, Provider, ProviderError, RequestRef, StreamHandle,
};

/// A [`Provider`] that makes its model calls through a durable context.
///
/// The engine journals these calls like the calls of the agent loop. Use this type for model calls that the loop does
/// not make itself, for example in a context strategy that summarises with a model.
///
/// The durable context decides which provider answers the calls. An error of the engine is returned as
/// [`ProviderError::Other`] with the [`DurableError`] inside. The agent loop then ends the run with
/// [`LoopError::Durable`].
///
/// [`LoopError::Durable`]: crate::LoopError::Durable
///
/// # Example
///
/// ```
/// use neuron_types::{Durability, DurableProvider};
///
/// /// The provider for summaries inside a workflow.
/// fn summarizer<'d>(durability: &Durability<'d>) -> DurableProvider<Durability<'d>> {
///     DurableProvider::new(durability.clone())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct DurableProvider<D = Durability<'static>> {
    context: D,
    options: ActivityOptions,
}

impl<D: DurableContext> DurableProvider<D> {
    /// Creates a provider that calls the model through this context.
    #[must_use]
    pub fn new(context: D) -> Self {
        Self { context, options: ActivityOptions::default() }
    }

    /// Sets the options for the engine's activities, such as timeouts and retries.
    #[must_use]
    pub fn with_options(mut self, options: ActivityOptions) -> Self {
        self.options = options;
        self
    }
}

impl<D: DurableContext> Provider for DurableProvider<D> {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let call = self.context.execute_llm_call(request, self.options.clone());
        call.await.map_err(provider_error)
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        let call = self.context.execute_llm_call_ref(request, self.options.clone());
        call.await.map_err(provider_error)
    }

    /// Waits for the complete response and then returns it as a stream, because a journal contains only complete
    /// responses.
    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        Ok(self.complete(request).await?.into())
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        Ok(self.complete_ref(request).await?.into())
    }
}

/// Returns the error inside a [`DurableError::Provider`]. Any other error becomes the source of
/// [`ProviderError::Other`].
fn provider_error(error: DurableError) -> ProviderError {
    match error {
        DurableError::Provider(error) => error,
        error => ProviderError::Other(Box::new(error)),
    }
}
