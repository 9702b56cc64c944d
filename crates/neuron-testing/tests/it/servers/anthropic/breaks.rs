//! Tests of broken streams and bodies, of split and cut bytes, and of raw replies.

use neuron_testing::anthropic::{json_body, sse_bytes};
use neuron_testing::{AnthropicServer, Reply, ServerReply, Wire};
use neuron_types::{ContentBlock, ProviderError};
use serde_json::{Value, json};

use crate::servers::anthropic::client::{HEADERS, MESSAGES, ask, post};
use crate::servers::anthropic::{response, start, streamed};
use crate::servers::http::Client;

#[tokio::test]
async fn network_error_closes_the_connection() {
    let network = || ProviderError::Network("reset".into());
    let reply = Reply::text("hello").fail_after(2, network());
    let server = start([Reply::error(network()), reply.clone(), reply]).await;
    let mut client = Client::connect(&server.url()).await.unwrap();
    client.send(MESSAGES, HEADERS, ask(false).to_string().as_bytes()).await.unwrap();
    assert!(client.receive().await.is_err());
    let answer = post(&server, &ask(true)).await;
    assert!(!answer.complete);
    assert_eq!(answer.typed_events().len(), 2);
    assert_eq!(server.disconnects(), 0, "the server closed, not the client");
}

#[tokio::test]
async fn stream_breaks_after_the_scripted_event() {
    let reply = Reply::text("hello");
    let busy = ProviderError::ServiceUnavailable("Overloaded".into());
    let events = streamed(reply.clone().fail_after(3, busy)).await;
    assert_eq!(events.len(), 4);
    assert_eq!(
        events[3],
        json!({
            "type": "error",
            "error": {"type": "overloaded_error", "message": "Overloaded"},
            "request_id": "req_1",
        })
    );
    let events = streamed(reply.clone().end_early_after(4)).await;
    assert_eq!(events.len(), 4);
    assert_eq!(events[3]["type"], "content_block_delta");
    assert!(streamed(reply.end_early_after(0)).await.is_empty());
}

#[tokio::test]
async fn body_breaks_if_its_stream_would() {
    let reply = Reply::text("hello");
    let error = || ProviderError::Authentication("no".into());
    // A stream has seven events: message_start, content_block_start, ping, content_block_delta, content_block_stop,
    // message_delta and message_stop.
    let server = start([
        reply.clone().end_early_after(6),
        reply.clone().fail_after(6, error()),
        reply.clone().fail_after(7, error()),
    ])
    .await;
    let answer = post(&server, &ask(false)).await;
    assert_eq!((answer.status, answer.complete), (200, true));
    assert!(serde_json::from_slice::<Value>(&answer.bytes()).is_err());
    assert_eq!(post(&server, &ask(false)).await.status, 401);
    assert_eq!(post(&server, &ask(false)).await.status, 200);
}

#[tokio::test]
async fn stream_bytes_can_be_split_and_cut_anywhere() {
    let whole = response(vec![ContentBlock::Text("añ🦀".into())]);
    let wire = Wire::default().crlf().no_space().comments().padded();
    let bytes = sse_bytes(&whole, 16, &wire);
    let reply = || Reply::from(whole.clone());
    let server = AnthropicServer::builder()
        .wire(wire.clone().split_every(7))
        .start([
            reply().into(),
            reply().over(wire.clone().split_at(11)),
            reply().over(wire.clone().cut_at(100).split_every(30)),
            reply().over(wire.clone().end_at(100)),
        ])
        .await
        .unwrap();

    let sevens = post(&server, &ask(true)).await;
    assert_eq!(sevens.bytes(), bytes);
    let (last, rest) = sevens.chunks.split_last().unwrap();
    assert!(rest.iter().all(|chunk| chunk.len() == 7));
    assert!(last.len() <= 7);

    let halves = post(&server, &ask(true)).await;
    assert_eq!(halves.chunks, [&bytes[..11], &bytes[11..]]);

    let cut = post(&server, &ask(true)).await;
    assert_eq!(cut.bytes(), &bytes[..100]);
    assert!(!cut.complete);

    let ended = post(&server, &ask(true)).await;
    assert_eq!(ended.bytes(), &bytes[..100]);
    assert!(ended.complete);
    assert_eq!(server.disconnects(), 0);
}

#[tokio::test]
async fn json_body_can_be_cut() {
    let whole = response(vec![ContentBlock::Text("hello".into())]);
    let server = start([
        Reply::from(whole.clone()).over(Wire::default().cut_at(20)),
        Reply::from(whole.clone()).over(Wire::default().cut_at(0)),
    ])
    .await;
    let answer = post(&server, &ask(false)).await;
    assert_eq!(answer.bytes(), &json_body(&whole).to_string().as_bytes()[..20]);
    assert!(!answer.complete);
    let answer = post(&server, &ask(false)).await;
    assert_eq!((answer.bytes().len(), answer.complete), (0, false));
}

#[tokio::test]
async fn raw_replies_are_sent_unchanged() {
    let page = ServerReply::raw(502, [("content-type", "text/html")], "<h1>Bad Gateway</h1>");
    let server = start([page.clone(), page.over(Wire::default().split_every(4))]).await;
    let answer = post(&server, &ask(false)).await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.header("content-type"), Some("text/html"));
    assert_eq!(answer.header("request-id"), None);
    assert_eq!(answer.text(), "<h1>Bad Gateway</h1>");
    assert_eq!(post(&server, &ask(false)).await.chunks.len(), 5);
}
