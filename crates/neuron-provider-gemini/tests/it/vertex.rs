//! Tests of Vertex AI, with access tokens that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_model::{ContentBlock, Provider, ProviderError};
use neuron_provider_gemini::{Gemini, KeySource};
use serde_json::json;

use crate::support::*;

/// Returns a source with the tokens `access-token-1`, `access-token-2` and so on.
fn tokens() -> KeySource {
    let count = Arc::new(AtomicUsize::new(0));
    KeySource::new(move || {
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        async move { Ok(format!("access-token-{number}")) }
    })
}

#[tokio::test]
async fn each_request_has_the_current_token() {
    let text = json!({"text": "a", "thoughtSignature": "s"});
    let server = start([whole(&json!([text])), streamed(std::slice::from_ref(&text))]).await;
    let provider = Gemini::vertex("my-project", "europe-west4", tokens()).base_url(server.url());
    let whole = provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let streamed = handle.into_response().await.unwrap();
    assert_eq!(streamed.message, whole.message);
    let ContentBlock::Raw { provider: name, .. } = &whole.message.content[0] else {
        panic!("{whole:?}");
    };
    assert_eq!(name, "gcp.vertex_ai");
    let model = "/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-3.8-flash";
    for (number, (sent, method)) in
        server.requests().iter().zip(["generateContent", "streamGenerateContent"]).enumerate()
    {
        assert_eq!(sent.path, format!("{model}:{method}"));
        assert_eq!(sent.bearer(), Some(format!("access-token-{}", number + 1).as_str()));
        assert_eq!(sent.header("x-goog-api-key"), None);
    }
}

#[tokio::test]
async fn token_in_an_error_is_hidden() {
    let error = json!({"error": {"code": 401, "message": "bad access-token-1", "status": "UNAUTHENTICATED"}});
    let server = start([json_reply(401, &error)]).await;
    let provider = Gemini::vertex("p", "global", tokens()).base_url(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: 401 UNAUTHENTICATED: bad [redacted]");
}

#[tokio::test]
async fn failing_source_sends_no_request() {
    let server = start([]).await;
    let source =
        KeySource::new(|| async { Err(ProviderError::Authentication("no token".to_owned())) });
    let provider = Gemini::vertex("p", "global", source).base_url(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: no token");
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: no token");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn invalid_location_is_an_error() {
    for location in ["", "eu west", "a/b"] {
        let error = Gemini::vertex("p", location, tokens()).complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.kind(), "InvalidRequest", "{location}: {error}");
    }
}
