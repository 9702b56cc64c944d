//! Turning texts into vectors: the trait and its data.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EmbeddingError, ProviderInfo, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

/// A source of embeddings. Apart from [`Provider`](crate::Provider), because many models do only
/// one of the two.
///
/// # Contract
///
/// One vector for each input, in the inputs' order; another count is an error.
///
/// # Example
///
/// ```
/// use neuron_types::*;
///
/// /// Embeds a text as its length.
/// struct Length;
///
/// impl EmbeddingProvider for Length {
///     async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
///         Ok(EmbeddingResponse {
///             embeddings: request.input.iter().map(|text| vec![text.len() as f32]).collect(),
///             model: "length".into(),
///             usage: EmbeddingUsage::default(),
///         })
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), EmbeddingError> {
/// let request = EmbeddingRequest { input: vec!["four".into()], ..Default::default() };
/// assert_eq!(Length.embed(request).await?.embeddings, vec![vec![4.0]]);
/// # Ok(())
/// # }
/// ```
pub trait EmbeddingProvider: WasmCompatSend + WasmCompatSync {
    /// Embeds the texts of a request.
    ///
    /// # Errors
    ///
    /// Whatever keeps the provider from answering.
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend;

    /// Names the provider, its default model for embeddings and its server, for telemetry. Provided: says
    /// nothing. (Not `info`: many types are a [`Provider`](crate::Provider) as well.)
    fn embedding_info(&self) -> ProviderInfo<'_> {
        ProviderInfo::default()
    }
}

/// Texts to embed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingRequest {
    /// The model; empty means the provider's default.
    #[serde(default)]
    pub model: String,
    /// The texts; each gives one vector.
    pub input: Vec<String>,
    /// The length of the vectors, where the model lets one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// Fields of the provider's own, merged into the request's JSON.
    #[serde(default, skip_serializing_if = "HashMap::is_empty")]
    pub extra: HashMap<String, Value>,
}

/// Vectors for the texts of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingResponse {
    /// One vector for each text, in the texts' order.
    pub embeddings: Vec<Vec<f32>>,
    /// The model that made them.
    pub model: String,
    /// The tokens it took.
    pub usage: EmbeddingUsage,
}

/// The tokens of an embedding call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// The tokens of the texts.
    pub prompt_tokens: usize,
    /// All tokens that the call took.
    pub total_tokens: usize,
}

/// An embedding provider behind a pointer. Clones share it.
#[derive(Clone)]
pub struct BoxedEmbeddingProvider(Arc<dyn EmbeddingDyn>);

impl BoxedEmbeddingProvider {
    /// Puts an embedding provider behind a pointer.
    pub fn new(provider: impl EmbeddingProvider + 'static) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedEmbeddingProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedEmbeddingProvider").finish_non_exhaustive()
    }
}

impl EmbeddingProvider for BoxedEmbeddingProvider {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        self.0.embed_dyn(request).await
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.0.embedding_info_dyn()
    }
}

/// The object-safe twin; private, see `ProviderDyn`.
trait EmbeddingDyn: WasmCompatSend + WasmCompatSync {
    fn embed_dyn(
        &self,
        request: EmbeddingRequest,
    ) -> WasmBoxedFuture<'_, Result<EmbeddingResponse, EmbeddingError>>;

    fn embedding_info_dyn(&self) -> ProviderInfo<'_>;
}

impl<E: EmbeddingProvider> EmbeddingDyn for E {
    fn embed_dyn(
        &self,
        request: EmbeddingRequest,
    ) -> WasmBoxedFuture<'_, Result<EmbeddingResponse, EmbeddingError>> {
        Box::pin(self.embed(request))
    }

    fn embedding_info_dyn(&self) -> ProviderInfo<'_> {
        self.embedding_info()
    }
}
