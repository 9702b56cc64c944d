//! What the API, a proxy or the way to it may answer instead of an answer.

use std::time::Duration;

use neuron_provider_openai::OpenAi;
use neuron_testing::{OpenAiServer, Reply, ServerReply};
use neuron_types::{Provider, ProviderError};

use crate::support::*;

/// Checks both calls of both APIs: the same reply gives the same error before the first event.
async fn check(reply: impl Into<ServerReply>, kind: &str, text: &str) {
    let reply = reply.into();
    for api in APIS {
        let server = start([reply.clone(), reply.clone()]).await;
        let provider = api.provider(server.url());
        let whole = soon(provider.complete(ask("hi"))).await.unwrap_err();
        let streamed = soon(provider.complete_stream(ask("hi"))).await.unwrap_err();
        let (first, second) = (text.replace("req_N", "req_1"), text.replace("req_N", "req_2"));
        assert_eq!((whole.kind(), whole.to_string()), (kind, first));
        assert_eq!((streamed.kind(), streamed.to_string()), (kind, second));
    }
}

fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> ServerReply {
    ServerReply::raw(status, headers.iter().copied(), body)
}

#[tokio::test]
async fn a_wrong_key() {
    for api in APIS {
        let server = start(["never sent"]).await;
        let provider = api.with(OpenAi::new("wrong").base_url(server.url()));
        let error = provider.complete(ask("hi")).await.unwrap_err();
        assert!(!error.is_retryable());
        assert_eq!(
            error.to_string(),
            "authentication failed: 401 invalid_api_key: Incorrect API key provided: *****. You \
             can find your API key at https://platform.openai.com/account/api-keys. (request id \
             req_1)"
        );
    }
}

#[tokio::test]
async fn a_model_that_is_not_there() {
    for api in APIS {
        let server = OpenAiServer::builder().models(["another"]).start(["never"]).await.unwrap();
        let provider = api.provider(server.url()).model("gpt-gone");
        let error = provider.complete_stream(ask("hi")).await.unwrap_err();
        assert_eq!(error.kind(), "ModelNotFound");
        assert_eq!(
            error.to_string(),
            "model not found: 404 model_not_found: The model `gpt-gone` does not exist or you do \
             not have access to it. (request id req_1)"
        );
    }
}

#[tokio::test]
async fn the_apis_errors_keep_their_class_and_their_text() {
    use ProviderError as E;
    for (error, kind, text) in [
        (
            E::ServiceUnavailable("Overloaded".into()),
            "ServiceUnavailable",
            "service unavailable: 503 server_is_overloaded: Overloaded (request id req_N)",
        ),
        (
            E::InsufficientResources("pay".into()),
            "InsufficientResources",
            "insufficient resources: 429 insufficient_quota: pay (request id req_N)",
        ),
        (
            E::InvalidRequest("bad".into()),
            "InvalidRequest",
            "invalid request: 400 invalid_request_error: bad (request id req_N)",
        ),
        (
            E::ModelLoading("soon".into()),
            "ModelLoading",
            "model loading: 503 unavailable_error: Loading model: soon (request id req_N)",
        ),
        (E::Timeout(Duration::from_secs(1)), "Timeout", "timeout after 600s"),
    ] {
        check(Reply::error(error), kind, text).await;
    }
}

#[tokio::test]
async fn a_quota_is_no_rate_limit_whatever_the_headers_say() {
    let body = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    check(
        raw(429, &[("retry-after", "5"), ("x-request-id", "req_q")], body),
        "InsufficientResources",
        "insufficient resources: 429 insufficient_quota: You exceeded your current quota (request id req_q)",
    )
    .await;
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let body = r#"{"error":{"message":"slow down","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;
    let delay = async |headers: &[(&str, &str)]| {
        let server = start([raw(429, headers, body)]).await;
        let error = Api::Chat.provider(server.url()).complete(ask("hi")).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), ("RateLimit", true));
        error.retry_after()
    };
    assert_eq!(delay(&[]).await, None);
    assert_eq!(delay(&[("retry-after", "7")]).await, Some(Duration::from_secs(7)));
    let millis = [("retry-after", "7"), ("retry-after-ms", "250")];
    assert_eq!(delay(&millis).await, Some(Duration::from_millis(250)));
    let past = [("retry-after", "Sat, 21 Nov 2020 10:00:30 GMT")];
    assert_eq!(delay(&past).await, Some(Duration::ZERO));
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
        raw(500, &[("x-request-id", "req_h")], ""),
        "ServiceUnavailable",
        "service unavailable: 500: the response has no body (request id req_h)",
    )
    .await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays_here() {
    let elsewhere = start(["never sent"]).await;
    let location = format!("{}/v1/chat/completions", elsewhere.url());
    for status in [301, 302, 307, 308] {
        let text = format!(
            "invalid request: {status}: redirected to {location}, which is not followed: the base URL must lead there"
        );
        check(raw(status, &[("location", &location)], ""), "InvalidRequest", &text).await;
    }
    assert_eq!(elsewhere.connections(), 0);
}

/// In place of a stream, its class was lost.
#[tokio::test]
async fn an_error_whose_status_is_a_success() {
    let json = [("content-type", "application/json; charset=utf-8")];
    check(
        raw(200, &json, r#"{"error":{"message":"busy","type":"overloaded_error","code":503}}"#),
        "ServiceUnavailable",
        "service unavailable: in the answer overloaded_error: busy",
    )
    .await;
    check(
        raw(200, &json, r#"{"object":"error","message":"why","code":401}"#),
        "Authentication",
        "authentication failed: in the answer: why",
    )
    .await;
}

#[tokio::test]
async fn a_success_that_is_no_answer() {
    for (api, why) in [(Api::Chat, "there are no choices"), (Api::Responses, "has no output")] {
        let json = raw(200, &[("content-type", "application/json")], r#"{"ok":true}"#);
        let page = raw(200, &[("content-type", "text/html")], "<html>");
        let server = start([json.clone(), json, page]).await;
        let provider = api.provider(server.url());
        let error = provider.complete(ask("hi")).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        let error = provider.complete_stream(ask("hi")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"a stream was asked for, and the server sent application/json: {"ok":true}"#
        );
        let error = provider.complete_stream(ask("hi")).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a stream was asked for, and the server sent text/html: <html>"
        );
    }
}

#[tokio::test]
async fn an_error_in_the_stream_keeps_its_class() {
    for api in APIS {
        let busy = ProviderError::ServiceUnavailable("Overloaded".into());
        let server = start([Reply::text("0123456789").chunk_chars(1).fail_after(9, busy)]).await;
        let handle = api.provider(server.url()).complete_stream(ask("hi")).await.unwrap();
        let error = broken(events(handle).await);
        assert_eq!(
            error.to_string(),
            "service unavailable: in the stream server_is_overloaded: Overloaded"
        );
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn nobody_listens() {
    let server = RawServer::bind().await;
    let url = server.url();
    drop(server);
    let error = soon(Api::Chat.provider(url.clone()).complete(ask("hi"))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), ("Network", true));
    let text = error.to_string();
    assert!(text.starts_with(&format!("network error: {url}: ")), "{text}");
}

#[tokio::test]
async fn what_cannot_be_expressed_is_said_before_anything_is_sent() {
    let server = start(["never sent"]).await;
    let mut request = ask("hi");
    request.stop_sequences = vec!["END".into()];
    let error = Api::Responses.provider(server.url()).complete(request).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    let error = Api::Chat.provider("ftp://h").complete(ask("hi")).await.unwrap_err();
    assert_eq!(error.kind(), "InvalidRequest");
    assert_eq!(server.connections(), 0);
}
