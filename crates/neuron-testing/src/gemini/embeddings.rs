//! Encodes embeddings in Gemini's format.

use neuron_types::{EmbeddingResponse, EmbeddingUsage};
use serde_json::{Value, json};

use super::ApiError;

/// Returns the JSON body that `batchEmbedContents` sends for these embeddings. The body does not name the model.
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
        "usageMetadata": usage_metadata(response.usage),
    })
}

/// Returns the JSON body that `embedContent` sends for an embedding.
pub(super) fn content_body(response: &EmbeddingResponse) -> Result<Value, ApiError> {
    let [values] = response.embeddings.as_slice() else {
        let count = response.embeddings.len();
        return Err(ApiError::invalid_argument(format!(
            "the script's reply holds {count} embeddings, and this request asks for one"
        )));
    };
    Ok(json!({
        "embedding": {"values": values},
        "usageMetadata": usage_metadata(response.usage),
        "truncated": false,
    }))
}

/// Returns the JSON body that `predict` sends for these embeddings. The first text has all tokens.
pub(super) fn predictions_body(response: &EmbeddingResponse) -> Value {
    let predictions = response.embeddings.iter().enumerate().map(|(index, values)| {
        let tokens = if index == 0 { response.usage.prompt_tokens } else { 0 };
        let statistics = json!({"token_count": tokens, "truncated": false});
        json!({"embeddings": {"values": values, "statistics": statistics}})
    });
    json!({"predictions": predictions.collect::<Vec<_>>()})
}

fn usage_metadata(usage: EmbeddingUsage) -> Value {
    json!({"promptTokenCount": usage.prompt_tokens, "totalTokenCount": usage.total_tokens})
}
