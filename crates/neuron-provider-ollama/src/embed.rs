//! Requests and responses of the embedding API.
//!
//! <https://docs.ollama.com/api/embed>

use neuron_http::{Secret, sorted_extra, write_json};
use neuron_model::{EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ProviderError};
use serde::Deserialize;

use crate::error::{self, ErrorBody};
use crate::extra::{EMBED_FIELDS, with_options};
use crate::models::NOMIC_EMBED_TEXT;
use crate::request::Settings;

/// Name of the default model of embedding requests.
pub const DEFAULT_EMBEDDING_MODEL: &str = NOMIC_EMBED_TEXT;

/// Returns the name of the model of a request, or the default model if the request names none.
pub(crate) fn model_of(request: &EmbeddingRequest) -> &str {
    match request.model.as_str() {
        "" => DEFAULT_EMBEDDING_MODEL,
        model => model,
    }
}

/// Serialises a request. Does not use the model in the settings, which is for completions only.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the options of the settings or the fields of `extra` are invalid.
pub(crate) fn write(
    request: &EmbeddingRequest,
    settings: Settings<'_>,
) -> Result<Vec<u8>, ProviderError> {
    let options = settings.options()?;
    let extra = sorted_extra(&request.extra);
    write_json(Some(&*with_options(&extra, &EMBED_FIELDS)?), |fields| {
        fields.entry("model", model_of(request))?;
        fields.some("dimensions", request.dimensions)?;
        fields.some("keep_alive", settings.keep_alive)?;
        fields.some("options", (!options.is_empty()).then_some(&options))?;
        // The other fields of `extra` come before the input, which must be last.
        fields.rest_but("input")?;
        fields.entry("input", &request.input)
    })
}

#[derive(Debug, Deserialize)]
struct WireEmbeddings {
    #[serde(default)]
    model: String,
    embeddings: Vec<Vec<f32>>,
    /// Number of input tokens. The server omits the field if the number is zero.
    #[serde(default)]
    prompt_eval_count: Option<usize>,
}

/// Parses a response that must contain one vector for each of the `count` texts in the request. The API key is removed
/// from errors that quote the body.
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
        if let Ok(ErrorBody { error, .. }) = serde_json::from_slice(body) {
            return error::from_answer(&error);
        }
        let shown = secret.excerpt(body);
        ProviderError::Other(
            format!("the response has no embeddings ({error}); it begins with: {shown}").into(),
        )
    })?;
    if wire.embeddings.len() != count {
        let text =
            format!("the response has {} embeddings for {count} texts", wire.embeddings.len());
        return Err(ProviderError::Other(text.into()));
    }
    let tokens = wire.prompt_eval_count.unwrap_or_default();
    Ok(EmbeddingResponse {
        embeddings: wire.embeddings,
        model: wire.model,
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
    fn check(request: &EmbeddingRequest, settings: Settings<'_>, expected: &str) {
        let body = write(request, settings).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn embedding_requests_are_serialised() {
        check(
            &texts(&["a", "日本"]),
            Settings::default(),
            r#"{"model":"nomic-embed-text","input":["a","日本"]}"#,
        );
        let extra = [("truncate", json!(false)), ("options", json!({"num_ctx": 1}))];
        let request = EmbeddingRequest {
            model: "embeddinggemma".into(),
            dimensions: Some(256),
            extra: extra.map(|(key, value)| (key.to_owned(), value)).into(),
            ..texts(&["a"])
        };
        let (options, keep_alive) = (json!({"num_ctx": 9, "num_gpu": 1}), json!("5m"));
        let settings = Settings {
            model: "of the chat",
            keep_alive: Some(&keep_alive),
            options: Some(&options),
        };
        check(
            &request,
            settings,
            r#"{"model":"embeddinggemma","dimensions":256,"keep_alive":"5m","options":{"num_ctx":1,"num_gpu":1},"truncate":false,"input":["a"]}"#,
        );
    }

    /// Fields of `extra` that are not top-level fields of an embedding request must become options. The top-level
    /// fields are in `EmbedRequest` in Ollama's `api/types.go`. They are fewer than those of a chat request.
    #[test]
    fn unknown_top_level_fields_in_extra_become_options() {
        let extra = [("seed", json!(7)), ("keep_alive", json!(0)), ("shift", json!(true))];
        let extra = extra.map(|(key, value)| (key.to_owned(), value)).into();
        check(
            &EmbeddingRequest { extra, ..texts(&["a"]) },
            Settings::default(),
            r#"{"model":"nomic-embed-text","keep_alive":0,"options":{"seed":7,"shift":true},"input":["a"]}"#,
        );
        let extra = [("stream".to_owned(), json!(true))].into();
        let error = write(&EmbeddingRequest { extra, ..texts(&["a"]) }, Settings::default());
        assert_eq!(
            error.unwrap_err().to_string(),
            "invalid request: `extra` cannot set `stream`: call complete or complete_stream"
        );
    }

    #[test]
    fn embedding_responses_are_parsed() {
        let body = br#"{"model":"m","embeddings":[[0.5,-1],[2e-1,0]],"total_duration":9,"prompt_eval_count":7}"#;
        let response = read(body, 2, &Secret::default()).unwrap();
        assert_eq!(
            response,
            EmbeddingResponse {
                embeddings: vec![vec![0.5, -1.0], vec![0.2, 0.0]],
                model: "m".into(),
                usage: EmbeddingUsage { prompt_tokens: 7, total_tokens: 7 },
            }
        );
        let response = read(br#"{"embeddings":[[1]]}"#, 1, &Secret::default()).unwrap();
        assert_eq!((response.model.as_str(), response.usage.total_tokens), ("", 0));
    }

    #[track_caller]
    fn check_malformed(body: &str, expected: &str) {
        let error = read(body.as_bytes(), 2, &Secret::new("sk-secret")).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), ("Other", expected));
    }

    /// An error that the server sends instead of vectors must keep its class and its text. Regression test. The error
    /// was reported as an invalid response, without the hint how to pull the model.
    #[test]
    fn error_in_place_of_vectors_keeps_its_class() {
        let body = br#"{"error":"model 'm' not found"}"#;
        let error = read(body, 1, &Secret::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "model not found: in the answer: model 'm' not found; `ollama pull m` gets it"
        );
    }

    #[test]
    fn invalid_embedding_response_is_an_error() {
        check_malformed(r#"{"embeddings":[[1]]}"#, "the response has 1 embeddings for 2 texts");
        check_malformed(
            r#"{"embeddings":[[1],[1],[1]]}"#,
            "the response has 3 embeddings for 2 texts",
        );
        check_malformed(
            r#"{"x":"sk-secret"}"#,
            r#"the response has no embeddings (missing field `embeddings` at line 1 column 17); it begins with: {"x":"[redacted]"}"#,
        );
        let body = br#"{"embeddings":[[1.5],[2]]}"#;
        for end in 0..body.len() {
            assert!(read(&body[..end], 2, &Secret::default()).is_err(), "cut at {end}");
        }
    }
}
