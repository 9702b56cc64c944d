//! When events come, how many, and what a reader that is slow or gone means to the server.

use std::time::Duration;

use neuron_testing::Reply;
use neuron_types::{CompletionResponse, Message, Provider, StreamEvent};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use crate::support::*;

#[tokio::test]
async fn the_first_text_comes_before_the_answer_has_ended() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let bytes = lines(&answer(), 16);
    // After the line of the first text.
    let text = "\"content\":\"a";
    let at = bytes.windows(text.len()).position(|piece| piece == text.as_bytes()).unwrap();
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').unwrap();
    let (first, rest) = bytes.split_at(at + end + 1);
    let (seen, was_seen) = oneshot::channel();
    let serve = async {
        let mut connection = server.request().await;
        connection.head(200, "application/x-ndjson", bytes.len()).await;
        connection.write(first).await;
        was_seen.await.unwrap();
        connection.write(rest).await;
    };
    let read = async {
        let mut handle = provider.complete_stream(ask("hi")).await.unwrap();
        loop {
            match handle.receiver.recv().await.unwrap() {
                StreamEvent::TextDelta(_) => break,
                StreamEvent::ThinkingDelta(_) => {}
                other => panic!("{other:?} before the first text"),
            }
        }
        seen.send(()).unwrap();
        handle.into_response().await.unwrap()
    };
    let (response, ()) = soon(async { tokio::join!(read, serve) }).await;
    assert_eq!(response, answer());
}

#[tokio::test]
async fn ten_thousand_events() {
    let text: String = "0123456789".repeat(1000);
    let server = start([Reply::text(text.clone()).chunk_chars(1)]).await;
    let handle = provider(server.url()).complete_stream(ask("hi")).await;
    let events = events(handle.unwrap()).await;
    assert_eq!(events.len(), 10_003);
    let Some(StreamEvent::ResponseComplete(response)) = events.last() else {
        panic!("no answer");
    };
    assert_eq!(response.message.text(), text);
}

/// More than the buffers on the way can hold.
#[tokio::test]
async fn a_server_waits_for_a_slow_reader() {
    let server = RawServer::bind().await;
    let provider = provider(server.url());
    let huge = CompletionResponse {
        message: Message::assistant("x".repeat(48 * 1024 * 1024)),
        ..answer()
    };
    let bytes = lines(&huge, 256 * 1024);
    let length = bytes.len();
    let mut writing = tokio::spawn(async move {
        let mut connection = server.request().await;
        connection.head(200, "application/x-ndjson", length).await;
        connection.stream.write_all(&bytes).await.unwrap();
    });
    let mut handle = soon(provider.complete_stream(ask("hi"))).await.unwrap();
    let first = soon(handle.receiver.recv()).await;
    assert!(matches!(first, Some(StreamEvent::TextDelta(_))));

    // A clock that stands still goes on when nobody has anything left to do.
    tokio::time::pause();
    let written = tokio::time::timeout(Duration::from_secs(1), &mut writing).await;
    assert!(written.is_err(), "nobody reads, and all was taken");
    tokio::time::resume();

    let response = soon(handle.into_response()).await.unwrap();
    assert_eq!(response.message, huge.message);
    soon(writing).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_goes_away_cancels_the_request() {
    let server = start([Reply::text("hello").hang_after(1)]).await;
    let provider = provider(server.url());
    let mut handle = provider.complete_stream(ask("hi")).await.unwrap();
    let first = soon(handle.receiver.recv()).await;
    assert!(matches!(first, Some(StreamEvent::TextDelta(_))));
    assert_eq!(server.disconnects(), 0);
    drop(handle);
    soon(server.wait_for_disconnect()).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_cancels_the_request() {
    let server = start([Reply::hang()]).await;
    let provider = provider(server.url());
    tokio::select! {
        _ = provider.complete(ask("hi")) => panic!("the server hangs"),
        () = soon(server.wait_for_requests(1)) => {}
    }
    soon(server.wait_for_disconnect()).await;
}

#[tokio::test]
async fn an_event_that_is_waited_for_in_vain_is_not_lost() {
    let reply = Reply::text("hello").chunk_chars(1).event_delay(Duration::from_millis(5));
    let server = start([reply]).await;
    let provider = provider(server.url());
    let mut handle = provider.complete_stream(ask("hi")).await.unwrap();
    let mut text = String::new();
    let response = soon(async {
        loop {
            tokio::select! {
                biased;
                event = handle.receiver.recv() => match event.unwrap() {
                    StreamEvent::TextDelta(piece) => text.push_str(&piece),
                    StreamEvent::ResponseComplete(response) => break response,
                    _ => {}
                },
                () = tokio::task::yield_now() => {}
            }
        }
    })
    .await;
    assert_eq!((text.as_str(), response.message.text().as_str()), ("hello", "hello"));
}
