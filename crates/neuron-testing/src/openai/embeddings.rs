//! Encodes embeddings in OpenAI's two formats, numbers and base64.

use neuron_types::EmbeddingResponse;
use serde_json::{Value, json};

use crate::base64;

/// Returns the JSON body that OpenAI sends for these embeddings.
///
/// If `as_base64` is `true`, an embedding is the base64 text of its little-endian 32-bit floats. If `as_base64` is
/// `false`, an embedding is an array of numbers.
///
/// # Example
///
/// ```
/// use neuron_testing::openai::embeddings_body;
/// use neuron_types::{EmbeddingResponse, EmbeddingUsage};
///
/// let response = EmbeddingResponse {
///     embeddings: vec![vec![1.0, -2.0]],
///     model: "text-embedding-3-small".into(),
///     usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
/// };
/// let body = embeddings_body(&response, false);
/// assert_eq!(body["data"][0]["embedding"], serde_json::json!([1.0, -2.0]));
/// let body = embeddings_body(&response, true);
/// assert_eq!(body["data"][0]["embedding"], "AACAPwAAAMA=");
/// ```
#[must_use]
pub fn embeddings_body(response: &EmbeddingResponse, as_base64: bool) -> Value {
    let data = response.embeddings.iter().enumerate().map(|(index, embedding)| {
        let embedding = match as_base64 {
            true => {
                let bytes: Vec<u8> = embedding.iter().flat_map(|x| x.to_le_bytes()).collect();
                Value::from(base64::encode(&bytes))
            }
            false => json!(embedding),
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    json!({
        "object": "list",
        "data": data.collect::<Vec<_>>(),
        "model": response.model,
        "usage": {
            "prompt_tokens": response.usage.prompt_tokens,
            "total_tokens": response.usage.total_tokens,
        },
    })
}
