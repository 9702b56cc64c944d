//! How many connections a provider opens.

use futures_util::future::join_all;
use neuron_testing::Wire;
use neuron_testing::anthropic::{json_body, sse_bytes};
use neuron_types::Provider;

use crate::support::*;

#[tokio::test]
async fn clones_share_a_connection() {
    let server = start([answer(), answer(), answer()]).await;
    let provider = provider(server.url());
    provider.complete(ask("hi")).await.unwrap();
    provider.clone().complete(ask("hi")).await.unwrap();
    let another = provider.model("another");
    another.complete(ask("hi")).await.unwrap();
    assert_eq!(server.connections(), 1);
}

/// Most streams closed their connection: the last event came before the body's end did.
#[tokio::test]
async fn a_stream_that_was_read_leaves_its_connection_to_the_next() {
    let server = start([answer(), answer(), answer()]).await;
    let provider = provider(server.url());
    for _ in 0..3 {
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        soon(handle.into_response()).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

/// Whoever asked again at once came before the client had taken the connection back, and opened
/// another: of 10,000 that asked twice two thirds did.
#[tokio::test]
async fn many_that_ask_again_at_once_open_one_connection_each() {
    const CLIENTS: usize = 200;
    for streamed in [false, true] {
        let answers = std::iter::repeat_with(answer).take(2 * CLIENTS);
        let builder = neuron_testing::AnthropicServer::builder().gather(CLIENTS);
        let server = builder.start(answers).await.unwrap();
        let provider = provider(server.url());
        let clients = (0..CLIENTS).map(|_| {
            let provider = provider.clone();
            // Tasks, as in a server: each has its own place in the queue.
            tokio::spawn(async move {
                for _ in 0..2 {
                    if streamed {
                        let handle = provider.complete_stream(ask("hi")).await.unwrap();
                        handle.into_response().await.unwrap();
                    } else {
                        provider.complete(ask("hi")).await.unwrap();
                    }
                }
            })
        });
        for client in soon(join_all(clients)).await {
            client.unwrap();
        }
        assert_eq!(server.connections(), CLIENTS, "streamed: {streamed}");
    }
}

#[tokio::test]
async fn an_answer_is_complete_though_the_server_does_not_end_it() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let bytes = sse_bytes(&answer(), 16, &Wire::default());
    let serve = async {
        let mut connection = server.request().await;
        let more = bytes.len() + 1;
        connection.head(200, "text/event-stream", more).await;
        connection.write(&bytes).await;
        connection
    };
    let read = async {
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        handle.into_response().await.unwrap()
    };
    let (response, _open) = soon(async { tokio::join!(read, serve) }).await;
    assert_eq!(response, answer());
}

#[tokio::test]
async fn an_error_leaves_its_connection_to_the_next() {
    let error =
        || neuron_testing::Reply::error(neuron_types::ProviderError::InvalidRequest("no".into()));
    let server = start([error(), error()]).await;
    let provider = provider(server.url());
    for _ in 0..2 {
        provider.complete(ask("hi")).await.unwrap_err();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn requests_at_the_same_time() {
    let server = start(vec![answer(); 20]).await;
    let provider = provider(server.url());
    let whole = (0..10).map(async |_| provider.complete(ask("hi")).await);
    let streamed = (0..10).map(async |_| {
        let handle = provider.complete_stream(ask("hi")).await?;
        handle.into_response().await
    });
    let (whole, streamed) = soon(async { tokio::join!(join_all(whole), join_all(streamed)) }).await;
    for response in whole.into_iter().chain(streamed) {
        assert_eq!(response.unwrap(), answer());
    }
    server.assert_complete();
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let body = json_body(&answer()).to_string();
    for _ in 0..10 {
        let serve = async {
            let mut connection = server.request().await;
            connection.head(200, "application/json", body.len()).await;
            connection.write(&body).await;
        };
        let (response, ()) =
            soon(async { tokio::join!(provider.complete(ask("hi")), serve) }).await;
        assert_eq!(response.unwrap(), answer());
    }
}
