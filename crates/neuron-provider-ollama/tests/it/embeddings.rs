//! Tests of embeddings over HTTP.

use neuron_model::{
    BoxedEmbeddingProvider, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    EmbeddingUsage, ProviderError,
};
use neuron_provider_ollama::DEFAULT_EMBEDDING_MODEL;
use neuron_testing::{OllamaServer, RawServer, Reply, ServerReply};
use serde_json::json;

use crate::support::*;

fn texts(input: &[&str]) -> EmbeddingRequest {
    let input = input.iter().map(|text| (*text).to_owned()).collect();
    EmbeddingRequest { input, ..Default::default() }
}

fn vectors(embeddings: Vec<Vec<f32>>) -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings,
        model: "m".into(),
        usage: EmbeddingUsage { prompt_tokens: 7, total_tokens: 7 },
    }
}

#[tokio::test]
async fn each_text_has_a_vector() {
    let expected = vectors(vec![vec![0.25, -1.0], vec![0.1, 3.0]]);
    let server = start([expected.clone()]).await;
    let provider = BoxedEmbeddingProvider::new(provider(server.url()).keep_alive("5m"));
    let request = EmbeddingRequest {
        dimensions: Some(2),
        extra: [("truncate".to_owned(), json!(false))].into(),
        ..texts(&["a", "b"])
    };
    assert_eq!(provider.embed(request).await.unwrap(), expected);
    let sent = &server.requests()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("POST", "/api/embed"));
    assert_eq!(
        sent.json,
        Some(json!({
            "model": DEFAULT_EMBEDDING_MODEL,
            "dimensions": 2,
            "keep_alive": "5m",
            "truncate": false,
            "input": ["a", "b"],
        }))
    );
}

#[tokio::test]
async fn request_without_texts_makes_no_call() {
    let server = start(["never sent"]).await;
    let response = provider(server.url()).embed(texts(&[])).await.unwrap();
    let expected =
        EmbeddingResponse { model: DEFAULT_EMBEDDING_MODEL.into(), ..Default::default() };
    assert_eq!(response, expected);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn wrong_vector_count_is_an_error() {
    let server = start([vectors(vec![vec![1.0]])]).await;
    let error = provider(server.url()).embed(texts(&["a", "b"])).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::Other(_)), "{error:?}");
    assert_eq!(error.to_string(), "the response has 1 embeddings for 2 texts");
}

#[tokio::test]
async fn embedding_errors_are_classified() {
    let builder = OllamaServer::builder().models(["another"]);
    let server = builder.start(["never sent"]).await.unwrap();
    let error = provider(server.url()).embed(texts(&["a"])).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: model not found: 404: model 'nomic-embed-text' not found; `ollama pull nomic-embed-text` gets it"
    );
    let busy = ProviderError::ServiceUnavailable("server busy".into());
    let server = start([Reply::error(busy)]).await;
    let error = provider(server.url()).embed(texts(&["a"])).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), ("ServiceUnavailable", true));
    let server = start([ServerReply::raw(200, [("content-type", "x")], "sk-hunter2")]).await;
    let provider = provider(server.url()).api_key("sk-hunter2");
    let error = provider.embed(texts(&["a"])).await.unwrap_err();
    assert!(error.to_string().ends_with("it begins with: [redacted]"), "{error}");
}

#[tokio::test]
async fn refused_connection_is_a_network_error() {
    let server = RawServer::bind().await;
    let url = server.url();
    drop(server);
    let error = soon(provider(url).embed(texts(&["a"]))).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::Network(_)));
    assert!(error.to_string().contains("ollama serve"), "{error}");
}
