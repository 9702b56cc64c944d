//! Tests of embeddings of Google AI over HTTP.

use neuron_model::{EmbeddingProvider, EmbeddingRequest, EmbeddingResponse};
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

/// Returns a response with the vectors of these texts, and a token per text.
fn vectors_of(texts: std::ops::Range<usize>) -> neuron_testing::ServerReply {
    let vectors: Vec<_> = texts.clone().map(|text| json!({"values": [text]})).collect();
    let usage = json!({"promptTokenCount": texts.len(), "totalTokenCount": texts.len()});
    json_reply(200, &json!({"embeddings": vectors, "usageMetadata": usage}))
}

fn numbers(count: usize) -> EmbeddingRequest {
    EmbeddingRequest { input: (0..count).map(|text| text.to_string()).collect(), ..texts(&[]) }
}

/// The API rejects a request with more than 100 texts.
#[tokio::test]
async fn many_texts_are_sent_in_batches_of_100() {
    for (count, batches) in [(1, &[1][..]), (100, &[100]), (101, &[100, 1]), (250, &[100, 100, 50])]
    {
        let starts = (0..count).step_by(100);
        let server = start(starts.map(|start| vectors_of(start..count.min(start + 100)))).await;
        let response = provider(server.url()).embed(numbers(count)).await.unwrap();
        let expected: Vec<_> = (0..count).map(|text| vec![text as f32]).collect();
        assert_eq!(response.embeddings, expected);
        assert_eq!(response.usage.prompt_tokens, count);
        assert_eq!(response.usage.total_tokens, count);
        let sent: Vec<_> = server.bodies();
        let sizes: Vec<_> =
            sent.iter().map(|body| body["requests"].as_array().unwrap().len()).collect();
        assert_eq!(sizes, batches);
        let texts = sent.iter().flat_map(|body| body["requests"].as_array().unwrap());
        let texts = texts.map(|item| item["content"]["parts"][0]["text"].as_str().unwrap());
        assert!(texts.eq(numbers(count).input.iter().map(String::as_str)));
    }
}

#[tokio::test]
async fn error_in_a_later_batch_is_the_error_of_the_call() {
    let busy = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    let server = start([vectors_of(0..100), json_reply(503, &busy)]).await;
    let error = provider(server.url()).embed(numbers(250)).await.unwrap_err();
    assert_eq!(error.to_string(), "service unavailable: 503 UNAVAILABLE: busy");
    assert_eq!(server.requests().len(), 2);
    let server = start([vectors_of(0..100), vectors_of(100..199)]).await;
    let error = provider(server.url()).embed(numbers(200)).await.unwrap_err();
    assert!(error.to_string().ends_with("the response has 99 embeddings for 100 texts"), "{error}");
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
