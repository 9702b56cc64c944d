//! Servers that take their time. Under a paused clock time passes when everyone waits.

use std::time::Duration;

use neuron_testing::Reply;
use neuron_types::{EmbeddingProvider, EmbeddingRequest, Provider, ProviderError, StreamEvent};

use crate::support::*;

const SHORT: Duration = Duration::from_millis(100);

#[track_caller]
fn check_timeout(error: &ProviderError, limit: Duration) {
    assert!(matches!(error, ProviderError::Timeout(after) if *after == limit), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_server_that_does_not_answer() {
    for api in APIS {
        let server = start([Reply::hang(), Reply::hang(), Reply::hang()]).await;
        let provider = api.provider(server.url()).timeout(SHORT);
        let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
        check_timeout(&error, SHORT);
        let error = soon(provider.complete_stream(ask("hi"))).await;
        check_timeout(&error.unwrap_err(), SHORT);
        let request = EmbeddingRequest { input: vec!["hi".into()], ..Default::default() };
        let error = soon(provider.embed(request)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
}

/// JSON in place of a stream is read before the error is known, as far as it comes in time.
#[tokio::test(start_paused = true)]
async fn a_body_in_place_of_a_stream_that_stops_half_way() {
    let server = RawServer::bind().await;
    let provider = Api::Chat.provider(server.url()).timeout(SHORT);
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/json", 100).await;
        connection.write("{").await;
        connection
    };
    let asked = async { tokio::join!(provider.complete_stream(ask("hi")), serve) };
    let (error, _open) = soon(asked).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "a stream was asked for, and the server sent application/json: {"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stands_still() {
    for api in APIS {
        let server = start([Reply::text("0123456789").chunk_chars(1).hang_after(8)]).await;
        let provider = api.provider(server.url()).idle_timeout(SHORT);
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        let events = events(handle).await;
        assert!(matches!(&events[0], StreamEvent::TextDelta(text) if text == "0"));
        check_timeout(&broken(events), SHORT);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_stream_may_take_longer_than_a_whole_answer() {
    for api in APIS {
        let reply = Reply::text("hello").chunk_chars(1).event_delay(SHORT / 3);
        let server = start([reply]).await;
        let provider = api.provider(server.url()).timeout(SHORT);
        let handle = provider.complete_stream(ask("hi")).await.unwrap();
        let response = soon(handle.into_response()).await.unwrap();
        assert_eq!(response.message.text(), "hello");
    }
}
