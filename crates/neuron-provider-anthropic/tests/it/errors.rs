//! Tests that check the classes and texts of errors over HTTP.

use std::time::Duration;

use neuron_model::{CompletionRequest, Provider, ProviderError};
use neuron_provider_anthropic::Anthropic;
use neuron_testing::{AnthropicServer, Reply, ServerReply};
use serde_json::json;

use crate::support::*;

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

fn error(error: ProviderError) -> ServerReply {
    Reply::error(error).into()
}

/// The same HTTP response must give the same error, whether the request is streamed or not.
#[tokio::test]
async fn error_response_has_class_and_text() {
    use ProviderError as E;
    let spending = r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_b"}"#;
    for (reply, text) in [
        (
            error(E::ServiceUnavailable("Overloaded".into())),
            "service unavailable: 529 overloaded_error: Overloaded (request id req_N)",
        ),
        (
            error(E::InsufficientResources("pay".into())),
            "insufficient resources: 402 billing_error: pay (request id req_N)",
        ),
        (
            error(E::InvalidRequest("bad".into())),
            "invalid request: 400 invalid_request_error: bad (request id req_N)",
        ),
        (error(E::Timeout(Duration::from_secs(1))), "timeout after 600s"),
        // A spending limit is not a rate limit, even with the header `retry-after`.
        (
            raw(429, &[("retry-after", "5")], spending),
            "insufficient resources: 429 rate_limit_error: limit (request id req_b)",
        ),
        (
            raw(502, &[("content-type", "text/html")], "<html>Bad gateway</html>"),
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>",
        ),
        (
            raw(500, &[("request-id", "req_h")], ""),
            "service unavailable: 500: the response has no body (request id req_h)",
        ),
    ] {
        let server = start([reply.clone(), reply]).await;
        let provider = provider(server.url());
        let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
        assert_eq!(whole.to_string(), text.replace("req_N", "req_1"));
        let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
        assert_eq!(streamed.to_string(), text.replace("req_N", "req_2"));
    }
}

#[tokio::test]
async fn error_with_successful_status_has_text() {
    let json = [("content-type", "application/json")];
    let no_answer = raw(200, &json, r#"{"ok":true}"#);
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let in_stream = ProviderError::ServiceUnavailable("Overloaded".into());
    let server = start([
        no_answer.clone(),
        no_answer,
        raw(200, &json, busy),
        Reply::text("hello").fail_after(4, in_stream).into(),
    ])
    .await;
    let provider = provider(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
    assert!(error.contains("missing field `content`"), "{error}");
    for text in [
        "a stream was asked for, and the server sent application/json: {\"ok\":true}",
        "service unavailable: in the answer overloaded_error: busy",
    ] {
        let error = provider.complete_stream(ask("hi")).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    assert_eq!(
        soon(handle.into_response()).await.unwrap_err().to_string(),
        "service unavailable: in the stream overloaded_error: Overloaded (request id req_4)"
    );
}

#[tokio::test]
async fn rejected_request_has_the_apis_text() {
    let builder = AnthropicServer::builder().models(["another"]);
    let server = builder.start(["never sent"]).await.unwrap();
    for (provider, text) in [
        (
            Anthropic::new("wrong").base_url(server.url()),
            "authentication failed: 401 authentication_error: invalid x-api-key (request id req_1)",
        ),
        (
            provider(server.url()).model("claude-gone"),
            "model not found: 404 not_found_error: model: claude-gone (request id req_2)",
        ),
        // Regression test. A wrong path was reported as an unknown model.
        (
            provider(format!("{}/v1/messages", server.url())),
            "invalid request: 404 not_found_error: Not Found (request id req_3); the base URL is probably wrong",
        ),
    ] {
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

/// The API names a rejected tool only by its position, or by the name that the request gave to it. Regression test.
#[tokio::test]
async fn error_about_a_tool_has_its_name() {
    let tools = json!([
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}},
        {"name": "fs/read", "description": "Reads.", "input_schema": {"type": "object"}},
    ]);
    let request = CompletionRequest {
        tools: serde_json::from_value(tools).unwrap(),
        extra: Some(json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})),
        ..ask("hi")
    };
    for (message, expected) in [
        (
            "tools.1.custom.input_schema: JSON schema is invalid",
            "tools.1 (`fs/read`).custom.input_schema: JSON schema is invalid",
        ),
        (
            "tools.2.max_uses: Input should be a valid integer",
            "tools.2 (`web_search`).max_uses: Input should be a valid integer",
        ),
        ("tools.7: why", "tools.7: why"),
    ] {
        let reply = error(ProviderError::InvalidRequest(message.into()));
        let server = start([reply.clone(), reply]).await;
        let provider = provider(server.url());
        let whole = soon(provider.complete(request.clone())).await.unwrap_err();
        let streamed = soon(provider.complete_stream(request.clone())).await.unwrap_err();
        for error in [whole, streamed] {
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.is_retryable());
        }
    }
}
