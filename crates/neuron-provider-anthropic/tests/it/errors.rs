//! What the API, a proxy or the way to it may answer instead of an answer.

use std::time::Duration;

use neuron_testing::{AnthropicServer, Reply, ServerReply};
use neuron_types::{Provider, ProviderError};

use crate::support::*;

/// Checks both calls: the same reply gives the same error before the first event.
async fn check(reply: impl Into<ServerReply>, kind: &str, text: &str) {
    let reply = reply.into();
    let server = start([reply.clone(), reply]).await;
    let provider = provider(server.url());
    let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
    let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
    let (first, second) = (text.replace("req_N", "req_1"), text.replace("req_N", "req_2"));
    assert_eq!((whole.kind(), whole.to_string()), (kind, first));
    assert_eq!((streamed.kind(), streamed.to_string()), (kind, second));
}

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

#[tokio::test]
async fn a_wrong_key() {
    let server = start(["never sent"]).await;
    let provider = neuron_provider_anthropic::Anthropic::new("wrong").base_url(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Authentication(_)));
    assert!(!error.is_retryable());
    assert_eq!(
        error.to_string(),
        "authentication failed: 401 authentication_error: invalid x-api-key (request id req_1)"
    );
}

#[tokio::test]
async fn a_model_that_is_not_there() {
    let server =
        AnthropicServer::builder().models(["another"]).start(["never sent"]).await.unwrap();
    let provider = provider(server.url()).model("claude-gone");
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::ModelNotFound(_)));
    assert_eq!(
        error.to_string(),
        "model not found: 404 not_found_error: model: claude-gone (request id req_1)"
    );
}

/// It was a model that is not found, and the model was right.
#[tokio::test]
async fn a_path_that_is_not_there_is_no_missing_model() {
    let server = start(["never sent"]).await;
    let provider = provider(format!("{}/v1/messages", server.url()));
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: 404 not_found_error: Not Found (request id req_1)"
    );
}

#[tokio::test]
async fn the_apis_errors_keep_their_class_and_their_text() {
    use ProviderError as E;
    let error = |error: ProviderError| Reply::error(error);
    check(
        error(E::ServiceUnavailable("Overloaded".into())),
        "ServiceUnavailable",
        "service unavailable: 529 overloaded_error: Overloaded (request id req_N)",
    )
    .await;
    check(
        error(E::InsufficientResources("pay".into())),
        "InsufficientResources",
        "insufficient resources: 402 billing_error: pay (request id req_N)",
    )
    .await;
    check(
        error(E::InvalidRequest("bad".into())),
        "InvalidRequest",
        "invalid request: 400 invalid_request_error: bad (request id req_N)",
    )
    .await;
    check(error(E::Timeout(Duration::from_secs(1))), "Timeout", "timeout after 600s").await;
}

#[tokio::test]
async fn a_spending_limit_is_no_rate_limit() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_b"}"#;
    check(
        raw(429, &[("retry-after", "5")], body),
        "InsufficientResources",
        "insufficient resources: 429 rate_limit_error: limit (request id req_b)",
    )
    .await;
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let delay = async |headers: &[(&str, &str)]| {
        let server = start([raw(429, headers, body)]).await;
        let error = provider(server.url()).complete(ask("hi")).await;
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), ("RateLimit", true));
        error.retry_after()
    };
    assert_eq!(delay(&[]).await, None);
    let seconds = [("retry-after", "7")];
    assert_eq!(delay(&seconds).await, Some(Duration::from_secs(7)));
    let millis = [("retry-after", "7"), ("retry-after-ms", "250")];
    assert_eq!(delay(&millis).await, Some(Duration::from_millis(250)));
    let past = [("retry-after", "Sat, 21 Nov 2020 10:00:30 GMT")];
    assert_eq!(delay(&past).await, Some(Duration::ZERO));
    let future = [("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")];
    assert!(delay(&future).await > Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn a_proxys_page_is_shown() {
    check(
        raw(502, &[("content-type", "text/html")], "<html>Bad gateway</html>"),
        "ServiceUnavailable",
        "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>",
    )
    .await;
    check(
        raw(500, &[("request-id", "req_h")], ""),
        "ServiceUnavailable",
        "service unavailable: 500: the response has no body (request id req_h)",
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays_here() {
    let elsewhere = start(["never sent"]).await;
    let location = format!("{}/v1/messages", elsewhere.url());
    for status in [301, 302, 307, 308] {
        check(
            raw(status, &[("location", &location)], ""),
            "InvalidRequest",
            &format!(
                "invalid request: {status}: redirected to {location}, which is not followed: the base URL must lead there"
            ),
        )
        .await;
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_success_that_is_no_answer() {
    let json = raw(200, &[("content-type", "application/json")], r#"{"ok":true}"#);
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let busy = raw(200, &[("content-type", "application/json")], busy);
    let server = start([json.clone(), json, busy]).await;
    let provider = provider(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
    assert!(error.contains("missing field `content`"), "{error}");
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a stream was asked for, and the server sent application/json: {\"ok\":true}"
    );
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "service unavailable: in the answer overloaded_error: busy");
}

#[tokio::test]
async fn nobody_listens() {
    let server = RawServer::bind().await;
    let url = server.url();
    drop(server);
    let provider = provider(url.clone());
    let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
    assert!(matches!(error, ProviderError::Network(_)));
    assert!(error.is_retryable());
    let text = error.to_string();
    assert!(text.starts_with(&format!("network error: {url}: ")), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer() {
    let network = ProviderError::Network("reset".into());
    let server = start([Reply::error(network)]).await;
    let error = provider(server.url()).complete(ask("hi")).await;
    assert_eq!(error.unwrap_err().kind(), "Network");
}

/// A server that sends an error for ever would have filled the memory.
#[tokio::test]
async fn an_error_that_does_not_end_is_read_only_in_part() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let endless = async {
        let mut connection = server.request().await;
        connection.head(500, "text/plain", usize::MAX >> 1).await;
        let page = vec![b'x'; 64 * 1024];
        // Fails when the client has had enough.
        while tokio::io::AsyncWriteExt::write_all(&mut connection.stream, &page).await.is_ok() {}
    };
    let (error, ()) = soon(async { tokio::join!(provider.complete(ask("hi")), endless) }).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), "ServiceUnavailable");
    assert!(error.to_string().len() < 1000);
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_an_error() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let endless = async {
        let mut connection = server.request().await;
        connection.head(200, "application/json", usize::MAX >> 1).await;
        let page = vec![b' '; 1024 * 1024];
        while tokio::io::AsyncWriteExt::write_all(&mut connection.stream, &page).await.is_ok() {}
    };
    let (error, ()) = soon(async { tokio::join!(provider.complete(ask("hi")), endless) }).await;
    assert_eq!(error.unwrap_err().to_string(), "the response is too large");
}
