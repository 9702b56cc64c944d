//! Tests of the shutdown of a server over HTTP.

use std::time::{Duration, Instant};

use serde_json::json;

use super::raw::{Connection, Request, begin, call, initialize, modern, modern_call, within};
use super::server::start;

#[tokio::test]
async fn idle_server_shuts_down_immediately() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    begin(server.addr, |request| request).await;
    // Idle connections do not delay the shutdown.
    let mut silent = Connection::open(server.addr).await;
    let mut kept = Connection::open(server.addr).await;
    kept.write(initialize().without("connection").to_bytes()).await;
    kept.read_until("serverInfo").await;

    server.shutdown.cancel();
    server.ended().await.unwrap();
    assert!(silent.read_to_end().await.is_none());
    assert!(tokio::net::TcpStream::connect(server.addr).await.is_err());
}

#[tokio::test]
async fn shutdown_lets_running_calls_finish() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let id = begin(server.addr, |request| request).await;
    let mut in_session = Connection::open(server.addr).await;
    in_session.write(call(&id, "wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    let mut without = Connection::open(server.addr).await;
    without.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;

    server.shutdown.cancel();
    server.waiting.release.notify_one();
    server.waiting.release.notify_one();
    // A `Notify` stores at most one permit, so one of the two notifications may be lost. `notify_waiters` wakes a call
    // that still waits.
    server.waiting.release.notify_waiters();
    assert_eq!(in_session.read_to_end().await.unwrap().tool_text(), "waited");
    assert_eq!(without.read_to_end().await.unwrap().tool_text(), "waited");
    server.ended().await.unwrap();
}

#[tokio::test]
async fn shutdown_accepts_the_response_that_a_running_call_waits_for() {
    let page = "https://app.example.com";
    let grace = Duration::from_secs(3600);
    let mut server = start(|config| config.allowed_origins([page]).shutdown_grace(grace)).await;
    let id = begin(server.addr, |request| request).await;
    let mut calls = Connection::open(server.addr).await;
    calls.write(call(&id, "ask", &json!({})).to_bytes()).await;
    let stream = calls.read_until("elicitation/create").await;
    let data = stream.lines().filter_map(|line| line.strip_prefix("data:"));
    let question: serde_json::Value =
        data.filter_map(|data| serde_json::from_str(data.trim()).ok()).next_back().unwrap();
    server.shutdown.cancel();

    // New work is refused in this session, in an unknown session, and without a session.
    let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    let answer =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
    for refused in [
        call(&id, "echo", &json!({ "text": "new" })),
        Request::post(&ping).session(&id),
        Request::post(&json!([ping])).session(&id),
        Request::listen().session(&id),
        Request::post(&answer).session("another"),
        Request::post(&answer),
        modern_call("echo", &json!({ "text": "new" })),
        initialize(),
    ] {
        assert_eq!(refused.send(server.addr).await.status, 503);
    }
    // A browser sends a preflight request before it sends the response.
    let preflight = Request::new("OPTIONS")
        .header("origin", page)
        .header("access-control-request-method", "POST");
    assert_eq!(preflight.send(server.addr).await.status, 204);
    // The call ends as soon as the client has responded to the call's elicitation.
    let change = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    assert_eq!(Request::post(&change).session(&id).send(server.addr).await.status, 202);
    assert_eq!(Request::post(&answer).session(&id).send(server.addr).await.status, 202);
    let rest = calls.read_until("Decline").await;
    assert!(rest.contains("Decline"), "{rest}");
    server.ended().await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.addr).await.is_err());
}

#[tokio::test]
async fn call_can_be_cancelled_during_shutdown() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let id = begin(server.addr, |request| request).await;
    let mut calls = Connection::open(server.addr).await;
    calls.write(call(&id, "wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    server.shutdown.cancel();
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    });
    assert_eq!(Request::post(&cancelled).session(&id).send(server.addr).await.status, 202);
    within(server.waiting.ended.notified()).await;
    drop(calls);
    server.ended().await.unwrap();
}

