//! How many connections a provider opens, and what a reader that goes away means to the server.

use futures_util::future::join_all;
use neuron_testing::Reply;
use neuron_types::{Provider, ProviderError, StreamEvent};

use crate::support::*;

#[tokio::test]
async fn clones_share_a_connection() {
    let server = start([answer(), answer(), answer()]).await;
    let provider = Api::Chat.provider(server.url());
    provider.complete(ask("hi")).await.unwrap();
    provider.clone().complete(ask("hi")).await.unwrap();
    provider.model("another").complete(ask("hi")).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_stream_that_was_read_leaves_its_connection_to_the_next() {
    for api in APIS {
        let server = start([answer(), answer(), answer()]).await;
        let provider = api.provider(server.url());
        for _ in 0..3 {
            let handle = provider.complete_stream(ask("hi")).await.unwrap();
            soon(handle.into_response()).await.unwrap();
        }
        assert_eq!(server.connections(), 1, "{api:?}");
    }
}

#[tokio::test]
async fn an_error_leaves_its_connection_to_the_next() {
    let error = || Reply::error(ProviderError::InvalidRequest("no".into()));
    let server = start([error(), error()]).await;
    let provider = Api::Chat.provider(server.url());
    for _ in 0..2 {
        provider.complete(ask("hi")).await.unwrap_err();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_is_complete_though_the_server_does_not_end_it() {
    for api in APIS {
        let server = RawServer::bind().await;
        let provider = api.provider(server.url());
        let bytes = api.bytes(&answer());
        let serve = async {
            let mut connection = server.request().await;
            connection.head(200, "text/event-stream", bytes.len() + 1).await;
            connection.write(&bytes).await;
            connection
        };
        let read = async {
            let handle = provider.complete_stream(ask("hi")).await.unwrap();
            handle.into_response().await.unwrap()
        };
        let (response, _open) = soon(async { tokio::join!(read, serve) }).await;
        assert_eq!(response.message.text(), "añ🦀");
    }
}

#[tokio::test]
async fn requests_at_the_same_time() {
    for api in APIS {
        let server = start(vec![answer(); 20]).await;
        let provider = api.provider(server.url());
        let whole = (0..10).map(async |_| provider.complete(ask("hi")).await);
        let streamed = (0..10).map(async |_| {
            let handle = provider.complete_stream(ask("hi")).await?;
            handle.into_response().await
        });
        let both = async { tokio::join!(join_all(whole), join_all(streamed)) };
        let (whole, streamed) = soon(both).await;
        for response in whole.into_iter().chain(streamed) {
            assert_eq!(response.unwrap().message.text(), "añ🦀");
        }
        server.assert_complete();
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_cancels_the_request() {
    for api in APIS {
        let server = start([Reply::text("0123456789").chunk_chars(1).hang_after(8)]).await;
        let provider = api.provider(server.url());
        let mut handle = provider.complete_stream(ask("hi")).await.unwrap();
        let first = soon(handle.receiver.recv()).await;
        assert!(matches!(first, Some(StreamEvent::TextDelta(_))));
        assert_eq!(server.disconnects(), 0);
        drop(handle);
        soon(server.wait_for_disconnect()).await;
    }
}
