//! Answers that break, at every byte.

use neuron_testing::{Reply, Wire};
use neuron_types::{CompletionResponse, Message, Provider, StopReason, TokenUsage};

use crate::support::*;

/// Small, because every byte of it costs a connection.
fn small() -> CompletionResponse {
    CompletionResponse {
        message: Message::assistant("é"),
        usage: TokenUsage::default(),
        stop_reason: StopReason::EndTurn,
        ..answer()
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_is_an_error() {
    let length = Api::Chat.body(&small()).len();
    let server = start([] as [Reply; 0]).await;
    let provider = Api::Chat.provider(server.url());
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
async fn a_stream_whose_connection_is_reset() {
    for api in APIS {
        let server = RawServer::bind().await;
        let provider = api.provider(server.url());
        let bytes = api.bytes(&small());
        let serve = async {
            let mut connection = server.request().await;
            connection.head(200, "text/event-stream", bytes.len()).await;
            connection.write(&bytes[..bytes.len() / 2]).await;
            connection
        };
        let asked = async { tokio::join!(provider.complete_stream(ask("hi")), serve) };
        let (handle, connection) = soon(asked).await;
        connection.reset();
        let error = broken(events(handle.unwrap()).await);
        assert_eq!(error.kind(), "StreamError");
        assert!(!error.is_retryable(), "part of it has been shown");
        assert!(error.to_string().contains(&server.url()), "{error}");
    }
}

#[tokio::test]
async fn an_answer_whose_connection_is_reset() {
    let server = RawServer::bind().await;
    let provider = Api::Responses.provider(server.url());
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/json", 100).await;
        connection.write("{\"output\":").await;
        connection.reset();
    };
    let (error, ()) = soon(async { tokio::join!(provider.complete(ask("hi")), serve) }).await;
    let error = error.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), ("Network", true));
}