#[tokio::test]
async fn pipelined_request_does_not_start_after_shutdown() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let mut kept = Connection::open(server.addr).await;
    let pipelined = [
        modern_call("wait", &json!({})).without("connection").to_bytes(),
        modern_call("echo", &json!({ "text": "new" })).to_bytes(),
    ];
    kept.write(pipelined.concat()).await;
    within(server.waiting.began.notified()).await;
    server.shutdown.cancel();
    server.waiting.release.notify_waiters();
    let response = kept.read_to_end().await.unwrap();
    assert!(!response.body.contains("new"), "{response:?}");
    server.ended().await.unwrap();
}

#[tokio::test]
async fn shutdown_closes_listening_streams() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let id = begin(server.addr, |request| request).await;
    let mut stream = Connection::open(server.addr).await;
    stream.write(Request::listen().session(&id).to_bytes()).await;
    stream.read_until("200 OK").await;

    server.shutdown.cancel();
    within(stream.read_to_end()).await;
    server.ended().await.unwrap();
}

#[tokio::test]
async fn calls_are_cancelled_after_the_shutdown_grace() {
    for _ in 0..10 {
        let mut server = start(|config| config.shutdown_grace(Duration::from_millis(50))).await;
        let id = begin(server.addr, |request| request).await;
        let mut in_session = Connection::open(server.addr).await;
        in_session.write(call(&id, "wait", &json!({})).to_bytes()).await;
        within(server.waiting.began.notified()).await;
        let asked = Instant::now();
        server.shutdown.cancel();

        within(server.waiting.ended.notified()).await;
        let took = asked.elapsed();
        let response = in_session.read_to_end().await.unwrap();
        server.ended().await.unwrap();
        // Cancelled calls are aborted after two seconds. A loaded machine may stall this test for that long, so only a
        // run below the limit is judged.
        if took < Duration::from_millis(1500) {
            let last = response.messages().pop();
            let last = last.unwrap_or_else(|| panic!("{response:?}"));
            assert!(last["error"].is_object(), "{response:?}");
            return;
        }
    }
    panic!("a call takes seconds to end");
}

#[tokio::test]
async fn shutdown_cancels_calls_of_disconnected_clients() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let id = begin(server.addr, |request| request).await;
    let mut gone = Connection::open(server.addr).await;
    gone.write(call(&id, "wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    drop(gone);
    server.shutdown.cancel();
    within(server.waiting.ended.notified()).await;
    server.ended().await.unwrap();
}

#[tokio::test]
async fn dropped_server_ends_immediately() {
    let mut server = start(|config| config).await;
    let id = begin(server.addr, |request| request).await;
    let mut in_session = Connection::open(server.addr).await;
    in_session.write(call(&id, "wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    let mut without = Connection::open(server.addr).await;
    without.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;

    server.drop_server().await;
    within(in_session.read_to_end()).await;
    within(without.read_to_end()).await;
    within(server.waiting.ended.notified()).await;
    assert!(tokio::net::TcpStream::connect(server.addr).await.is_err());
}

#[tokio::test]
async fn call_without_a_session_ends_with_its_connection() {
    let server = start(|config| config).await;
    let mut connection = Connection::open(server.addr).await;
    connection.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    drop(connection);
    within(server.waiting.ended.notified()).await;
}

#[tokio::test]
async fn shutdown_closes_subscription_streams() {
    let mut server = start(|config| config.shutdown_grace(Duration::from_secs(3600))).await;
    let listen =
        modern("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let mut stream = Connection::open(server.addr).await;
    stream.write(listen.to_bytes()).await;
    stream.read_until("HTTP/1.1").await;
    server.shutdown.cancel();
    within(stream.read_to_end()).await;
    server.ended().await.unwrap();
}
