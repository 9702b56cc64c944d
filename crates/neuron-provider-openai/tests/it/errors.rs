//! Tests that check the classes and texts of errors over HTTP.

use std::time::Duration;

use neuron_model::{CompletionRequest, Provider, ProviderError};
use neuron_provider_openai::OpenAi;
use neuron_testing::{OpenAiServer, Reply, ServerReply};
use serde_json::json;

use crate::support::*;

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

fn error(error: ProviderError) -> ServerReply {
    Reply::error(error).into()
}

/// An error response must give the same error in Chat Completions and in the Responses API, with and without streaming.
#[tokio::test]
async fn error_response_has_class_and_text() {
    use ProviderError as E;
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let busy = r#"{"error":{"message":"busy","type":"overloaded_error","code":503}}"#;
    for (reply, text) in [
        (
            error(E::ServiceUnavailable("Overloaded".into())),
            "service unavailable: 503 server_is_overloaded: Overloaded (request id req_N)",
        ),
        (
            error(E::InsufficientResources("pay".into())),
            "insufficient resources: 429 insufficient_quota: pay (request id req_N)",
        ),
        (
            error(E::InvalidRequest("bad".into())),
            "invalid request: 400 invalid_request_error: bad (request id req_N)",
        ),
        (
            error(E::ModelLoading("soon".into())),
            "model loading: 503 unavailable_error: Loading model: soon (request id req_N)",
        ),
        (error(E::Timeout(Duration::from_secs(1))), "timeout after 600s"),
        // An exhausted quota is not a rate limit, even with the header `retry-after`.
        (
            raw(429, &[("retry-after", "5"), ("x-request-id", "req_q")], quota),
            "insufficient resources: 429 insufficient_quota: You exceeded your current quota (request id req_q)",
        ),
        (
            raw(502, &[("content-type", "text/html")], "<html>Bad gateway</html>"),
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>",
        ),
        (
            raw(500, &[("x-request-id", "req_h")], ""),
            "service unavailable: 500: the response has no body (request id req_h)",
        ),
        // Regression test. An error that the server sent instead of a stream lost its class.
        (raw(200, &[JSON], busy), "service unavailable: in the answer overloaded_error: busy"),
        (
            raw(200, &[JSON], r#"{"object":"error","message":"why","code":401}"#),
            "authentication failed: in the answer: why",
        ),
    ] {
        for api in APIS {
            let server = start([reply.clone(), reply.clone()]).await;
            let provider = api.provider(server.url());
            let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
            assert_eq!(whole.to_string(), text.replace("req_N", "req_1"));
            let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
            assert_eq!(streamed.to_string(), text.replace("req_N", "req_2"));
        }
    }
}

#[tokio::test]
async fn error_with_successful_status_has_text() {
    for (api, why) in [(Api::Chat, "there are no choices"), (Api::Responses, "has no output")] {
        let no_answer = raw(200, &[("content-type", "application/json")], r#"{"ok":true}"#);
        let busy = ProviderError::ServiceUnavailable("Overloaded".into());
        let broken = Reply::text("0123456789").chunk_chars(1).fail_after(9, busy);
        let server = start([no_answer.clone(), no_answer, broken.into()]).await;
        let provider = api.provider(server.url());
        let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(
            provider.complete_stream(ask("hi")).await.unwrap_err().to_string(),
            r#"a stream was asked for, and the server sent application/json: {"ok":true}"#
        );
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        assert_eq!(
            soon(handle.into_response()).await.unwrap_err().to_string(),
            "service unavailable: in the stream server_is_overloaded: Overloaded"
        );
    }
}

#[tokio::test]
async fn rejected_request_has_the_apis_text() {
    for api in APIS {
        let builder = OpenAiServer::builder().models(["another"]);
        let server = builder.start(["never sent"]).await.unwrap();
        for (provider, text) in [
            (
                api.with(OpenAi::new("wrong").base_url(server.url())),
                "authentication failed: 401 invalid_api_key: Incorrect API key provided: *****. You \
                 can find your API key at https://platform.openai.com/account/api-keys. (request id \
                 req_1)",
            ),
            (
                api.provider(server.url()).model("gpt-gone"),
                "model not found: 404 model_not_found: The model `gpt-gone` does not exist or you do \
                 not have access to it. (request id req_2)",
            ),
        ] {
            let error = provider.complete(ask("hi")).await.unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }
}

#[tokio::test]
async fn inexpressible_request_is_not_sent() {
    let server = start(["never sent"]).await;
    let mut request = ask("hi");
    request.stop_sequences = vec!["END".into()];
    let error = Api::Responses.provider(server.url()).complete(request).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    let error = Api::Chat.provider("ftp://h").complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    assert_eq!(server.connections(), 0);
}

/// The API names a rejected tool only by its position, or by the name that the request gave to it. Regression test.
#[tokio::test]
async fn error_about_a_tool_has_its_name() {
    let tools = json!([
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}},
        {"name": "fs/read", "description": "Reads.", "input_schema": {"type": "object"}},
    ]);
    let request = CompletionRequest { tools: serde_json::from_value(tools).unwrap(), ..ask("hi") };
    for (message, expected) in [
        (
            "Invalid 'tools[1].function.parameters': why",
            "Invalid 'tools[1] (`fs/read`).function.parameters': why",
        ),
        (
            "Invalid schema for function 'fs_read': why",
            "Invalid schema for function 'fs_read' (`fs/read`): why",
        ),
        ("tools[2].name: why", "tools[2].name: why"),
    ] {
        let reply = error(ProviderError::InvalidRequest(message.into()));
        let server = start([reply.clone(), reply]).await;
        for api in APIS {
            let provider = api.provider(server.url());
            let error = soon(provider.complete(request.clone())).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.is_retryable());
        }
    }
}
