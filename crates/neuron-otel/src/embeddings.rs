//! [`OtelEmbeddings`], an embedding provider with telemetry.

use std::fmt;

use neuron_types::{
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, ProviderInfo,
};
use tracing::Instrument;

use crate::OtelHook;
use crate::spans::embeddings::Call;

/// An [`EmbeddingProvider`] whose calls have spans and metrics. Created by [`OtelHook::embeddings`].
///
/// # Example
///
/// ```no_run
/// use neuron_otel::OtelHook;
/// use neuron_provider_openai::OpenAi;
/// use neuron_types::{EmbeddingProvider, EmbeddingRequest};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let embeddings = OtelHook::new().embeddings(OpenAi::from_env()?);
/// let request = EmbeddingRequest { input: vec!["a text".into()], ..Default::default() };
/// let response = embeddings.embed(request).await?;
/// # Ok(())
/// # }
/// ```
pub struct OtelEmbeddings<E> {
    provider: E,
    hook: OtelHook,
}

impl<E> OtelEmbeddings<E> {
    pub(crate) fn new(provider: E, hook: OtelHook) -> Self {
        Self { provider, hook }
    }

    /// Returns the wrapped provider. Its calls have no spans and metrics.
    pub fn into_inner(self) -> E {
        self.provider
    }
}

impl<E: Clone> Clone for OtelEmbeddings<E> {
    fn clone(&self) -> Self {
        Self { provider: self.provider.clone(), hook: self.hook.clone() }
    }
}

impl<E> fmt::Debug for OtelEmbeddings<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelEmbeddings").field("hook", &self.hook).finish_non_exhaustive()
    }
}

impl<E: EmbeddingProvider> EmbeddingProvider for OtelEmbeddings<E> {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        let call = Call::begin(&self.hook.config, self.provider.embedding_info(), &request);
        let span = call.span().clone();
        let result = self.provider.embed(request).instrument(span).await;
        call.end(result.as_ref());
        result
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.provider.embedding_info()
    }
}
