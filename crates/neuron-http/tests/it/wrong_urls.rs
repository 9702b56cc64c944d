//! Tests of errors whose cause is probably the base URL, and of response heads that are too large.

use futures_util::future::join;
use neuron_http::{Endpoint, Rejection, Reply, Secret};
use neuron_model::ProviderError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Sends a request to a server that sends `response` to anything. `scheme` is the scheme of the base URL.
async fn post(scheme: &str, response: &[u8]) -> Result<Reply, ProviderError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let endpoint = Endpoint::new(
        format!("{scheme}://user:hunter2@127.0.0.1:{port}?key=hunter2"),
        Secret::default(),
    );
    let serve = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_u8().await.expect("a byte");
        // The client may close the connection early.
        let _ = stream.write_all(response).await;
        let _ = stream.shutdown().await;
        // Unread bytes would reset the connection.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let post = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
    join(post, serve).await.0
}

async fn error(scheme: &str, response: &[u8]) -> ProviderError {
    let error = match post(scheme, response).await {
        Ok(reply) => reply.read().await.expect_err("an error"),
        Err(error) => error,
    };
    assert!(!error.to_string().contains("hunter2"), "{error}");
    error
}

fn response(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn https_to_a_port_without_tls_is_explained() {
    let error = error("https", &response(400, "", "")).await;
    assert_eq!((error.kind(), error.was_sent()), ("Network", false));
    let hint = "; the server does not use TLS on this port: the base URL must begin with `http://`, or \
                name another port";
    assert!(error.to_string().ends_with(hint), "{error}");
}

#[tokio::test]
async fn http_to_a_port_with_tls_is_explained() {
    // A TLS alert.
    let alert = error("http", b"\x15\x03\x03\x00\x02\x02\x0a").await;
    assert_eq!(alert.kind(), "Network");
    assert!(alert.to_string().contains("does not use HTTP on this port"), "{alert}");
    assert!(alert.to_string().contains("`https://`"), "{alert}");
    for page in [
        "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        "Client sent an HTTP request to an HTTPS server.\n",
        "<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.</p>",
    ] {
        let error = error("http", &response(400, "", page)).await;
        assert_eq!(error.kind(), "InvalidRequest");
        assert!(error.to_string().ends_with("the base URL must begin with `https://`"), "{error}");
    }
    let other = error("http", &response(400, "", "<html>Bad request</html>")).await;
    assert!(!other.to_string().contains("base URL"), "{other}");
}

#[tokio::test]
async fn page_with_status_200_is_explained() {
    let page = response(200, "content-type: text/html\r\n", "\n<!DOCTYPE html><h1>Welcome</h1>");
    let error = error("http", &page).await;
    assert_eq!((error.kind(), error.is_retryable()), ("Other", false));
    assert_eq!(
        error.to_string(),
        "the response is a page and not the API's: <!DOCTYPE html><h1>Welcome</h1>; the base URL is probably wrong"
    );
    let reply = post("http", &page).await.expect("a response");
    let error = reply.stream(&["text/event-stream"], |_| None).await.expect_err("a page");
    assert!(error.to_string().ends_with("</h1>; the base URL is probably wrong"), "{error}");
}

#[tokio::test]
async fn redirect_names_its_target_without_secrets() {
    for status in [301, 302, 303, 307, 308] {
        let location = "location: https://me:hunter2@other.example:8443/v1?token=hunter2#x\r\n";
        let error =
            error("http", &response(status, location, "<html>Moved to ?token=1</html>")).await;
        assert_eq!(
            error.to_string(),
            format!(
                "invalid request: {status}: redirected to https://other.example:8443/v1, which is not followed: the \
                 base URL must lead there"
            )
        );
    }
}

#[tokio::test]
async fn response_with_too_many_headers_is_not_retried() {
    let with = |count: usize| {
        let headers: String = (0..count).map(|number| format!("x-{number}: y\r\n")).collect();
        response(200, &headers, "{}")
    };
    let reply = post("http", &with(90)).await.expect("90 headers are accepted");
    assert_eq!(reply.read().await.expect("a body"), b"{}");
    let long = format!("x: {}\r\n", "y".repeat(1_000_000));
    for response in [with(110), response(200, &long, "{}")] {
        let error = error("http", &response).await;
        assert_eq!((error.kind(), error.is_retryable(), error.was_sent()), ("Other", false, true));
        assert!(error.to_string().contains("more than 100 headers"), "{error}");
        assert!(error.to_string().contains("more than 408 KiB of headers"), "{error}");
    }
}
