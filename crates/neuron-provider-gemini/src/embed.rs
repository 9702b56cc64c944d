//! Requests and responses of the methods that create embeddings.
//!
//! <https://ai.google.dev/api/embeddings>

mod vertex;

use neuron_http::{Secret, sorted_extra, write_json};
use neuron_model::{
    EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ProviderError, TokenUsage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error;
use crate::model::{self, Platform};
use crate::models::GEMINI_EMBEDDING_2;
use crate::usage::WireUsage;

/// Name of the default model of embedding requests.
pub const DEFAULT_EMBEDDING_MODEL: &str = GEMINI_EMBEDDING_2;

/// Maximum number of texts in a `batchEmbedContents` request. Google AI rejects more. Vertex AI documents no maximum.
const MAX_TEXTS: usize = 100;

/// Returns the name of the model of a request, or the default model if the request names none.
pub(crate) fn model_of(request: &EmbeddingRequest) -> &str {
    match request.model.as_str() {
        "" => DEFAULT_EMBEDDING_MODEL,
        model => model,
    }
}

/// A method that creates embeddings. Each method has its own format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `batchEmbedContents` of Google AI. Each text has the model and the settings.
    GoogleBatch,
    /// `batchEmbedContents` of Vertex AI. Each text has the settings, in an object of their own.
    VertexBatch,
    /// `embedContent` of Vertex AI, for one text.
    EmbedContent,
    /// `predict` of Vertex AI, for the models before Gemini.
    Predict,
}

impl Method {
    /// Returns the name of the method in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GoogleBatch | Self::VertexBatch => "batchEmbedContents",
            Self::EmbedContent => "embedContent",
            Self::Predict => "predict",
        }
    }
}

/// Splits the texts of `request` into the batches that the platform accepts. Each batch has the method of its request.
pub(crate) fn batches<'a>(
    platform: &Platform,
    request: &'a EmbeddingRequest,
) -> Vec<(Method, &'a [String])> {
    match platform {
        Platform::GoogleAi => {
            let batches = request.input.chunks(MAX_TEXTS);
            batches.map(|texts| (Method::GoogleBatch, texts)).collect()
        }
        Platform::Vertex { .. } => vertex::batches(model_of(request), &request.input),
    }
}

/// Serialises a request for the vectors of `texts`, with the settings of `request`. These are the fields of `extra` and
/// the number of dimensions, which `extra` replaces.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if `extra` has a field that this crate sets itself.
pub(crate) fn write(
    method: Method,
    request: &EmbeddingRequest,
    texts: &[String],
) -> Result<Vec<u8>, ProviderError> {
    if let Some(key) = ["model", "content"].into_iter().find(|key| request.extra.contains_key(*key))
    {
        return Err(ProviderError::InvalidRequest(format!(
            "`extra` cannot set `{key}`, which is a field of EmbeddingRequest"
        )));
    }
    let mut settings = Map::new();
    if let Some(dimensions) = request.dimensions {
        settings.insert("outputDimensionality".to_owned(), dimensions.into());
    }
    if let Value::Object(extra) = sorted_extra(&request.extra) {
        settings.extend(extra);
    }
    match method {
        Method::GoogleBatch => {
            let model = &model::resource(model_of(request));
            let item = |text| Item { model, settings: &settings, content: Content::of(text) };
            let requests: Vec<_> = texts.chunks(1).map(item).collect();
            write_json(None, |fields| fields.entry("requests", &requests))
        }
        Method::VertexBatch => vertex::write_batch(&settings, texts),
        Method::EmbedContent => vertex::write_content(&settings, texts),
        Method::Predict => vertex::write_instances(settings, texts),
    }
}

/// The request for the vector of one text at Google AI.
#[derive(Debug, Serialize)]
struct Item<'a> {
    model: &'a str,
    #[serde(flatten)]
    settings: &'a Map<String, Value>,
    content: Content<'a>,
}

#[derive(Debug, Serialize)]
struct Content<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
struct Part<'a> {
    text: &'a str,
}

impl<'a> Content<'a> {
    fn of(texts: &'a [String]) -> Self {
        Self { parts: texts.iter().map(|text| Part { text }).collect() }
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

/// The vectors of a response, and the number of tokens in its texts.
struct Vectors {
    embeddings: Vec<Vec<f32>>,
    tokens: usize,
}

impl Vectors {
    fn new(vectors: Vec<WireVector>, usage: WireUsage) -> Self {
        Self {
            embeddings: vectors.into_iter().map(|vector| vector.values).collect(),
            tokens: TokenUsage::from(usage).input_tokens,
        }
    }
}

impl From<WireEmbeddings> for Vectors {
    fn from(wire: WireEmbeddings) -> Self {
        Self::new(wire.embeddings, wire.usage_metadata)
    }
}

/// Parses the response to a request with `count` texts. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body does not contain one vector for
/// each text.
pub(crate) fn read(
    method: Method,
    body: &[u8],
    count: usize,
    secret: &Secret,
) -> Result<EmbeddingResponse, ProviderError> {
    let parsed = match method {
        Method::GoogleBatch | Method::VertexBatch => {
            serde_json::from_slice::<WireEmbeddings>(body).map(Vectors::from)
        }
        Method::EmbedContent => vertex::read_content(body),
        Method::Predict => vertex::read_predictions(body),
    };
    let Vectors { embeddings, tokens } = parsed.map_err(|error| {
        error::find_in(body, "the answer").unwrap_or_else(|| {
            let shown = secret.excerpt(body);
            ProviderError::Other(
                format!("the response has no embeddings ({error}); it begins with: {shown}").into(),
            )
        })
    })?;
    if embeddings.len() != count {
        let text = format!("the response has {} embeddings for {count} texts", embeddings.len());
        return Err(ProviderError::Other(text.into()));
    }
    Ok(EmbeddingResponse {
        embeddings,
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
        let body: Value =
            serde_json::from_slice(&write(Method::GoogleBatch, request, &request.input).unwrap())
                .unwrap();
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
        let body = String::from_utf8(write(Method::GoogleBatch, &request, &request.input).unwrap())
            .unwrap();
        assert_eq!(body.matches("outputDimensionality\":2").count(), 1);
        assert_eq!(body.matches("outputDimensionality").count(), 1);
        request.extra.insert("content".into(), json!({}));
        let error = write(Method::GoogleBatch, &request, &request.input).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid request: `extra` cannot set `content`, which is a field of EmbeddingRequest"
        );
    }

    #[test]
    fn embedding_responses_are_parsed() {
        let body = br#"{"embeddings":[{"values":[0.5,-1]},{"values":[2e-1]}],"usageMetadata":{"promptTokenCount":7}}"#;
        let response = read(Method::GoogleBatch, body, 2, &Secret::default()).unwrap();
        assert_eq!(response.embeddings, [vec![0.5, -1.0], vec![0.2]]);
        assert_eq!(response.usage, EmbeddingUsage { prompt_tokens: 7, total_tokens: 7 });
        for end in 0..body.len() {
            assert!(
                read(Method::GoogleBatch, &body[..end], 2, &Secret::default()).is_err(),
                "cut at {end}"
            );
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
            let error = read(Method::GoogleBatch, body.as_bytes(), 2, &secret).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
    }
}
