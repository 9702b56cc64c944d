//! Requests and responses of the Embeddings API.
//!
//! <https://platform.openai.com/docs/api-reference/embeddings>

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use neuron_http::{Secret, sorted_extra, write_json};
use neuron_model::{EmbeddingRequest, EmbeddingResponse, EmbeddingUsage, ProviderError};
use serde::Deserialize;

use crate::error::{self, ApiError};
use crate::lenient;

/// Serialises a request. Fields in `left_out` are omitted, because the server rejects them.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request cannot be serialised.
pub(crate) fn write(
    request: &EmbeddingRequest,
    default_model: &str,
    left_out: &'static [&'static str],
) -> Result<Vec<u8>, ProviderError> {
    let model = match request.model.as_str() {
        "" => default_model,
        model => model,
    };
    let extra = sorted_extra(&request.extra);
    write_json(Some(&extra), |fields| {
        fields.entry("model", model)?;
        fields.leave_out(left_out);
        fields.some("dimensions", request.dimensions)?;
        // The other fields of `extra` come before the input, which must be last.
        fields.rest_but("input")?;
        fields.entry("input", &request.input)
    })
}

/// Parses a response that must contain one vector for each of the `count` texts in the request. The API key is removed
/// from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a list of
/// `count` vectors.
pub(crate) fn read(
    body: &[u8],
    count: usize,
    secret: &Secret,
) -> Result<EmbeddingResponse, ProviderError> {
    let foreign = |why: &dyn std::fmt::Display| {
        let shown = secret.excerpt(body);
        let text = format!("the response holds no embeddings ({why}); it begins with: {shown}");
        ProviderError::Other(text.into())
    };
    let wire: WireEmbeddings = serde_json::from_slice(body).map_err(|error| foreign(&error))?;
    // Some servers send errors with a successful status.
    let no_vectors = wire.data.as_ref().is_none_or(Vec::is_empty) && count > 0;
    if let Some(error) = no_vectors.then(|| ApiError::find_in(body)).flatten() {
        return Err(error::from_answer(&error));
    }
    let mut data = wire.data.ok_or_else(|| foreign(&"missing field `data`"))?;
    if data.len() != count {
        let text = format!("the response has {} vectors for {count} texts", data.len());
        return Err(ProviderError::Other(text.into()));
    }
    // Servers without indices send the vectors in the order of the texts. A stable sort keeps this order.
    data.sort_by_key(|item| item.index);
    let is_repeated = data.windows(2).any(|pair| match pair {
        [first, second] => first.index.is_some() && first.index == second.index,
        _ => false,
    });
    if is_repeated {
        return Err(foreign(&"two vectors have the same index"));
    }
    let vectors = data.into_iter().map(|item| item.embedding.into_vector());
    Ok(EmbeddingResponse {
        embeddings: vectors.collect::<Result<_, _>>().map_err(|error| foreign(&error))?,
        model: wire.model,
        usage: EmbeddingUsage {
            prompt_tokens: wire.usage.prompt_tokens.unwrap_or_default(),
            total_tokens: wire.usage.total_tokens.unwrap_or_default(),
        },
    })
}

#[derive(Deserialize)]
struct WireEmbeddings {
    #[serde(default)]
    data: Option<Vec<WireItem>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: WireUsage,
}

#[derive(Deserialize)]
struct WireItem {
    #[serde(default)]
    index: Option<usize>,
    embedding: WireVector,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    total_tokens: Option<usize>,
}

/// A vector, encoded as a list of numbers or as a Base64 text. Some servers ignore the requested encoding.
#[derive(Deserialize)]
#[serde(untagged)]
enum WireVector {
    Numbers(Vec<f32>),
    /// Base64 of little-endian `f32` numbers.
    Base64(String),
}

