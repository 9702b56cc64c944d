//! Tests of the bodies that are accepted as streams.

use futures_util::StreamExt;
use futures_util::future::join;
use neuron_http::{Body, Endpoint, Rejection, Secret};
use neuron_model::ProviderError;
use neuron_testing::RawServer;
use tokio::io::AsyncWriteExt;

const SSE: [&str; 1] = ["text/event-stream"];
const LINES: [&str; 1] = ["application/x-ndjson"];

/// Serves a stream with the chunks `pieces`, and reads it with a client that accepts the content types `kinds`. Returns
/// the bytes that the client read.
///
/// If `content_type` is empty, the response has no such header.
async fn streamed(
    kinds: &[&str],
    content_type: &str,
    pieces: &[&[u8]],
) -> Result<Vec<u8>, ProviderError> {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::new("sk-hunter2"));
    let serve = async {
        let mut connection = server.request().await;
        let header = match content_type {
            "" => String::new(),
            kind => format!("content-type: {kind}\r\n"),
        };
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        connection
            .write(format!("HTTP/1.1 200 OK\r\n{header}content-length: {length}\r\n\r\n"))
            .await;
        for piece in pieces {
            // The client may have closed the connection early.
            let _ = connection.stream.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        connection
    };
    let read = async {
        let reject = |rejection: &Rejection| rejection.classify("refused".into());
        let reply = endpoint.post("v1", Default::default(), b"{}".to_vec(), reject).await?;
        let explain = |body: &[u8]| {
            body.starts_with(b"{\"error\"")
                .then(|| ProviderError::InvalidRequest("explained".into()))
        };
        let body: Body = reply.stream(kinds, explain).await?;
        let mut bytes = Vec::new();
        let mut body = Box::pin(body);
        while let Some(chunk) = body.next().await {
            bytes.extend_from_slice(&chunk?);
        }
        Ok(bytes)
    };
    join(read, serve).await.0
}

#[tokio::test]
async fn stream_without_content_type_is_accepted_by_its_beginning() {
    for (kinds, text) in [
        (SSE, "data: {\"a\":1}\n\n"),
        (SSE, "event: message_start\ndata: {}\n\n"),
        (SSE, ": keep-alive\n\ndata: {}\n\n"),
        (SSE, "\u{feff}\r\n\r\nid: 7\ndata: {}\n\n"),
        (SSE, "retry: 5\ndata: {}\n\n"),
        (LINES, "{\"a\":1}\n{\"b\":2}\n"),
        (LINES, "\n {\"a\":1}\n"),
    ] {
        for content_type in ["text/plain; charset=utf-8", "Text/Plain", ""] {
            let bytes = text.as_bytes();
            let whole = streamed(&kinds, content_type, &[bytes]).await;
            assert_eq!(whole.expect(text), bytes, "{content_type}");
        }
    }
}

#[tokio::test]
async fn stream_split_at_any_byte_arrives_complete() {
    let bytes = "\u{feff}\nevent: x\ndata: {}\n\n".as_bytes();
    for at in 0..=bytes.len() {
        let (before, after) = bytes.split_at(at);
        let whole = streamed(&SSE, "text/plain", &[before, after]).await;
        assert_eq!(whole.expect("a stream"), bytes, "split at {at}");
    }
}

#[tokio::test]
async fn body_that_is_not_a_stream_is_an_error_with_its_beginning() {
    for (content_type, shown) in [("text/plain", "text/plain"), ("", "no content type")] {
        for body in
            ["no healthy upstream", "data center on fire", "<html>ok</html>", "dat", "eventually"]
        {
            let error = streamed(&SSE, content_type, &[body.as_bytes()]).await.expect_err(body);
            let hint = if body.starts_with('<') { "; the base URL is probably wrong" } else { "" };
            let text = format!("a stream was asked for, and the server sent {shown}: {body}{hint}");
            assert_eq!((error.kind(), error.to_string()), ("Other", text));
        }
        let error = streamed(&LINES, content_type, &[b"data: {}\n\n"]).await.expect_err("no lines");
        assert!(error.to_string().ends_with(": data: {}"), "{error}");
        let error =
            streamed(&SSE, content_type, &[b"{\"err", b"or\":1}"]).await.expect_err("error");
        assert_eq!(error.to_string(), "invalid request: explained");
        let error =
            streamed(&SSE, content_type, &[b"wrong key sk-hunter2"]).await.expect_err("error");
        assert!(error.to_string().ends_with("wrong key [redacted]"), "{error}");
    }
    // A body with any other content type is not examined.
    for other in ["application/json", "text/html"] {
        let error = streamed(&SSE, other, &[b"data: {}\n\n"]).await.expect_err(other);
        assert!(error.to_string().contains(other), "{error}");
    }
}

#[tokio::test]
async fn endless_white_space_is_rejected() {
    let blank = vec![b'\n'; 256 * 1024];
    let error = streamed(&SSE, "text/plain", &[&blank]).await.expect_err("no stream");
    assert!(error.to_string().ends_with("the server sent text/plain: "), "{error}");
}

#[tokio::test]
async fn empty_body_is_accepted_as_stream() {
    for content_type in ["text/plain", ""] {
        assert_eq!(streamed(&SSE, content_type, &[]).await.expect("a stream"), b"");
    }
}

/// A reader may go on after an error, although the stream has failed.
#[tokio::test]
async fn idle_timeout_is_an_error_in_each_poll_and_never_a_panic() {
    let server = RawServer::bind().await;
    let endpoint = Endpoint::new(server.url(), Secret::default())
        .with_idle_timeout(std::time::Duration::from_millis(20));
    let serve = async {
        let mut connection = server.request().await;
        connection.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
        connection
    };
    let read = async {
        let reject = |rejection: &Rejection| rejection.classify("refused".into());
        let reply = endpoint.post("v1", Default::default(), b"{}".to_vec(), reject).await?;
        let mut body = Box::pin(reply.stream(&SSE, |_| None).await?);
        let polls = [body.next().await, body.next().await, body.next().await];
        Ok::<_, ProviderError>(polls)
    };
    let (polls, _connection) = join(read, serve).await;
    for poll in polls.expect("a stream") {
        assert!(matches!(poll, Some(Err(ProviderError::Timeout(_)))), "{poll:?}");
    }
}
