//! Tests that check the URL, the headers, the body and the connection of requests.

use neuron_model::{ContextEdit, ContextManagement, Provider};
use neuron_testing::AnthropicServer;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn request_has_headers_and_body() {
    let server = start(["a", "b"]).await;
    let provider = provider(server.url()).model("claude-test");
    provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    handle.into_response().await.unwrap();

    let [whole, streamed] = &server.requests()[..] else {
        panic!("two requests");
    };
    assert_eq!((whole.method.as_str(), whole.path.as_str()), ("POST", "/v1/messages"));
    for request in [whole, streamed] {
        for (name, value) in [
            ("x-api-key", AnthropicServer::API_KEY),
            ("anthropic-version", "2023-06-01"),
            ("content-type", "application/json"),
            ("user-agent", concat!("neuron/", env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
        assert_eq!(request.header("anthropic-beta"), None);
        assert_eq!(request.header("authorization"), None);
    }
    let mut body = json!({
        "model": "claude-test",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    });
    assert_eq!(whole.json.as_ref(), Some(&body));
    body["stream"] = json!(true);
    assert_eq!(streamed.json.as_ref(), Some(&body));
}

#[tokio::test]
async fn client_settings_are_sent() {
    let server = AnthropicServer::builder().api_key("another").start(["a"]).await.unwrap();
    let provider = neuron_provider_anthropic::Anthropic::new("another")
        .base_url(server.url())
        .api_version("2026-10-21")
        .beta("one")
        .beta("two");
    let mut request = ask("hi");
    request.model = "of-the-request".into();
    request.context_management = Some(ContextManagement {
        edits: vec![ContextEdit::Compact { strategy: "compact_20260112".into() }],
    });
    provider.complete(request).await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(sent.header("anthropic-beta"), Some("one,two,compact-2026-01-12"));
    assert_eq!(sent.json.as_ref().unwrap()["model"], "of-the-request");
}

#[tokio::test]
async fn every_base_url_format_leads_to_the_same_path() {
    let server = start(["a", "b", "c", "d"]).await;
    for end in ["", "/", "/v1", "/v1/"] {
        let provider = provider(format!("{}{end}", server.url()));
        provider.complete(ask("hi")).await.unwrap();
    }
    assert!(server.requests().iter().all(|sent| sent.path == "/v1/messages"));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn clones_share_connections() {
    let server = start(["a", "b", "c"]).await;
    let provider = provider(server.url());
    for provider in [provider.clone(), provider.clone().model("another"), provider] {
        provider.complete(ask("hi")).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}
