//! The trait of embedding providers and its types.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EmbeddingError, ProviderInfo, WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

/// A provider of embeddings.
///
/// Completions have a separate trait [`Provider`](crate::Provider), because many vendors and models offer only
/// embeddings or only completions.
///
/// # Contract
///
/// Return one vector for each input, in the order of the inputs. Return an error if the vendor sends a different number
/// of vectors.
///
/// # Example
///
/// ```
/// use neuron_model::*;
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
    /// The [`EmbeddingError`] of the failed request.
    fn embed(
        &self,
        request: EmbeddingRequest,
    ) -> impl Future<Output = Result<EmbeddingResponse, EmbeddingError>> + WasmCompatSend;

    /// Returns the names of the provider, of its default embedding model and of its server, for telemetry. The default
    /// is empty.
    ///
    /// The method is not named `info`, because calls would be ambiguous on types that also implement
    /// [`Provider`](crate::Provider).
    fn embedding_info(&self) -> ProviderInfo<'_> {
        ProviderInfo::default()
    }
}

/// A request to embed texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingRequest {
    /// Name of the model. Empty means the provider's default.
    #[serde(default)]
    pub model: String,
    /// The texts. The response has one vector for each text.
    pub input: Vec<String>,
    /// Number of elements of each vector, for models that support a choice. `None` means the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// Provider-specific fields that are merged into the JSON body of the request.
    #[serde(default, skip_serializing_if = "HashMap::is_empty")]
    pub extra: HashMap<String, Value>,
}

/// The response to an [`EmbeddingRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingResponse {
    /// The vectors, one for each text in the order of the texts.
    pub embeddings: Vec<Vec<f32>>,
    /// Name of the model that created the vectors.
    pub model: String,
    /// The tokens that the call used.
    pub usage: EmbeddingUsage,
}

/// The tokens of an embedding call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// Number of tokens of the texts.
    pub prompt_tokens: usize,
    /// Number of all tokens of the call.
    pub total_tokens: usize,
}

/// A boxed embedding provider of any type. Clones of the box share the provider.
#[derive(Clone)]
pub struct BoxedEmbeddingProvider(Arc<dyn EmbeddingDyn>);

impl BoxedEmbeddingProvider {
    /// Creates a box for an embedding provider of any type.
    pub fn new(provider: impl EmbeddingProvider + 'static) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedEmbeddingProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedEmbeddingProvider").finish_non_exhaustive()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
impl EmbeddingProvider for BoxedEmbeddingProvider {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        self.0.embed_dyn(request).await
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        self.0.embedding_info_dyn()
    }
}

/// Object-safe form of [`EmbeddingProvider`].
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
