//! Tests that check the classes and texts of errors over HTTP.

use std::time::Duration;

use neuron_model::{CompletionRequest, Provider};
use neuron_testing::ServerReply;
use serde_json::{Value, json};

use crate::support::*;

fn error(code: u16, status: &str, message: &str, details: Value) -> ServerReply {
    let error = json!({"code": code, "message": message, "status": status, "details": details});
    json_reply(code, &json!({ "error": error }))
}

/// The same HTTP response must give the same error, whether the request is streamed or not.
#[tokio::test]
async fn error_response_has_class_and_text() {
    for (reply, text) in [
        (
            error(503, "UNAVAILABLE", "The model is overloaded.", json!([])),
            "service unavailable: 503 UNAVAILABLE: The model is overloaded.",
        ),
        (
            error(429, "RESOURCE_EXHAUSTED", "quota", json!([{"retryDelay": "14s"}])),
            "rate limited, retry after 14s",
        ),
        (
            error(400, "INVALID_ARGUMENT", "bad test-key", json!([{"reason": "API_KEY_INVALID"}])),
            "authentication failed: 400 INVALID_ARGUMENT: bad [redacted]",
        ),
        (error(504, "DEADLINE_EXCEEDED", "late", json!([])), "timeout after 600s"),
        (
            ServerReply::raw(502, [("content-type", "text/html")], "<html>Bad gateway</html>"),
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>",
        ),
    ] {
        let server = start([reply.clone(), reply]).await;
        let provider = provider(server.url());
        let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
        let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
        assert_eq!([whole.to_string().as_str(), streamed.to_string().as_str()], [text; 2]);
    }
}

#[tokio::test]
async fn error_with_successful_status_has_class_and_text() {
    let busy = json!([{"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}]);
    let reply = || json_reply(200, &busy);
    let broken = events(&[chunk(&json!([{"text": "a"}]), None), busy[0].clone()]);
    let cut = events(&[chunk(&json!([{"text": "a"}]), None)]);
    let server = start([reply(), reply(), broken, cut]).await;
    let provider = provider(server.url());
    let text = "service unavailable: in the answer UNAVAILABLE: busy";
    assert_eq!(provider.complete(ask("hi")).await.unwrap_err().to_string(), text);
    assert_eq!(provider.complete_stream(ask("hi")).await.unwrap_err().to_string(), text);
    for text in [
        "service unavailable: in the stream UNAVAILABLE: busy",
        "stream error: the stream ended before the answer was complete",
    ] {
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        assert_eq!(soon(handle.into_response()).await.unwrap_err().to_string(), text);
    }
}

#[tokio::test]
async fn late_response_is_a_timeout() {
    let server = neuron_testing::RawServer::bind().await;
    let limit = Duration::from_millis(50);
    let provider = provider(server.url()).timeout(limit);
    let (error, _connection) =
        soon(async { tokio::join!(provider.complete(ask("hi")), server.request()) }).await;
    assert_eq!(error.unwrap_err().to_string(), "timeout after 50ms");
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
        extra: Some(json!({"tools": [{"googleSearch": {}}]})),
        ..ask("hi")
    };
    for (message, expected) in [
        (
            "* GenerateContentRequest.tools[0].function_declarations[1].parameters: why",
            "* GenerateContentRequest.tools[0].function_declarations[1] (`fs/read`).parameters: why",
        ),
        (
            "Unknown name \"x\" at 'tools[1].google_search'",
            "Unknown name \"x\" at 'tools[1].google_search'",
        ),
    ] {
        let reply = error(400, "INVALID_ARGUMENT", message, json!([]));
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
