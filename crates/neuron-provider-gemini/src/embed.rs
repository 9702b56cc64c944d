//! Requests and responses of the embedding API of Google AI.
//!
//! <https://ai.google.dev/api/embeddings>

use neuron_http::{Secret, sorted_extra, write_json};
use neuron_types::{EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ProviderError};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::error;
use crate::model;
use crate::models::GEMINI_EMBEDDING_2;
use crate::usage::WireUsage;

/// Name of the default model of embedding requests.
pub const DEFAULT_EMBEDDING_MODEL: &str = GEMINI_EMBEDDING_2;

/// Maximum number of texts in one request. The API rejects more.
pub(crate) const MAX_TEXTS: usize = 100;

/// Returns the name of the model of a request, or the default model if the request names none.
pub(crate) fn model_of(request: &EmbeddingRequest) -> &str {
    match request.model.as_str() {
        "" => DEFAULT_EMBEDDING_MODEL,
        model => model,
    }
}

/// Serialises a request for the vectors of `texts`, with the settings of `request`. The API has a separate request for
/// each text. The fields of `extra` are added to each of them.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if `extra` has a field that this crate sets itself.
pub(crate) fn write(
    request: &EmbeddingRequest,
    texts: &[String],
) -> Result<Vec<u8>, ProviderError> {
    if let Some(key) = ["model", "content"].into_iter().find(|key| request.extra.contains_key(*key))
    {
        return Err(ProviderError::InvalidRequest(format!(
            "`extra` cannot set `{key}`, which is a field of EmbeddingRequest"
        )));
    }
    let extra = sorted_extra(&request.extra);
    let model = model::resource(model_of(request));
    let requests: Vec<_> = texts
        .iter()
        .map(|text| Item { model: &model, dimensions: request.dimensions, extra: &extra, text })
        .collect();
    write_json(None, |fields| fields.entry("requests", &requests))
}

/// The request for the vector of one text.
struct Item<'a> {
    model: &'a str,
    dimensions: Option<usize>,
    extra: &'a Value,
    text: &'a str,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Content<'a> {
            parts: [Part<'a>; 1],
        }
        #[derive(Serialize)]
        struct Part<'a> {
            text: &'a str,
        }
        const DIMENSIONS: &str = "outputDimensionality";
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("model", self.model)?;
        if let Some(dimensions) = self.dimensions
            && self.extra.get(DIMENSIONS).is_none()
        {
            fields.serialize_entry(DIMENSIONS, &dimensions)?;
        }
        for (key, value) in self.extra.as_object().into_iter().flatten() {
            fields.serialize_entry(key, value)?;
        }
        fields.serialize_entry("content", &Content { parts: [Part { text: self.text }] })?;
        fields.end()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEmbeddings {
    embeddings: Vec<WireVector>,
    #[serde(default, deserialize_with = "neuron_http::or_default")]
    usage_metadata: WireUsage,
}

#[derive(Debug, Deserialize)]
struct WireVector {
    values: Vec<f32>,
}

/// Parses the response to `request`. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body does not contain one vector for
/// each text.
pub(crate) fn read(
    body: &[u8],
    count: usize,
    secret: &Secret,
) -> Result<EmbeddingResponse, ProviderError> {
    let wire: WireEmbeddings = serde_json::from_slice(body).map_err(|error| {
        error::find_in(body, "the answer").unwrap_or_else(|| {
            let shown = secret.excerpt(body);
            ProviderError::Other(
                format!("the response has no embeddings ({error}); it begins with: {shown}").into(),
            )
        })
    })?;
    if wire.embeddings.len() != count {
        let text =
            format!("the response has {} embeddings for {count} texts", wire.embeddings.len());
        return Err(ProviderError::Other(text.into()));
    }
    let tokens = neuron_types::TokenUsage::from(wire.usage_metadata).input_tokens;
    Ok(EmbeddingResponse {
        embeddings: wire.embeddings.into_iter().map(|vector| vector.values).collect(),
        // The API does not name the model. The client adds the name.
        model: String::new(),
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(input: &[&str]) -> EmbeddingRequest {
        let input = input.iter().map(|text| (*text).to_owned()).collect();
        EmbeddingRequest { input, ..Default::default() }
    }

    #[track_caller]
    fn check(request: &EmbeddingRequest, expected: &Value) {
        let body: Value = serde_json::from_slice(&write(request, &request.input).unwrap()).unwrap();
        assert_eq!(&body, expected);
    }

    #[test]
    fn embedding_requests_are_serialised() {
        let content = |text: &str| json!({"parts": [{"text": text}]});
        let model = "models/gemini-embedding-2";
        check(
            &texts(&["a", "日本"]),
            &json!({"requests": [
                {"model": model, "content": content("a")},
                {"model": model, "content": content("日本")},
            ]}),
        );
        let request = EmbeddingRequest {
            model: "gemini-embedding-001".into(),
            dimensions: Some(256),
            extra: [("taskType".to_owned(), json!("RETRIEVAL_QUERY"))].into(),
            ..texts(&["a"])
        };
        let item = json!({
            "model": "models/gemini-embedding-001", "outputDimensionality": 256,
            "taskType": "RETRIEVAL_QUERY", "content": content("a"),
        });
        check(&request, &json!({"requests": [item]}));
    }

    #[test]
    fn extra_replaces_dimensions_but_not_the_text() {
        let mut request = EmbeddingRequest { dimensions: Some(1), ..texts(&["a"]) };
        request.extra.insert("outputDimensionality".into(), json!(2));
        let body = String::from_utf8(write(&request, &request.input).unwrap()).unwrap();
        assert_eq!(body.matches("outputDimensionality\":2").count(), 1);
        assert_eq!(body.matches("outputDimensionality").count(), 1);
        request.extra.insert("content".into(), json!({}));
        let error = write(&request, &request.input).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid request: `extra` cannot set `content`, which is a field of EmbeddingRequest"
        );
    }

    #[test]
    fn embedding_responses_are_parsed() {
        let body = br#"{"embeddings":[{"values":[0.5,-1]},{"values":[2e-1]}],"usageMetadata":{"promptTokenCount":7}}"#;
        let response = read(body, 2, &Secret::default()).unwrap();
        assert_eq!(response.embeddings, [vec![0.5, -1.0], vec![0.2]]);
        assert_eq!(response.usage, EmbeddingUsage { prompt_tokens: 7, total_tokens: 7 });
        for end in 0..body.len() {
            assert!(read(&body[..end], 2, &Secret::default()).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn invalid_embedding_response_is_an_error() {
        let secret = Secret::new("sk-secret");
        for (body, kind, text) in [
            (
                r#"{"embeddings":[{"values":[1]}]}"#,
                "Other",
                "the response has 1 embeddings for 2 texts",
            ),
            (
                r#"{"x":"sk-secret"}"#,
                "Other",
                r#"the response has no embeddings (missing field `embeddings` at line 1 column 17); it begins with: {"x":"[redacted]"}"#,
            ),
            (
                r#"{"error":{"code":404,"message":"models/m is not found","status":"NOT_FOUND"}}"#,
                "ModelNotFound",
                "model not found: in the answer NOT_FOUND: models/m is not found",
            ),
        ] {
            let error = read(body.as_bytes(), 2, &secret).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
    }
}
