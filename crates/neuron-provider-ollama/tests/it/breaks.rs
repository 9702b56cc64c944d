//! Answers that break, at every byte.

use neuron_testing::ollama::{Dialect, chat_body};
use neuron_testing::{Reply, Wire};
use neuron_types::{CompletionResponse, Message, Provider, ProviderError, StopReason};

use crate::support::*;

/// Small, because every byte of it costs a connection.
fn small() -> CompletionResponse {
    CompletionResponse {
        message: Message::assistant("é"),
        stop_reason: StopReason::EndTurn,
        ..answer()
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_is_an_error() {
    let length = chat_body(&small(), &Dialect::default()).to_string().len();
    let server = start([] as [Reply; 0]).await;
    let provider = provider(server.url());
    for at in 0..length {
        server.push(Reply::from(small()).over(Wire::default().cut_at(at)));
        let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
        assert_eq!(error.kind(), "Network", "cut at {at}: {error}");

        server.push(Reply::from(small()).over(Wire::default().end_at(at)));
        let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
        assert_eq!(error.kind(), "Other", "ended at {at}: {error}");
    }
    server.push(Reply::from(small()).over(Wire::default().end_at(length)));
    assert_eq!(provider.complete(ask("hi")).await.unwrap(), small());
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_an_error() {
    let length = lines(&small(), 16).len();
    let server = start([] as [Reply; 0]).await;
    let provider = provider(server.url());
    // The last line is complete before its end comes.
    for at in 0..length - 1 {
        for wire in [Wire::default().cut_at(at), Wire::default().end_at(at)] {
            server.push(Reply::from(small()).over(wire));
            let handle = soon(provider.complete_stream(ask("hi"))).await.unwrap();
            let error = broken(events(handle).await);
            assert_eq!(error.kind(), "StreamError", "at {at}: {error}");
        }
    }
    server.push(Reply::from(small()).over(Wire::default().end_at(length)));
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    assert_eq!(handle.into_response().await.unwrap(), small());
}

#[tokio::test]
async fn an_answer_whose_connection_is_reset() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/json", 100).await;
        connection.write("{\"message\":").await;
        connection.reset();
    };
    let (error, ()) = soon(async { tokio::join!(provider.complete(ask("hi")), serve) }).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ProviderError::Network(_)), "{error:?}");
    assert!(error.is_retryable());
    assert!(error.to_string().contains(&server.url()), "{error}");
}

#[tokio::test]
async fn a_stream_whose_connection_is_reset() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let bytes = lines(&small(), 16);
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/x-ndjson", bytes.len()).await;
        connection.write(&bytes[..bytes.len() / 2]).await;
        connection
    };
    let asked = async { tokio::join!(provider.complete_stream(ask("hi")), serve) };
    let (handle, connection) = soon(asked).await;
    connection.reset();
    let error = broken(events(handle.unwrap()).await);
    assert_eq!(error.kind(), "StreamError");
    assert!(!error.is_retryable(), "part of it has been shown");
    let text = error.to_string();
    assert!(text.contains(&server.url()), "{text}");
}

#[tokio::test]
async fn an_error_in_the_stream_keeps_its_class() {
    let busy = ProviderError::ServiceUnavailable("server busy".into());
    let server = start([Reply::text("hello").fail_after(1, busy)]).await;
    let provider = provider(server.url());
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let error = broken(events(handle).await);
    assert_eq!(error.to_string(), "service unavailable: in the stream: server busy");
    assert!(error.is_retryable());
}
