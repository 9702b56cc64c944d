//! Tests of embeddings over HTTP.

use neuron_provider_gemini::{Gemini, KeySource};
use neuron_types::{EmbeddingProvider, EmbeddingRequest, EmbeddingResponse};
use serde_json::json;

use crate::support::*;

fn texts(input: &[&str]) -> EmbeddingRequest {
    let input = input.iter().map(|text| (*text).to_owned()).collect();
    EmbeddingRequest { input, ..Default::default() }
}

#[tokio::test]
async fn each_text_has_a_vector() {
    let body = json!({"embeddings": [{"values": [1, 2]}, {"values": [0.5, -1]}]});
    let server = start([json_reply(200, &body)]).await;
    let response = provider(server.url()).embed(texts(&["a", "b"])).await.unwrap();
    assert_eq!(response.embeddings, [vec![1.0, 2.0], vec![0.5, -1.0]]);
    assert_eq!(response.model, "gemini-embedding-2");
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/v1beta/models/gemini-embedding-2:batchEmbedContents");
    let model = "models/gemini-embedding-2";
    let item = |text: &str| json!({"model": model, "content": {"parts": [{"text": text}]}});
    assert_eq!(sent.json, Some(json!({"requests": [item("a"), item("b")]})));
}

#[tokio::test]
async fn request_without_texts_is_not_sent() {
    let server = start([]).await;
    let response = provider(server.url()).embed(texts(&[])).await.unwrap();
    let model = "gemini-embedding-2".to_owned();
    assert_eq!(response, EmbeddingResponse { model, ..Default::default() });
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn error_has_text_without_the_key() {
    let error = json!({"error": {"code": 404, "message": "models/m is not found, test-key", "status": "NOT_FOUND"}});
    let server = start([json_reply(404, &error)]).await;
    let error = provider(server.url()).embed(texts(&["a"])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: model not found: 404 NOT_FOUND: models/m is not found, [redacted]"
    );
}

#[tokio::test]
async fn embeddings_of_vertex_are_an_error() {
    let server = start([]).await;
    let source = KeySource::new(|| async { Ok("token".to_owned()) });
    let provider = Gemini::vertex("p", "global", source).base_url(server.url());
    let error = provider.embed(texts(&["a"])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: embeddings of Vertex AI are not supported: use Gemini::new, with a key of Google AI"
    );
    assert_eq!(server.connections(), 0);
}
