//! Tests of bodies that a server compresses although no request asks for it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use futures_util::future::join;
use neuron_http::{Endpoint, Rejection, Secret};
use neuron_model::ProviderError;
use neuron_testing::{RawConnection, RawServer};
use tokio::sync::mpsc;

/// Returns a compressed text.
fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// Sends a response whose body ends with the connection.
async fn respond(connection: &mut RawConnection, status: u16, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}connection: close\r\n\r\n");
    connection.write([head.as_bytes(), body].concat()).await;
}

/// Returns the body of a response, or its error.
async fn call(status: u16, headers: &str, body: &[u8]) -> Result<Vec<u8>, ProviderError> {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::new("sk-hunter2"));
    let serve = async { respond(&mut server.request().await, status, headers, body).await };
    let read = async {
        let reply = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
        reply.await?.read().await
    };
    join(read, serve).await.0
}

#[tokio::test]
async fn compressed_body_is_decoded() {
    let body = gzip("{\"a\":1}");
    for headers in ["content-encoding: gzip\r\n", "Content-Encoding: x-gzip, identity\r\n", ""] {
        let read = call(200, headers, &body).await;
        assert_eq!(read.expect(headers), b"{\"a\":1}");
    }
}

#[tokio::test]
async fn compressed_body_without_its_end_fails_as_a_cut_connection() {
    let body = gzip("{\"a\":1}");
    let error = call(200, "content-encoding: gzip\r\n", &body[..body.len() - 1]).await;
    let error = error.expect_err("a cut body");
    assert_eq!(error.kind(), "Network");
    assert!(error.to_string().ends_with("the gzip body ended before it was complete"), "{error}");
}

#[tokio::test]
async fn compressed_error_body_explains_the_error() {
    let body = gzip(r#"{"error": {"message": "bad key sk-hunter2", "type": "teapot"}}"#);
    let error = call(418, "content-encoding: gzip\r\n", &body).await.expect_err("an error");
    assert_eq!(error.to_string(), "invalid request: 418 teapot: bad key [redacted]");
    // The beginning of a cut body is used too.
    let long: String = (0..5_000).map(|number| format!("why {number} ")).collect();
    let long = gzip(&long);
    let error = call(503, "content-encoding: gzip\r\n", &long[..long.len() / 2]).await;
    assert!(error.expect_err("an error").to_string().contains("why 9 why 10 "));
}

#[tokio::test]
async fn unsupported_encoding_is_not_retried() {
    let error = call(200, "content-encoding: br\r\n", b"\x8b\x03").await.expect_err("brotli");
    assert_eq!((error.kind(), error.is_retryable()), ("Other", false));
    assert!(error.to_string().contains("content encoding `br`"), "{error}");
    // The status still decides the class of an error.
    let error = call(503, "content-encoding: br\r\n", b"\x8b\x03").await.expect_err("brotli");
    assert_eq!(error.kind(), "ServiceUnavailable");
    assert!(error.to_string().contains("content encoding `br`"), "{error}");
}

/// The server sends the next event only after the client has received the last one.
#[tokio::test]
async fn compressed_event_arrives_when_its_block_is_flushed() {
    for headers in [
        "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n",
        // The type is decided by the beginning of the decoded body.
        "content-encoding: gzip\r\n",
    ] {
        let server = RawServer::bind().await;
        let endpoint = Endpoint::new(server.url(), Secret::default());
        let (received, mut next) = mpsc::unbounded_channel();
        let serve = async {
            let mut connection = server.request().await;
            respond(&mut connection, 200, headers, b"").await;
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            for number in 0..20 {
                write!(encoder, "data: {number}\n\n").expect("memory");
                encoder.flush().expect("memory");
                connection.write(std::mem::take(encoder.get_mut())).await;
                next.recv().await.expect("a client that reads");
            }
            connection.write(encoder.finish().expect("memory")).await;
        };
        let read = async {
            let reply = endpoint.post("v1", Default::default(), b"{}".to_vec(), Rejection::error);
            let reply = reply.await.expect("a response");
            let body = reply.stream(&["text/event-stream"], |_| None).await.expect("a stream");
            let mut body = Box::pin(body);
            let mut events = String::new();
            let mut count = 0;
            while let Some(chunk) = body.next().await {
                events.push_str(std::str::from_utf8(&chunk.expect("bytes")).expect("text"));
                while count < events.matches("\n\n").count() {
                    count += 1;
                    received.send(()).expect("a server that waits");
                }
            }
            events
        };
        let (events, ()) = join(read, serve).await;
        let expected: String = (0..20).map(|number| format!("data: {number}\n\n")).collect();
        assert_eq!(events, expected);
    }
}
