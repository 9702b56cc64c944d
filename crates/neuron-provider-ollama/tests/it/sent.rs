//! Tests that check the URL, the headers, the body and the connection of requests.

use neuron_model::Provider;
use neuron_provider_ollama::Ollama;
use neuron_testing::OllamaServer;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn request_has_headers_and_body() {
    let server = start(["a", "b"]).await;
    let provider = provider(server.url()).model("test-model");
    provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    handle.into_response().await.unwrap();

    let [whole, streamed] = &server.requests()[..] else {
        panic!("two requests");
    };
    assert_eq!((whole.method.as_str(), whole.path.as_str()), ("POST", "/api/chat"));
    for request in [whole, streamed] {
        for (name, value) in [
            ("content-type", "application/json"),
            ("user-agent", concat!("neuron/", env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
        assert_eq!(request.header("authorization"), None);
    }
    let mut body = json!({
        "model": "test-model",
        "stream": false,
        "options": {"num_predict": 64},
        "messages": [{"role": "user", "content": "hi"}],
    });
    assert_eq!(whole.json.as_ref(), Some(&body));
    body["stream"] = json!(true);
    assert_eq!(streamed.json.as_ref(), Some(&body));
}

#[tokio::test]
async fn client_settings_are_sent() {
    let server = OllamaServer::builder().api_key("a-key").start(["a"]).await.unwrap();
    let provider = Ollama::new()
        .base_url(server.url())
        .api_key("a-key")
        .keep_alive("300")
        .options(json!({"num_ctx": 8192, "num_predict": 1}));
    let mut request = ask("hi");
    request.model = "of-the-request".into();
    request.extra = Some(json!({"options": {"seed": 7}}));
    provider.complete(request).await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.header("authorization"), Some("Bearer a-key"));
    let json = sent.json.as_ref().unwrap();
    assert_eq!(json["model"], "of-the-request");
    assert_eq!(json["keep_alive"], 300);
    assert_eq!(json["options"], json!({"num_ctx": 8192, "num_predict": 64, "seed": 7}));
}

#[tokio::test]
async fn every_base_url_format_leads_to_the_same_path() {
    let server = start(["a", "b", "c", "d"]).await;
    for end in ["", "/", "/api", "/api/"] {
        let provider = provider(format!("{}{end}", server.url()));
        provider.complete(ask("hi")).await.unwrap();
    }
    assert!(server.requests().iter().all(|sent| sent.path == "/api/chat"));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn inexpressible_request_is_not_sent() {
    let server = start(["never sent"]).await;
    let provider = provider(server.url());
    let mut request = ask("hi");
    request.tool_choice = Some(neuron_model::ToolChoice::Required);
    assert_eq!(provider.complete_ref(request.view()).await.unwrap_err().kind(), "InvalidRequest");
    let error = provider.complete_stream_ref(request.view()).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    assert_eq!(server.connections(), 0);
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
