//! Servers that take their time. Under a paused clock time passes when everyone waits.

use std::time::Duration;

use neuron_testing::Reply;
use neuron_types::{Provider, ProviderError, StreamEvent};

use crate::support::*;

const SHORT: Duration = Duration::from_millis(100);

#[track_caller]
fn check_timeout(error: &ProviderError, limit: Duration) {
    assert!(matches!(error, ProviderError::Timeout(after) if *after == limit), "{error:?}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_server_that_does_not_answer() {
    let server = start([Reply::hang(), Reply::hang()]).await;
    let provider = provider(server.url()).timeout(SHORT);
    let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
    check_timeout(&error, SHORT);
    let error = soon(provider.complete_stream(ask("hi"))).await;
    check_timeout(&error.unwrap_err(), SHORT);
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing() {
    let server = RawServer::bind().await;
    let provider = provider(server.url()).timeout(SHORT);
    let error = soon(provider.complete(ask("hi"))).await.unwrap_err();
    check_timeout(&error, SHORT);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_half_way() {
    let server = RawServer::bind().await;
    let provider = provider(server.url()).timeout(SHORT);
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/json", 100).await;
        connection.write("{").await;
        connection
    };
    let (error, _open) = soon(async { tokio::join!(provider.complete(ask("hi")), serve) }).await;
    check_timeout(&error.unwrap_err(), SHORT);
}

/// The head and the body each had the whole time.
#[tokio::test(start_paused = true)]
async fn the_limit_is_for_the_whole_answer() {
    let server = RawServer::bind().await;
    let provider = provider(server.url()).timeout(SHORT);
    let serve = async {
        let mut connection = server.request().await;
        tokio::time::sleep(SHORT * 2 / 3).await;
        connection.head(200, "application/json", 2).await;
        tokio::time::sleep(SHORT * 2 / 3).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut connection.stream, b"{}").await;
    };
    let (error, ()) = tokio::join!(provider.complete(ask("hi")), serve);
    check_timeout(&error.unwrap_err(), SHORT);
}

/// The status was lost when the body did not end, and so was what had come of the body.
#[tokio::test(start_paused = true)]
async fn an_error_whose_body_stops_half_way_is_still_that_error() {
    let server = RawServer::bind().await;
    let provider = provider(server.url()).timeout(SHORT);
    let serve = async {
        let mut connection = server.request().await;
        connection.head(401, "text/plain", 100).await;
        connection.write("who are").await;
        connection
    };
    let (error, _open) = soon(async { tokio::join!(provider.complete(ask("hi")), serve) }).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "authentication failed: 401: the response is not the API's: who are"
    );
}

/// It had all the time of an answer: ten minutes to learn that the rate is limited.
#[tokio::test(start_paused = true)]
async fn an_error_does_not_wait_long_for_its_body() {
    let server = RawServer::bind().await;
    let provider = provider(server.url()).timeout(Duration::from_secs(600));
    let serve = async {
        let mut connection = server.request().await;
        connection.head(429, "text/plain", 100).await;
        connection
    };
    let start = tokio::time::Instant::now();
    let (error, _open) = tokio::join!(provider.complete(ask("hi")), serve);
    assert_eq!(error.unwrap_err().kind(), "RateLimit");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stands_still() {
    let server = start([Reply::text("hello").hang_after(4)]).await;
    let provider = provider(server.url()).idle_timeout(SHORT);
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let events = events(handle).await;
    assert!(matches!(&events[0], StreamEvent::TextDelta(text) if text == "hello"));
    assert_eq!(events.len(), 2);
    check_timeout(&broken(events), SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_long_stream_may_take_longer_than_a_whole_answer() {
    let reply = Reply::text("hello").chunk_chars(1).event_delay(SHORT / 3);
    let server = start([reply]).await;
    let provider = provider(server.url()).timeout(SHORT);
    let handle = provider.complete_stream(ask("hi")).await.unwrap();
    let response = soon(handle.into_response()).await.unwrap();
    assert_eq!(response.message.text(), "hello");
}

#[tokio::test]
async fn the_longest_limits_are_none() {
    let server = start(["a", "b"]).await;
    let provider = provider(server.url())
        .connect_timeout(Duration::from_secs(3600))
        .timeout(Duration::MAX)
        .idle_timeout(Duration::MAX);
    soon(provider.complete(ask("hi"))).await.unwrap();
    let handle = soon(provider.complete_stream(ask("hi"))).await.unwrap();
    soon(handle.into_response()).await.unwrap();
}
