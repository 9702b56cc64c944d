//! Encodes embeddings in Gemini's format.

use neuron_types::EmbeddingResponse;
use serde_json::{Value, json};

/// Returns the JSON body that Gemini sends for these embeddings. The body does not name the model.
///
/// # Example
///
/// ```
/// use neuron_testing::gemini::embeddings_body;
/// use neuron_types::{EmbeddingResponse, EmbeddingUsage};
///
/// let body = embeddings_body(&EmbeddingResponse {
///     embeddings: vec![vec![1.0, -2.0]],
///     model: "gemini-embedding-2".into(),
///     usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
/// });
/// assert_eq!(body["embeddings"][0]["values"], serde_json::json!([1.0, -2.0]));
/// assert_eq!(body["usageMetadata"]["promptTokenCount"], 2);
/// ```
#[must_use]
pub fn embeddings_body(response: &EmbeddingResponse) -> Value {
    let embeddings = response.embeddings.iter().map(|values| json!({"values": values}));
    json!({
        "embeddings": embeddings.collect::<Vec<_>>(),
        "usageMetadata": {
            "promptTokenCount": response.usage.prompt_tokens,
            "totalTokenCount": response.usage.total_tokens,
        },
    })
}
