//! The methods of Vertex AI that create embeddings. The model decides which method it has.
//!
//! - `embedContent` and `batchEmbedContents` for Gemini, and `embedContent` for open models:
//!   <https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.publishers.models/embedContent>
//! - `predict` for other models:
//!   <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api>

use neuron_http::write_json;
use neuron_model::ProviderError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Content, MAX_TEXTS, Method, Vectors, WireVector};
use crate::model;
use crate::usage::WireUsage;

/// Maximum number of texts in a `predict` request.
///
/// <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings>
const MAX_INSTANCES: usize = 250;

/// Maximum number of tokens in a `predict` request, from the same page.
const MAX_TOKENS: usize = 20_000;

/// Settings that belong to each text of a `predict` request, with their names there. All others are parameters.
const OF_TEXTS: [(&str, &str); 4] = [
    ("taskType", "task_type"),
    ("task_type", "task_type"),
    ("title", "title"),
    ("mimeType", "mimeType"),
];

/// Splits the texts into batches for the methods of a model. Google's own client chooses the method by the same names.
///
/// <https://github.com/googleapis/python-genai/blob/main/google/genai/_transformers.py>
pub(super) fn batches<'a>(model: &str, texts: &'a [String]) -> Vec<(Method, &'a [String])> {
    let name = model::base_name(model);
    let most = match name {
        // An open model, which has no batches.
        _ if name.contains("maas") => 1,
        _ if name.contains("gemini") => MAX_TEXTS,
        _ => return instances(texts).map(|texts| (Method::Predict, texts)).collect(),
    };
    let method = |texts: &[String]| match texts {
        [_] => Method::EmbedContent,
        _ => Method::VertexBatch,
    };
    texts.chunks(most).map(|texts| (method(texts), texts)).collect()
}

/// Splits the texts into batches for `predict`. The number of tokens is not known, and is at most the number of bytes.
/// A longer text is sent alone, because the API truncates each text to 2,048 tokens.
fn instances(mut texts: &[String]) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fits = texts.iter().take(MAX_INSTANCES).take_while(|text| {
            bytes = bytes.saturating_add(text.len());
            bytes <= MAX_TOKENS
        });
        let count = fits.count().max(1);
        let (batch, rest) = texts.split_at_checked(count)?;
        texts = rest;
        Some(batch)
    })
}

/// Serialises a `batchEmbedContents` request.
pub(super) fn write_batch(
    settings: &Map<String, Value>,
    texts: &[String],
) -> Result<Vec<u8>, ProviderError> {
    let embed_content_config = unless_empty(settings);
    let item = |text| Item { embed_content_config, content: Content::of(text) };
    let requests: Vec<_> = texts.chunks(1).map(item).collect();
    write_json(None, |fields| fields.entry("requests", &requests))
}

/// The request for the vector of one text in a batch. The URL names the model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    embed_content_config: Option<&'a Map<String, Value>>,
    content: Content<'a>,
}

/// Serialises an `embedContent` request, for a single text.
pub(super) fn write_content(
    settings: &Map<String, Value>,
    texts: &[String],
) -> Result<Vec<u8>, ProviderError> {
    write_json(None, |fields| {
        fields.some("embedContentConfig", unless_empty(settings))?;
        fields.entry("content", &Content::of(texts))
    })
}

/// Serialises a `predict` request.
pub(super) fn write_instances(
    settings: Map<String, Value>,
    texts: &[String],
) -> Result<Vec<u8>, ProviderError> {
    let mut of_text = Map::new();
    let mut parameters = Map::new();
    for (key, value) in settings {
        match OF_TEXTS.iter().find(|(known, _)| *known == key) {
            Some((_, name)) => of_text.insert((*name).to_owned(), value),
            None => parameters.insert(key, value),
        };
    }
    let instance = |content| Instance { settings: &of_text, content };
    let instances: Vec<_> = texts.iter().map(instance).collect();
    write_json(None, |fields| {
        fields.some("parameters", unless_empty(&parameters))?;
        fields.entry("instances", &instances)
    })
}

/// A text of a `predict` request.
#[derive(Debug, Serialize)]
struct Instance<'a> {
    #[serde(flatten)]
    settings: &'a Map<String, Value>,
    content: &'a String,
}

fn unless_empty(settings: &Map<String, Value>) -> Option<&Map<String, Value>> {
    Some(settings).filter(|settings| !settings.is_empty())
}

/// Parses the response to an `embedContent` request.
pub(super) fn read_content(body: &[u8]) -> serde_json::Result<Vectors> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Embedded {
        embedding: WireVector,
        #[serde(default, deserialize_with = "neuron_http::or_default")]
        usage_metadata: WireUsage,
    }
    let wire: Embedded = serde_json::from_slice(body)?;
    Ok(Vectors::new(vec![wire.embedding], wire.usage_metadata))
}