impl WireVector {
    /// Decodes the vector. Returns an error text if the Base64 is invalid, or if its length in bytes is not a multiple
    /// of 4.
    fn into_vector(self) -> Result<Vec<f32>, String> {
        let text = match self {
            Self::Numbers(numbers) => return Ok(numbers),
            Self::Base64(text) => text,
        };
        let bytes = STANDARD.decode(text).map_err(|error| format!("base64: {error}"))?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(format!("{} bytes are not a list of 4-byte numbers", bytes.len()));
        }
        Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(request: EmbeddingRequest, expected: &str) {
        let body = write(&request, "default-model", &[]).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }

    #[test]
    fn rejected_fields_are_omitted() {
        let request =
            EmbeddingRequest { input: vec!["a".into()], dimensions: Some(3), ..Default::default() };
        let body = write(&request, "m", &["dimensions"]).unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), r#"{"model":"m","input":["a"]}"#);
    }

    #[test]
    fn request_contains_configured_fields() {
        let input = || vec!["a".to_owned(), "é".to_owned()];
        check(
            EmbeddingRequest { input: input(), ..Default::default() },
            r#"{"model":"default-model","input":["a","é"]}"#,
        );
        check(
            EmbeddingRequest {
                model: "m".into(),
                input: input(),
                dimensions: Some(256),
                extra: HashMap::from([
                    ("user".to_owned(), json!("u")),
                    ("encoding_format".to_owned(), json!("base64")),
                ]),
            },
            r#"{"model":"m","dimensions":256,"encoding_format":"base64","user":"u","input":["a","é"]}"#,
        );
    }

    fn vectors(json: Value, count: usize) -> Result<Vec<Vec<f32>>, String> {
        let answer = read(json.to_string().as_bytes(), count, &Secret::default());
        answer.map(|answer| answer.embeddings).map_err(|error| error.to_string())
    }

    #[test]
    fn vectors_are_ordered_by_index_in_both_encodings() {
        let json = json!({"object": "list", "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3}, "data": [
            {"object": "embedding", "index": 1, "embedding": [0.5, -1]},
            {"object": "embedding", "index": 0, "embedding": "AACAPwAAAMA="},
        ]});
        assert_eq!(vectors(json.clone(), 2).unwrap(), [[1.0, -2.0], [0.5, -1.0]]);
        let answer = read(json.to_string().as_bytes(), 2, &Secret::default()).unwrap();
        assert_eq!(answer.model, "m");
        assert_eq!(answer.usage, EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 });
        let json = json!({"data": [{"embedding": [1]}, {"embedding": [2]}]});
        assert_eq!(vectors(json, 2).unwrap(), [[1.0], [2.0]]);
        assert_eq!(vectors(json!({"data": []}), 0).unwrap(), Vec::<Vec<f32>>::new());
    }

    #[test]
    fn wrong_number_of_vectors_is_an_error() {
        let json = json!({"data": [{"index": 0, "embedding": [1]}]});
        for count in [0, 2] {
            let text = format!("the response has 1 vectors for {count} texts");
            assert_eq!(vectors(json.clone(), count).unwrap_err(), text);
        }
        let json =
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]});
        let error = vectors(json, 2).unwrap_err();
        assert!(error.contains("(two vectors have the same index)"), "{error}");
    }

    #[test]
    fn invalid_vector_is_an_error() {
        for (embedding, why) in [
            (json!("!"), "base64: "),
            (json!("AAAA"), "3 bytes are not a list of 4-byte numbers"),
            (json!(null), "data did not match any variant"),
            (json!({}), "data did not match any variant"),
        ] {
            let error = vectors(json!({"data": [{"embedding": embedding}]}), 1).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let error = vectors(json!({"error": {"message": "no", "type": "insufficient_quota"}}), 1);
        assert_eq!(
            error.unwrap_err(),
            "insufficient resources: in the answer insufficient_quota: no"
        );
        let error = read(b"<html>", 1, &Secret::default()).unwrap_err().to_string();
        assert!(error.ends_with("it begins with: <html>"), "{error}");
    }
}
