//! Tests of embeddings over HTTP, in both encodings, in any order, and with invalid responses.

use std::collections::HashMap;
use std::time::Duration;

use neuron_model::{
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, EmbeddingUsage,
    ProviderError,
};
use neuron_provider_openai::OpenAi;
use neuron_testing::openai::Dialect;
use neuron_testing::{OpenAiServer, Reply, ServerReply};
use serde_json::{Value, json};

use crate::support::*;

fn vectors() -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings: vec![vec![0.1, -2.5], vec![1e-20, f32::MAX], vec![0.0, 1.0]],
        model: "the-model".into(),
        usage: EmbeddingUsage { prompt_tokens: 7, total_tokens: 9 },
    }
}

fn texts() -> EmbeddingRequest {
    EmbeddingRequest {
        input: vec!["one".into(), "zwei 🦀".into(), " ".into()],
        ..Default::default()
    }
}

fn as_base64() -> EmbeddingRequest {
    let extra = HashMap::from([("encoding_format".to_owned(), json!("base64"))]);
    EmbeddingRequest { extra, ..texts() }
}

fn provider(server: &OpenAiServer) -> OpenAi {
    OpenAi::new(OpenAiServer::API_KEY).base_url(server.url())
}

#[tokio::test]
async fn vectors_are_decoded_in_both_encodings_and_any_order() {
    for dialect in [
        Dialect::default(),
        Dialect::default().shuffled_embeddings(),
        Dialect::default().floats_only(),
        Dialect::default().floats_only().shuffled_embeddings(),
    ] {
        let replies = [ServerReply::from(vectors()), ServerReply::from(vectors())];
        let server = OpenAiServer::builder().dialect(dialect).start(replies).await.unwrap();
        let provider = provider(&server);
        assert_eq!(provider.embed(texts()).await.unwrap(), vectors());
        assert_eq!(provider.embed(as_base64()).await.unwrap(), vectors());
        server.assert_complete();
    }
}

#[tokio::test]
async fn embedding_request_is_sent() {
    let server = start([ServerReply::from(vectors()), ServerReply::from(vectors())]).await;
    let provider = provider(&server).model("for-completions").organization("org-1");
    provider.embed(texts()).await.unwrap();
    provider
        .embed(EmbeddingRequest {
            model: "text-embedding-3-large".into(),
            dimensions: Some(2),
            ..as_base64()
        })
        .await
        .unwrap();
    let sent = server.requests();
    assert_eq!(sent[0].path, "/v1/embeddings");
    assert_eq!(sent[0].header("openai-organization"), Some("org-1"));
    let input = json!(["one", "zwei 🦀", " "]);
    assert_eq!(
        server.bodies(),
        [
            json!({"model": "text-embedding-3-small", "input": input}),
            json!({"model": "text-embedding-3-large", "dimensions": 2, "encoding_format": "base64", "input": input}),
        ]
    );
}

async fn fails(reply: impl Into<ServerReply>, request: EmbeddingRequest) -> EmbeddingError {
    let server = start([reply]).await;
    soon(provider(&server).embed(request)).await.unwrap_err()
}

#[tokio::test]
async fn missing_and_empty_texts_are_rejected() {
    for (input, text) in [
        (vec![], "Invalid 'input': empty array."),
        (vec![String::new()], "Invalid 'input': input cannot be an empty string."),
    ] {
        let request = EmbeddingRequest { input, ..Default::default() };
        let error = fails(vectors(), request).await;
        assert!(matches!(error, EmbeddingError::InvalidRequest(_)), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn wrong_vector_count_is_an_error() {
    let mut fewer = vectors();
    fewer.embeddings.pop();
    let error = fails(fewer, texts()).await;
    assert_eq!(error.to_string(), "the response has 2 vectors for 3 texts");
    assert!(matches!(error, EmbeddingError::Other(_)));
}

#[tokio::test]
async fn embedding_errors_are_classified() {
    use ProviderError as E;
    let error = |error: E| fails(Reply::error(error), texts());
    let limited = error(E::RateLimit { retry_after: None }).await;
    assert!(matches!(limited, EmbeddingError::RateLimit { .. }) && limited.is_retryable());
    let refused = error(E::Authentication("no".into())).await;
    assert!(matches!(refused, EmbeddingError::Authentication(_)) && !refused.is_retryable());
    let gone = error(E::ModelNotFound("m".into())).await;
    assert!(matches!(gone, EmbeddingError::InvalidRequest(_)), "{gone:?}");
    let closed = error(E::Network("reset".into())).await;
    assert!(matches!(closed, EmbeddingError::Network(_)) && closed.is_retryable());
    let unpaid = error(E::InsufficientResources("pay".into())).await;
    assert!(!unpaid.is_retryable(), "{unpaid:?}");
}

/// Every error of a busy server must contain the delay from the header `retry-after`. Regression test. Only errors with
/// status 429 contained a delay.
#[tokio::test]
async fn busy_server_error_has_retry_after() {
    for status in [429, 500, 503] {
        let busy =
            ServerReply::raw(status, [("retry-after", "7")], r#"{"error":{"message":"busy"}}"#);
        let server = start([busy]).await;
        let provider = Api::Chat.provider(server.url());
        let error = provider.embed(texts()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)), "{error}");
    }
}

#[tokio::test]
async fn invalid_success_body_is_an_error() {
    let raw = |json: Value| {
        ServerReply::raw(200, [("content-type", "application/json")], json.to_string())
    };
    for (json, text) in [
        (json!({}), "the response holds no embeddings (missing field `data`)"),
        (json!({"data": null}), "the response holds no embeddings (missing field `data`)"),
        (
            json!({"data": [{"index": 0}]}),
            "the response holds no embeddings (missing field `embedding`",
        ),
        (
            json!({"error": {"message": "why", "code": 401}, "data": null}),
            "authentication failed: in the answer: why",
        ),
        (
            json!({"error": {"message": "why", "code": 401}, "data": []}),
            "authentication failed: in the answer: why",
        ),
    ] {
        let error = fails(raw(json), texts()).await.to_string();
        assert!(error.starts_with(text), "{error}");
    }
    // Optional fields may have any type.
    let item = |index: usize| json!({"index": index, "embedding": [1, 2.5]});
    let loose = json!({"data": [item(0), item(1), item(2)], "model": null, "usage": null});
    let server = start([raw(loose)]).await;
    let response = provider(&server).embed(texts()).await.unwrap();
    assert_eq!(response.embeddings, vec![vec![1.0, 2.5]; 3]);
}

#[tokio::test]
async fn embedding_error_does_not_show_the_key() {
    let key = OpenAiServer::API_KEY;
    for status in [200, 307, 400, 401, 404, 429, 500] {
        for body in [json!({"error": {"message": key, "code": key}}).to_string(), key.to_owned()] {
            let headers = [("x-request-id", key), ("location", key), ("content-type", key)];
            let error = fails(ServerReply::raw(status, headers, body), texts()).await;
            assert!(!format!("{error} {error:?}").contains(key), "{error:?}");
        }
    }
}

#[tokio::test]
async fn unresponsive_server_is_a_timeout() {
    let server = start([Reply::hang()]).await;
    let provider = provider(&server).timeout(Duration::from_millis(100));
    let error = soon(provider.embed(texts())).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::Timeout(_)), "{error:?}");
}
