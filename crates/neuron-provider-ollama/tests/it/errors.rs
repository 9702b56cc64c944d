//! What the API, a proxy or the way to it may answer instead of an answer.

use std::time::Duration;

use neuron_testing::{OllamaServer, Reply, ServerReply};
use neuron_types::{Provider, ProviderError};

use crate::support::*;

/// Checks both calls: the same reply gives the same error before the first event.
async fn check(reply: impl Into<ServerReply>, kind: &str, text: &str) {
    let reply = reply.into();
    let server = start([reply.clone(), reply]).await;
    let provider = provider(server.url());
    let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
    let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
    for error in [whole, streamed] {
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }
}

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

#[tokio::test]
async fn a_wrong_key() {
    let server = OllamaServer::builder().api_key("right").start(["never sent"]).await.unwrap();
    for provider in [provider(server.url()), provider(server.url()).api_key("wrong")] {
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert!(!error.is_retryable());
        assert_eq!(error.to_string(), "authentication failed: 401: unauthorized");
    }
}

#[tokio::test]
async fn a_model_that_is_not_there() {
    let server = OllamaServer::builder().models(["another"]).start(["never sent"]).await.unwrap();
    let provider = provider(server.url());
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::ModelNotFound(_)));
    assert_eq!(
        error.to_string(),
        "model not found: 404: model 'llama3.2' not found; `ollama pull llama3.2` gets it"
    );
}

#[tokio::test]
async fn the_servers_errors_keep_their_class_and_their_text() {
    use ProviderError as E;
    let error = |error: ProviderError| Reply::error(error);
    check(
        error(E::ServiceUnavailable("server busy".into())),
        "ServiceUnavailable",
        "service unavailable: 503: server busy",
    )
    .await;
    check(
        error(E::ModelLoading("loading model".into())),
        "ModelLoading",
        "model loading: 503: loading model",
    )
    .await;
    check(
        error(E::InsufficientResources("pay".into())),
        "InsufficientResources",
        "insufficient resources: 402: pay",
    )
    .await;
    check(
        error(E::InvalidRequest("\"m\" does not support tools".into())),
        "InvalidRequest",
        "invalid request: 400: \"m\" does not support tools",
    )
    .await;
    check(error(E::Timeout(Duration::from_secs(1))), "Timeout", "timeout after 600s").await;
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let body = r#"{"error":"too many requests"}"#;
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
        raw(500, &[], ""),
        "ServiceUnavailable",
        "service unavailable: 500: the response has no body",
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays_here() {
    let elsewhere = start(["never sent"]).await;
    let location = format!("{}/api/chat", elsewhere.url());
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
    let page = || raw(200, &[("content-type", "text/html")], "<html>");
    let json = || raw(200, &[("content-type", "application/json")], r#"{"ok":true}"#);
    let server = start([json(), json(), page()]).await;
    let provider = provider(server.url());
    let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
    assert!(error.contains("missing field `message`"), "{error}");
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    assert_eq!(broken(events(handle).await).kind(), "StreamError");
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "a stream was asked for, and the server sent text/html: <html>");
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
    assert!(text.ends_with("is Ollama running there? `ollama serve` starts it"), "{text}");
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
