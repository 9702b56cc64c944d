//! Encodes embeddings in Ollama's format.

use neuron_types::EmbeddingResponse;
use serde_json::{Value, json};

use super::{LOAD_DURATION, TOTAL_DURATION};
use crate::json::sparse;

/// Returns the JSON body that Ollama sends for these embeddings. A count of zero is left out.
///
/// # Example
///
/// ```
/// use neuron_testing::ollama::embeddings_body;
/// use neuron_types::{EmbeddingResponse, EmbeddingUsage};
///
/// let body = embeddings_body(&EmbeddingResponse {
///     embeddings: vec![vec![1.0, -2.0]],
///     model: "all-minilm".into(),
///     usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
/// });
/// assert_eq!(body["embeddings"], serde_json::json!([[1.0, -2.0]]));
/// assert_eq!(body["prompt_eval_count"], 2);
/// ```
#[must_use]
pub fn embeddings_body(response: &EmbeddingResponse) -> Value {
    sparse(json!({
        "model": response.model,
        "embeddings": response.embeddings,
        "total_duration": TOTAL_DURATION,
        "load_duration": LOAD_DURATION,
        "prompt_eval_count": Some(response.usage.prompt_tokens).filter(|count| *count > 0),
    }))
}
