//! Tests that check the URL, the headers, the body and the connection of requests.

use std::time::Duration;

use neuron_model::Provider;
use neuron_testing::RawServer;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn request_has_path_headers_and_body() {
    let text = json!({"text": "a"});
    let server = start([whole(&json!([text])), streamed(&[text])]).await;
    let provider = provider(server.url()).model("test-model").quota_project("payer");
    provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    assert_eq!(handle.into_response().await.unwrap().message.text(), "a");

    let [whole, streamed] = &server.requests()[..] else {
        panic!("two requests");
    };
    assert_eq!(whole.path, "/v1beta/models/test-model:generateContent");
    assert_eq!(streamed.path, "/v1beta/models/test-model:streamGenerateContent");
    assert_eq!([whole.query.as_str(), streamed.query.as_str()], ["", "alt=sse"]);
    for request in [whole, streamed] {
        assert_eq!(request.method, "POST");
        for (name, value) in [
            ("content-type", "application/json"),
            ("x-goog-api-key", "test-key"),
            ("x-goog-user-project", "payer"),
            ("user-agent", concat!("neuron/", env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
        assert_eq!(request.header("authorization"), None);
        let body = json!({
            "generationConfig": {"maxOutputTokens": 64},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        });
        assert_eq!(request.json.as_ref(), Some(&body));
    }
}

#[tokio::test]
async fn every_base_url_format_leads_to_the_same_path() {
    let reply = || whole(&json!([{"text": "a"}]));
    let server = start([reply(), reply(), reply(), reply()]).await;
    for end in ["", "/", "/v1beta", "/v1beta/"] {
        let provider = provider(format!("{}{end}", server.url()));
        provider.complete(ask("hi")).await.unwrap();
    }
    let path = "/v1beta/models/gemini-3.8-flash:generateContent";
    assert!(server.requests().iter().all(|sent| sent.path == path));
}

#[tokio::test]
async fn version_model_and_query_are_part_of_the_url() {
    let server = start([streamed(&[json!({"text": "a"})])]).await;
    let provider = provider(server.url() + "/proxy?team=x").api_version("v1alpha");
    let mut request = ask("hi");
    request.model = "tunedModels/mine".into();
    let handle = provider.complete_stream(request).await.unwrap();
    handle.into_response().await.unwrap();
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/proxy/v1alpha/tunedModels/mine:streamGenerateContent");
    assert_eq!(sent.query, "alt=sse&team=x");
}

/// Models with long decode reject a request of more tokens unless it is streamed.
#[tokio::test]
async fn large_maximum_of_a_whole_response_is_streamed_for_long_decode() {
    let text = json!({"text": "a"});
    for (model, max_tokens, query) in [
        ("gemini-4-argon", 32_768, ""),
        ("gemini-4-argon", 32_769, "alt=sse"),
        ("gemini-3.8-flash", 65_536, ""),
    ] {
        let reply = match query {
            "" => whole(&json!([text])),
            _ => streamed(std::slice::from_ref(&text)),
        };
        let server = start([reply]).await;
        let mut request = ask("hi");
        request.max_tokens = Some(max_tokens);
        let provider = provider(server.url()).model(model);
        assert_eq!(provider.complete(request).await.unwrap().message.text(), "a");
        assert_eq!(server.requests()[0].query, query, "{model} {max_tokens}");
    }
}

#[tokio::test]
async fn timeout_applies_to_the_whole_of_a_collected_stream() {
    let server = RawServer::bind().await;
    let event = format!("data: {}\n\n", chunk(&json!([{"text": "a"}]), None));
    let provider =
        provider(server.url()).model("gemini-4-argon").timeout(Duration::from_millis(300));
    let mut request = ask("hi");
    request.max_tokens = Some(65_536);
    let (answer, _connection) = soon(async {
        tokio::join!(
            provider.complete(request),
            server.respond(200, "text/event-stream", 1_000_000, event)
        )
    })
    .await;
    assert_eq!(answer.unwrap_err().to_string(), "timeout after 300ms");
}

#[tokio::test]
async fn inexpressible_request_is_not_sent() {
    let server = start([]).await;
    let provider = provider(server.url());
    let mut request = ask("hi");
    request.model = "../x".into();
    assert_eq!(provider.complete_ref(request.view()).await.unwrap_err().kind(), "InvalidRequest");
    let error = provider.complete_stream_ref(request.view()).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn clones_share_connections() {
    let reply = || whole(&json!([{"text": "a"}]));
    let server = start([reply(), reply(), reply()]).await;
    let provider = provider(server.url());
    for provider in [provider.clone(), provider.clone().model("another"), provider] {
        provider.complete(ask("hi")).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropped_stream_closes_the_connection() {
    let server = RawServer::bind().await;
    let event = format!("data: {}\n\n", chunk(&json!([{"text": "a"}]), None));
    let provider = provider(server.url());
    let (handle, mut connection) = soon(async {
        tokio::join!(
            provider.complete_stream(ask("hi")),
            server.respond(200, "text/event-stream", 1_000_000, event)
        )
    })
    .await;
    let mut handle = handle.unwrap();
    assert!(soon(handle.receiver.recv()).await.is_some());
    drop(handle);
    soon(connection.write_until_closed(": ping\n\n")).await;
}