/// Parses the response to a `predict` request.
pub(super) fn read_predictions(body: &[u8]) -> serde_json::Result<Vectors> {
    #[derive(Deserialize)]
    struct Predictions {
        predictions: Vec<Prediction>,
    }
    #[derive(Deserialize)]
    struct Prediction {
        embeddings: Embedding,
    }
    #[derive(Deserialize)]
    struct Embedding {
        values: Vec<f32>,
        #[serde(default, deserialize_with = "neuron_http::or_default")]
        statistics: Statistics,
    }
    #[derive(Default, Deserialize)]
    struct Statistics {
        /// The API has no integers in predictions.
        #[serde(default)]
        token_count: f64,
    }
    let wire: Predictions = serde_json::from_slice(body)?;
    let mut vectors = Vectors { embeddings: Vec::new(), tokens: 0 };
    for Prediction { embeddings: Embedding { values, statistics } } in wire.predictions {
        vectors.embeddings.push(values);
        vectors.tokens = vectors.tokens.saturating_add(statistics.token_count as usize);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use neuron_http::Secret;
    use neuron_model::{EmbeddingRequest, EmbeddingUsage};
    use serde_json::json;

    use super::super::{read, write};
    use super::*;

    fn texts(count: usize, length: usize) -> Vec<String> {
        vec!["a".repeat(length); count]
    }

    #[track_caller]
    fn check_batches(model: &str, texts: &[String], expected: &[(Method, usize)]) {
        let batches = batches(model, texts);
        let sizes: Vec<_> = batches.iter().map(|(method, texts)| (*method, texts.len())).collect();
        assert_eq!(sizes, expected, "{model}");
        let split: Vec<&String> = batches.iter().flat_map(|(_, texts)| *texts).collect();
        assert!(split.into_iter().eq(texts), "{model}");
    }

    #[test]
    fn model_decides_about_the_method() {
        use Method::{EmbedContent, Predict, VertexBatch};
        for model in [
            "gemini-embedding-2",
            "gemini-embedding-001",
            "publishers/google/models/gemini-embedding-9",
        ] {
            check_batches(model, &texts(0, 1), &[]);
            check_batches(model, &texts(1, 1), &[(EmbedContent, 1)]);
            check_batches(model, &texts(100, 1), &[(VertexBatch, 100)]);
            let batches = [(VertexBatch, 100), (VertexBatch, 100), (EmbedContent, 1)];
            check_batches(model, &texts(201, 1), &batches);
        }
        let open = "intfloat/multilingual-e5-large-instruct-maas";
        check_batches(open, &texts(2, 1), &[(EmbedContent, 1), (EmbedContent, 1)]);
        for model in ["text-embedding-005", "projects/gemini/locations/eu/endpoints/1"] {
            check_batches(model, &texts(0, 1), &[]);
            check_batches(model, &texts(1, 1), &[(Predict, 1)]);
            check_batches(model, &texts(501, 1), &[(Predict, 250), (Predict, 250), (Predict, 1)]);
        }
    }

    #[test]
    fn predict_request_has_at_most_20_000_bytes_or_one_text() {
        use Method::Predict;
        let model = "text-embedding-005";
        check_batches(model, &texts(5, 10_000), &[(Predict, 2), (Predict, 2), (Predict, 1)]);
        check_batches(model, &texts(2, 10_001), &[(Predict, 1), (Predict, 1)]);
        check_batches(model, &texts(2, 50_000), &[(Predict, 1), (Predict, 1)]);
        let mixed = [texts(2, 1), texts(1, 20_000), texts(1, 1)].concat();
        check_batches(model, &mixed, &[(Predict, 2), (Predict, 1), (Predict, 1)]);
    }

    #[track_caller]
    fn check_body(method: Method, request: &EmbeddingRequest, expected: &Value) {
        let body = write(method, request, &request.input).unwrap();
        assert_eq!(&serde_json::from_slice::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn settings_are_sent_in_their_place() {
        let mut request =
            EmbeddingRequest { input: vec!["a".into(), "日本".into()], ..Default::default() };
        let content = |text: &str| json!({"parts": [{"text": text}]});
        let plain = json!({"requests": [{"content": content("a")}, {"content": content("日本")}]});
        check_body(Method::VertexBatch, &request, &plain);
        let plain = json!({"instances": [{"content": "a"}, {"content": "日本"}]});
        check_body(Method::Predict, &request, &plain);

        request.dimensions = Some(3);
        for (key, value) in [
            ("taskType", json!("RETRIEVAL_DOCUMENT")),
            ("title", json!("t")),
            ("autoTruncate", json!(false)),
        ] {
            request.extra.insert(key.to_owned(), value);
        }
        let config = json!({
            "outputDimensionality": 3, "taskType": "RETRIEVAL_DOCUMENT", "title": "t",
            "autoTruncate": false,
        });
        let item = |text: &str| json!({"embedContentConfig": config, "content": content(text)});
        check_body(Method::VertexBatch, &request, &json!({"requests": [item("a"), item("日本")]}));
        let instance =
            |text: &str| json!({"task_type": "RETRIEVAL_DOCUMENT", "title": "t", "content": text});
        let expected = json!({
            "instances": [instance("a"), instance("日本")],
            "parameters": {"outputDimensionality": 3, "autoTruncate": false},
        });
        check_body(Method::Predict, &request, &expected);
        request.input.truncate(1);
        check_body(Method::EmbedContent, &request, &item("a"));
        request.extra.clear();
        request.dimensions = None;
        check_body(Method::EmbedContent, &request, &json!({"content": content("a")}));
    }

    #[test]
    fn extra_replaces_dimensions_but_not_the_text() {
        for method in [Method::VertexBatch, Method::EmbedContent, Method::Predict] {
            let mut request = EmbeddingRequest {
                input: vec!["a".into()],
                dimensions: Some(1),
                ..Default::default()
            };
            request.extra.insert("outputDimensionality".into(), json!(2));
            let body = String::from_utf8(write(method, &request, &request.input).unwrap()).unwrap();
            assert_eq!(body.matches("outputDimensionality\":2").count(), 1, "{body}");
            assert_eq!(body.matches("outputDimensionality").count(), 1, "{body}");
            request.extra.insert("content".into(), json!({}));
            let error = write(method, &request, &request.input).unwrap_err();
            assert_eq!(error.kind(), "InvalidRequest");
        }
    }

    #[track_caller]
    fn check_read(method: Method, body: &str, vectors: &[Vec<f32>], tokens: usize) {
        let count = vectors.len();
        let response = read(method, body.as_bytes(), count, &Secret::default()).unwrap();
        assert_eq!(response.embeddings, vectors);
        let usage = EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens };
        assert_eq!(response.usage, usage);
        for end in 0..body.len() {
            let cut = read(method, &body.as_bytes()[..end], count, &Secret::default());
            assert!(cut.is_err(), "cut at {end}");
        }
        let wrong = read(method, body.as_bytes(), count + 1, &Secret::default()).unwrap_err();
        let expected = format!("the response has {count} embeddings for {} texts", count + 1);
        assert_eq!(wrong.to_string(), expected);
    }

    #[test]
    fn responses_of_each_method_are_parsed() {
        let batch = r#"{"embeddings":[{"values":[0.5,-1]},{"values":[2]}],"usageMetadata":{"promptTokenCount":7}}"#;
        check_read(Method::VertexBatch, batch, &[vec![0.5, -1.0], vec![2.0]], 7);
        let single = r#"{"embedding":{"values":[0.5]},"usageMetadata":{"promptTokenCount":3},"truncated":true}"#;
        check_read(Method::EmbedContent, single, &[vec![0.5]], 3);
        check_read(Method::EmbedContent, r#"{"embedding":{"values":[0.5]}}"#, &[vec![0.5]], 0);
        let predictions = r#"{"predictions":[
            {"embeddings":{"values":[0.5],"statistics":{"token_count":4,"truncated":false}}},
            {"embeddings":{"values":[2],"statistics":{"token_count":5.0}}},
            {"embeddings":{"values":[3],"statistics":{}}},
            {"embeddings":{"values":[4]}}
        ],"metadata":{"billableCharacterCount":9}}"#;
        let vectors = [vec![0.5], vec![2.0], vec![3.0], vec![4.0]];
        check_read(Method::Predict, predictions, &vectors, 9);
    }

    #[test]
    fn response_of_another_method_is_an_error() {
        let secret = Secret::new("sk-secret");
        for method in [Method::VertexBatch, Method::EmbedContent, Method::Predict] {
            for body in [r#"{"x":"sk-secret"}"#, "{}", "[]", "", r#"{"embedding":{}}"#] {
                let error = read(method, body.as_bytes(), 1, &secret).unwrap_err().to_string();
                assert!(error.starts_with("the response has no embeddings ("), "{error}");
                assert!(!error.contains("sk-secret"), "{error}");
            }
            let body = br#"{"error":{"code":429,"message":"busy","status":"RESOURCE_EXHAUSTED"}}"#;
            assert_eq!(read(method, body, 1, &secret).unwrap_err().kind(), "RateLimit");
        }
    }
}
