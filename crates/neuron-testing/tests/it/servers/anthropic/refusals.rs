//! Tests of rejected requests, and of the format of errors.

use std::time::Duration;

use neuron_testing::{AnthropicServer, ServerReply};
use neuron_types::ProviderError;
use serde_json::{Value, json};

use crate::servers::anthropic::client::{HEADERS, MESSAGES, ask, post};
use crate::servers::anthropic::start;
use crate::servers::http::{Answer, Client};

/// Asserts that a response is an error with this status, type and message in Anthropic's format.
#[track_caller]
pub(crate) fn check_refused(answer: &Answer, status: u16, kind: &str, message: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let request_id = answer.header("request-id");
    assert!(request_id.is_some_and(|id| id.starts_with("req_")));
    assert_eq!(
        answer.json(),
        json!({
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": request_id,
        })
    );
}

#[tokio::test]
async fn invalid_requests_are_rejected_like_anthropic() {
    let server = AnthropicServer::builder()
        .api_key("secret")
        .models(["claude-sonnet-4-6"])
        .start(["hello"])
        .await
        .unwrap();
    let good = ask(false).to_string();
    let key = ("x-api-key", "secret");
    let version = ("anthropic-version", "2023-06-01");
    // All requests use the same connection, because an error response must not close it.
    let mut client = Client::connect(&server.url()).await.unwrap();
    let mut refused = 0;
    let mut check = async |path, headers: &[_], body: &str, status, kind, message| {
        client.send(path, headers, body.as_bytes()).await.unwrap();
        check_refused(&client.receive().await.unwrap(), status, kind, message);
        refused += 1;
    };

    let unknown_path = (404, "not_found_error", "Not Found");
    for path in ["GET /v1/messages", "POST /v1/complete"] {
        let (status, kind, message) = unknown_path;
        check(path, &[key, version], &good, status, kind, message).await;
    }

    let kind = "authentication_error";
    let message = "x-api-key header is required";
    check(MESSAGES, &[version], &good, 401, kind, message).await;
    let wrong_key = ("x-api-key", AnthropicServer::API_KEY);
    let message = "invalid x-api-key";
    check(MESSAGES, &[wrong_key, version], &good, 401, kind, message).await;

    let kind = "invalid_request_error";
    let message = "anthropic-version: header is required";
    check(MESSAGES, &[key], &good, 400, kind, message).await;
    let wrong_version = ("anthropic-version", "2024-01-01");
    let message = "anthropic-version: \"2024-01-01\" is not a valid version";
    check(MESSAGES, &[key, wrong_version], &good, 400, kind, message).await;
    let message = "The request body is not valid JSON";
    check(MESSAGES, &[key, version], "{", 400, kind, message).await;
    let message = "model: Field required";
    check(MESSAGES, &[key, version], "{}", 400, kind, message).await;

    let kind = "not_found_error";
    let message = "model: claude-sonata-4-6";
    let other_model = good.replace("sonnet", "sonata");
    check(MESSAGES, &[key, version], &other_model, 404, kind, message).await;

    assert_eq!(server.remaining(), 1);
    assert_eq!(server.requests().len(), refused);
    assert_eq!(server.bodies()[6], Value::Null);

    let headers = [("authorization", "Bearer secret"), version];
    client.send("POST /v1/messages?beta=true", &headers, good.as_bytes()).await.unwrap();
    assert_eq!(client.receive().await.unwrap().status, 200);
    assert_eq!(server.requests()[refused].query, "beta=true");
    assert_eq!(server.connections(), 1);
    assert_eq!(server.disconnects(), 0);
}

#[tokio::test]
async fn beta_fields_require_the_beta_header() {
    let server = start(["hello"]).await;
    let mut body = ask(false);
    body["context_management"] = json!({"edits": [{"type": "compact_20260112"}]});
    let answer = post(&server, &body).await;
    check_refused(
        &answer,
        400,
        "invalid_request_error",
        "context_management: Extra inputs are not permitted",
    );

    let mut client = Client::connect(&server.url()).await.unwrap();
    let beta = ("anthropic-beta", "other-2026-01-01, compact-2026-01-12");
    let headers = [HEADERS, &[beta]].concat();
    let body = body.to_string();
    client.send(MESSAGES, &headers, body.as_bytes()).await.unwrap();
    assert_eq!(client.receive().await.unwrap().status, 200);
}

#[tokio::test]
async fn scripted_errors_have_their_status_and_headers() {
    let limited = || ProviderError::RateLimit { retry_after: Some(Duration::from_secs(2)) };
    let busy = || ProviderError::ServiceUnavailable("Overloaded".into());
    let server = start([
        limited().into(),
        busy().into(),
        ServerReply::from(busy()).header("retry-after-ms", "20"),
    ])
    .await;
    let answer = post(&server, &ask(true)).await;
    assert_eq!(answer.header("retry-after"), Some("2"));
    check_refused(&answer, 429, "rate_limit_error", "the rate limit is exceeded");
    let answer = post(&server, &ask(false)).await;
    assert_eq!(answer.header("retry-after"), None);
    check_refused(&answer, 529, "overloaded_error", "Overloaded");
    let answer = post(&server, &ask(false)).await;
    assert_eq!(answer.header("retry-after-ms"), Some("20"));
}
