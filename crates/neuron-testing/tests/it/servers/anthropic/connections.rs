//! Tests of clients that disconnect, of concurrent clients, of delays, and of dropping the server.

use std::time::Duration;

use neuron_testing::{AnthropicServer, Reply};

use crate::servers::anthropic::client::{HEADERS, MESSAGES, ask, post};
use crate::servers::anthropic::start;
use crate::servers::http::Client;

/// Sends a request, reads `lines_before` lines, disconnects, and checks that the server counts the disconnect.
async fn check_disconnect(reply: Reply, stream: bool, lines_before: usize) {
    let server = start([reply, Reply::text("next")]).await;
    let mut client = Client::connect(&server.url()).await.unwrap();
    let body = ask(stream).to_string();
    client.send(MESSAGES, HEADERS, body.as_bytes()).await.unwrap();
    server.wait_for_requests(1).await;
    for _ in 0..lines_before {
        client.line().await.unwrap();
    }
    assert_eq!(server.disconnects(), 0);
    drop(client);
    server.wait_for_disconnect().await;
    assert_eq!(server.disconnects(), 1);
    assert_eq!(post(&server, &ask(false)).await.status, 200);
}

#[tokio::test]
async fn disconnects_are_counted() {
    let hour = Duration::from_secs(3600);
    check_disconnect(Reply::hang(), false, 0).await;
    check_disconnect(Reply::text("hello").delay(hour), true, 0).await;
    check_disconnect(Reply::text("hello").hang_after(2), true, 9).await;
    check_disconnect(Reply::text("hello").event_delay(hour), true, 6).await;
    check_disconnect(Reply::text("hello").hang_after(2), false, 0).await;
}

#[tokio::test]
async fn events_follow_the_scripted_delays() {
    let delay = Duration::from_millis(20);
    let server = start([Reply::text("hello").delay(delay).event_delay(delay)]).await;
    let begin = std::time::Instant::now();
    let answer = post(&server, &ask(true)).await;
    // The stream has seven events. The first delay precedes the first event, and six delays are between events.
    assert_eq!(answer.typed_events().len(), 7);
    assert!(begin.elapsed() >= 7 * delay);
}

#[tokio::test]
async fn gather_delays_responses_until_enough_requests_arrived() {
    let server = AnthropicServer::builder().gather(3).start(["1", "2", "3", "4"]).await.unwrap();
    let request = ask(false);
    let mut first_two =
        Box::pin(futures_util::future::join(post(&server, &request), post(&server, &request)));
    // The number of polls is sufficient for a response to arrive if the server sent one.
    let mut polls_left = 1_000;
    while polls_left > 0 {
        tokio::select! {
            biased;
            _ = &mut first_two => panic!("the third has not asked"),
            () = tokio::task::yield_now() => {}
        }
        polls_left -= usize::from(server.requests().len() == 2);
    }
    // `gather` counts the third request although the server rejects it.
    let nothing = serde_json::json!({});
    let refused = post(&server, &nothing);
    let ((first, second), third) = futures_util::future::join(first_two, refused).await;
    assert_eq!((first.status, second.status, third.status), (200, 200, 400));
    assert_eq!(post(&server, &request).await.status, 200, "none is held back any more");
    assert_eq!(server.remaining(), 1);
}

#[tokio::test]
async fn client_may_disconnect_while_gather_delays_its_response() {
    let server = AnthropicServer::builder().gather(2).start(["1", "2"]).await.unwrap();
    let mut client = Client::connect(&server.url()).await.unwrap();
    client.send(MESSAGES, HEADERS, ask(false).to_string().as_bytes()).await.unwrap();
    server.wait_for_requests(1).await;
    drop(client);
    server.wait_for_disconnect().await;
    assert_eq!(post(&server, &ask(false)).await.status, 200);
}

async fn many_requests_at_once() {
    let count = 16;
    let server = start((0..count).map(|n| n.to_string())).await;
    let (request, client_count) = (ask(true), count);
    let answers =
        futures_util::future::join_all((0..client_count).map(|_| post(&server, &request)));
    let mut texts: Vec<usize> = answers
        .await
        .iter()
        .map(|answer| {
            let events = answer.typed_events();
            let text = events.iter().find_map(|event| event["delta"]["text"].as_str());
            text.unwrap().parse().unwrap()
        })
        .collect();
    texts.sort_unstable();
    assert_eq!(texts, (0..count).collect::<Vec<_>>());
    server.assert_complete();
    assert_eq!(server.connections(), count);
}

#[tokio::test]
async fn concurrent_requests_are_served_on_one_thread() {
    many_requests_at_once().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_are_served_on_several_threads() {
    many_requests_at_once().await;
}

#[tokio::test]
async fn dropping_the_server_closes_port_and_connections() {
    let server = start([Reply::hang()]).await;
    let mut open = Client::connect(&server.url()).await.unwrap();
    let body = ask(false).to_string();
    open.send(MESSAGES, HEADERS, body.as_bytes()).await.unwrap();
    server.wait_for_requests(1).await;
    let address = server.url().replace("http://", "");
    drop(server);
    let refused = tokio::net::TcpStream::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(open.receive().await.is_err());
}

#[test]
fn server_may_be_dropped_after_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(start(["hello"]));
    drop(runtime);
    drop(server);
}

#[tokio::test]
async fn types_are_send_and_sync() {
    fn check<T: Send>(_: &T) {}
    fn check_shared<T: Send + Sync + 'static>(_: &T) {}
    check(&AnthropicServer::start(["hello"]));
    let server = start(["hello"]).await;
    check_shared(&server);
    check(&server.wait_for_disconnect());
    check(&server.wait_for_requests(1));
}
