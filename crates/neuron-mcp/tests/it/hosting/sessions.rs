//! Tests of the end of idle and deleted sessions.

use std::time::Duration;

use serde_json::json;

use super::raw::{Connection, Request, begin, call, initialize, within};
use super::server::start;

/// Idle timeout of the tested sessions. Much longer than the time between two requests of a test, even on a loaded
/// machine.
const IDLE: Duration = Duration::from_secs(4);

/// Waits until an earlier session has ended, so that the server accepts a new session.
async fn until_there_is_room(addr: std::net::SocketAddr) {
    let room = async {
        while initialize().send(addr).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(room).await;
}

#[tokio::test]
async fn idle_session_ends() {
    let server = start(|config| config.max_sessions(1).session_idle_timeout(IDLE)).await;
    let id = begin(server.addr, |request| request).await;
    until_there_is_room(server.addr).await;
    let response = call(&id, "echo", &json!({ "text": "late" })).send(server.addr).await;
    assert_eq!(response.status, 404);
}

#[tokio::test]
async fn deleting_an_unknown_session_is_not_found() {
    let server = start(|config| config).await;
    let id = begin(server.addr, |request| request).await;
    let delete = async |id: &str| Request::new("DELETE").session(id).send(server.addr).await.status;
    assert_eq!(delete("made-up").await, 404);
    assert_eq!(delete(&id).await, 204);
    assert_eq!(delete(&id).await, 404);
}

#[tokio::test]
async fn session_with_an_open_stream_does_not_expire() {
    let server = start(|config| config.max_sessions(2).session_idle_timeout(IDLE)).await;
    let listens = begin(server.addr, |request| request).await;
    let mut stream = Connection::open(server.addr).await;
    stream.write(Request::listen().session(&listens).to_bytes()).await;
    stream.read_until("200 OK").await;

    // The second session expires first, although it was used after the first session, which has an open stream.
    begin(server.addr, |request| request).await;
    until_there_is_room(server.addr).await;
    let response = call(&listens, "echo", &json!({ "text": "here" })).send(server.addr).await;
    assert_eq!(response.tool_text(), "here");
}

#[tokio::test]
async fn session_with_a_running_call_does_not_expire() {
    let server = start(|config| config.max_sessions(2).session_idle_timeout(IDLE)).await;
    let calls = begin(server.addr, |request| request).await;
    let mut stream = Connection::open(server.addr).await;
    stream.write(call(&calls, "wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;

    begin(server.addr, |request| request).await;
    until_there_is_room(server.addr).await;
    server.waiting.release.notify_one();
    assert_eq!(stream.read_to_end().await.unwrap().tool_text(), "waited");
}
