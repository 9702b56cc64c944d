//! Tests that check the classes and texts of errors over HTTP.

use std::time::Duration;

use neuron_model::{CompletionRequest, Provider};
use neuron_testing::ServerReply;
use neuron_testing::bedrock::frame;
use serde_json::json;

use crate::support::*;

fn error(status: u16, name: &str, message: &str) -> ServerReply {
    let headers = [
        ("content-type", "application/json"),
        ("x-amzn-errortype", name),
        ("x-amzn-requestid", "r-1"),
    ];
    ServerReply::raw(status, headers, json!({ "message": message }).to_string())
}

/// The same HTTP response must give the same error, whether the request is streamed or not.
#[tokio::test]
async fn error_response_has_class_and_text() {
    for (reply, text) in [
        (
            error(503, "ServiceUnavailableException:http://internal/", "Bedrock is busy."),
            "service unavailable: 503 ServiceUnavailableException: Bedrock is busy. (request id r-1)",
        ),
        (error(429, "ThrottlingException", "Too many requests, please wait"), "rate limited"),
        (
            error(403, "AccessDeniedException", "bad test-key"),
            "authentication failed: 403 AccessDeniedException: bad [redacted] (request id r-1)",
        ),
        (
            error(400, "ValidationException", "The provided model identifier is invalid."),
            "model not found: 400 ValidationException: The provided model identifier is invalid. (request id r-1)",
        ),
        (error(408, "ModelTimeoutException", "late"), "timeout after 600s"),
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
    let busy = json!({"__type": "ServiceUnavailableException", "message": "busy"});
    let reply = || json_reply(200, &busy);
    let text = delta(0, &json!({"text": "a"}));
    let headers =
        [(":exception-type", "serviceUnavailableException"), (":message-type", "exception")];
    let exception = frame(&headers, br#"{"message": "busy test-key"}"#);
    let broken = frames([text.clone(), exception].concat());
    let server = start([reply(), reply(), broken, frames(text)]).await;
    let provider = provider(server.url());
    let text = "service unavailable: in the answer ServiceUnavailableException: busy";
    assert_eq!(provider.complete(ask("hi")).await.unwrap_err().to_string(), text);
    assert_eq!(provider.complete_stream(ask("hi")).await.unwrap_err().to_string(), text);
    for text in [
        "service unavailable: in the stream serviceUnavailableException: busy [redacted]",
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
        extra: Some(
            json!({"tools": [{"toolSpec": {"name": "act", "inputSchema": {"json": {"type": "object"}}}}]}),
        ),
        ..ask("hi")
    };
    for (message, expected) in [
        (
            "Value at 'toolConfig.tools.2.member.toolSpec.name' failed",
            "Value at 'toolConfig.tools.2.member (`fs/read`).toolSpec.name' failed",
        ),
        (
            "The value at toolConfig.tools.1.toolSpec.inputSchema.json.type must be",
            "The value at toolConfig.tools.1 (`fs/read`).toolSpec.inputSchema.json.type must be",
        ),
        (
            "The model returned the following errors: tools.1.custom.name: why",
            "tools.1 (`fs/read`).custom.name: why",
        ),
    ] {
        let reply = error(400, "ValidationException", message);
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
