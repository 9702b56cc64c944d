//! A provider that calls the model through a durable context.

use crate::{
    ActivityOptions, CompletionRequest, CompletionResponse, Durability, DurableContext,
    DurableError, Provider, ProviderError, RequestRef, StreamHandle,
};

/// A [`Provider`] whose calls a durable context carries out, so that they are journaled like those of
/// the agent loop: for a strategy that summarises by a model, say.
///
/// The context's model answers, whichever provider that is. An error of the engine itself arrives as
/// [`ProviderError::Other`] with the [`DurableError`] in it; the agent loop ends the run with that
/// one.
///
/// # Example
///
/// ```
/// use neuron_types::{Durability, DurableProvider};
///
/// /// What a summary is written by, inside a workflow.
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
    /// Calls the model through this context.
    #[must_use]
    pub fn new(context: D) -> Self {
        Self { context, options: ActivityOptions::default() }
    }

    /// Sets how the engine treats the calls.
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

    /// The journal holds whole answers: the stream begins once the answer is there.
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

fn provider_error(error: DurableError) -> ProviderError {
    match error {
        DurableError::Provider(error) => error,
        error => ProviderError::Other(Box::new(error)),
    }
}
