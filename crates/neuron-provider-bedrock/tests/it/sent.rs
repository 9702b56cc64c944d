//! Tests that check the URL, the headers, the body and the connection of requests.

use std::time::Duration;

use neuron_model::{Provider, ProviderError};
use neuron_provider_bedrock::KeySource;
use neuron_testing::RawServer;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn request_has_path_headers_and_body() {
    let server = start([whole(&json!([{"text": "a"}])), streamed("a")]).await;
    let provider = provider(server.url())
        .model("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        .guardrail("g1", "2");
    let response = provider.complete(ask("hi")).await.unwrap();
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let from_stream = handle.into_response().await.unwrap();
    for response in [response, from_stream] {
        assert_eq!(response.message.text(), "a");
        assert_eq!(response.id, "r-1");
        assert_eq!(response.model, "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
        assert_eq!(response.message.metadata().unwrap().request_id.as_deref(), Some("r-1"));
    }

    let [whole, streamed] = &server.requests()[..] else {
        panic!("two requests");
    };
    let path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
    assert_eq!(whole.path, path);
    assert_eq!(streamed.path, format!("{path}-stream"));
    for request in [whole, streamed] {
        assert_eq!(request.method, "POST");
        for (name, value) in [
            ("content-type", "application/json"),
            ("authorization", "Bearer test-key"),
            ("user-agent", concat!("neuron/", env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
        let body = json!({
            "inferenceConfig": {"maxTokens": 64},
            "guardrailConfig": {
                "guardrailIdentifier": "g1", "guardrailVersion": "2", "trace": "enabled",
            },
            "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        });
        assert_eq!(request.json.as_ref(), Some(&body));
    }
}

#[tokio::test]
async fn arn_is_one_segment_below_the_base_url() {
    let server = start([streamed("a")]).await;
    let provider = provider(server.url() + "/proxy/?team=x");
    let mut request = ask("hi");
    request.model = "arn:aws:bedrock:us-east-1:1:application-inference-profile/a1".into();
    let handle = provider.complete_stream(request.clone()).await.unwrap();
    assert_eq!(handle.into_response().await.unwrap().model, request.model);
    let sent = &server.requests()[0];
    assert_eq!(
        sent.path,
        "/proxy/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fa1/converse-stream"
    );
    assert_eq!(sent.query, "team=x");
}

#[tokio::test]
async fn base_model_decides_about_the_request() {
    let server = start([whole(&json!([{"text": "a"}])), whole(&json!([{"text": "a"}]))]).await;
    let provider = provider(server.url()).model("my-profile");
    let mut request = ask("hi");
    request.max_tokens = None;
    provider.complete(request.clone()).await.unwrap();
    let provider = provider.base_model("anthropic.claude-opus-5-5");
    provider.complete(request).await.unwrap();
    let sent = server.bodies();
    let tokens: Vec<_> = sent.iter().map(|body| &body["inferenceConfig"]["maxTokens"]).collect();
    assert_eq!(tokens, [4_000, 8_192]);
    assert!(server.requests().iter().all(|sent| sent.path == "/model/my-profile/converse"));
}

#[tokio::test]
async fn key_source_is_asked_before_each_request() {
    let server = start([whole(&json!([])), whole(&json!([]))]).await;
    let count = std::sync::atomic::AtomicUsize::new(0);
    let source = KeySource::new(move || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { Ok(format!("key-{number}")) }
    });
    let provider = provider(server.url()).key_source(source);
    for _ in 0..2 {
        provider.complete(ask("hi")).await.unwrap();
    }
    let requests = server.requests();
    let keys: Vec<_> = requests.iter().map(|sent| sent.header("authorization").unwrap()).collect();
    assert_eq!(keys, ["Bearer key-0", "Bearer key-1"]);
    let failing = KeySource::new(|| async { Err(ProviderError::Authentication("no key".into())) });
    let error = provider.key_source(failing).complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "authentication failed: no key");
}

/// A connection without traffic is closed on its way, so a long response must be streamed.
#[tokio::test]
async fn long_whole_response_is_requested_as_a_stream() {
    let server = start([whole(&json!([{"text": "a"}])), streamed("a")]).await;
    let provider = provider(server.url());
    for max_tokens in [16_384, 16_385] {
        let mut request = ask("hi");
        request.max_tokens = Some(max_tokens);
        let response = provider.complete(request).await.unwrap();
        assert_eq!((response.message.text().as_str(), response.id.as_str()), ("a", "r-1"));
    }
    let requests = server.requests();
    let is_streamed: Vec<_> = requests.iter().map(|sent| sent.path.ends_with("-stream")).collect();
    assert_eq!(is_streamed, [false, true]);
}

#[tokio::test]
async fn timeout_applies_to_the_whole_of_a_collected_stream() {
    let server = RawServer::bind().await;
    let text = delta(0, &json!({"text": "a"}));
    let provider = provider(server.url()).timeout(Duration::from_millis(300));
    let mut request = ask("hi");
    request.max_tokens = Some(65_536);
    let (answer, _connection) = soon(async {
        tokio::join!(provider.complete(request), server.respond(200, EVENT_STREAM, 1_000_000, text))
    })
    .await;
    assert_eq!(answer.unwrap_err().to_string(), "timeout after 300ms");
}

#[tokio::test]
async fn inexpressible_request_is_not_sent() {
    let server = start([]).await;
    let mut request = ask("hi");
    request.model = "..".into();
    let in_region = |region: &str| {
        neuron_provider_bedrock::Bedrock::new(region, "test-key").base_url(server.url())
    };
    for (provider, request) in
        [(in_region("us-east-1"), request), (in_region("x.evil.example/"), ask("hi"))]
    {
        let error = provider.complete_ref(request.view()).await.unwrap_err();
        assert_eq!(error.kind(), "InvalidRequest");
        let error = provider.complete_stream_ref(request.view()).await.unwrap_err();
        assert_eq!(error.kind(), "InvalidRequest");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn clones_share_connections() {
    let reply = || whole(&json!([{"text": "a"}]));
    let server = start([reply(), streamed("a"), reply()]).await;
    let provider = provider(server.url());
    provider.complete(ask("hi")).await.unwrap();
    let handle = provider.clone().complete_stream(ask("hi")).await.unwrap();
    handle.into_response().await.unwrap();
    provider.clone().model("another").complete(ask("hi")).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropped_stream_closes_the_connection() {
    let server = RawServer::bind().await;
    let text = delta(0, &json!({"text": "a"}));
    let provider = provider(server.url());
    let (handle, mut connection) = soon(async {
        tokio::join!(
            provider.complete_stream(ask("hi")),
            server.respond(200, EVENT_STREAM, 1_000_000, text)
        )
    })
    .await;
    let mut handle = handle.unwrap();
    assert!(soon(handle.receiver.recv()).await.is_some());
    drop(handle);
    soon(connection.write_until_closed("more")).await;
}
