//! Tests of the limits for sizes, times, connections and sessions.

use std::time::Duration;

use neuron_mcp::{HttpConfig, HttpIdentity, HttpRefusal, HttpRequestHead, McpClient, McpVersion};
use serde_json::json;

use super::raw::{Connection, Request, begin, call, initialize, modern_call, send, within};
use super::server::start;

/// Read timeout of the tested servers. Sending a small request takes much less time, even on a loaded machine.
const READING: Duration = Duration::from_secs(2);

#[tokio::test]
async fn too_long_body_is_refused() {
    let server = start(|config| config.max_body_bytes(1000)).await;
    let call = |length| modern_call("echo", &json!({ "text": "x".repeat(length) }));
    assert_eq!(call(200).send(server.addr).await.status, 200);
    let response = call(1000).send(server.addr).await;
    assert_eq!(response.status, 413);
    assert_eq!(response.body, "Payload Too Large: at most 1000 bytes are allowed");
    // The server refuses by the announced length, without waiting for the body.
    let announced = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1001\r\n\r\n";
    assert_eq!(send(server.addr, announced).await.status, 413);
}

#[tokio::test]
async fn too_long_chunked_body_is_refused() {
    let server = start(|config| config.max_body_bytes(1000)).await;
    let request = initialize().header("transfer-encoding", "chunked").to_bytes();
    let text = String::from_utf8(request).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let head = head.rsplit_once("\r\n").unwrap().0;

    let small = format!("{head}\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    assert_eq!(send(server.addr, small).await.status, 200);

    let chunk = format!("1f4\r\n{}\r\n", " ".repeat(500));
    let mut connection = Connection::open(server.addr).await;
    connection.write(format!("{head}\r\n\r\n{chunk}{chunk}{chunk}")).await;
    assert_eq!(connection.read_to_end().await.unwrap().status, 413);
}

#[tokio::test]
async fn too_long_head_is_refused() {
    let server = start(|config| config.max_head_bytes(8 * 1024)).await;
    let with = |length| initialize().header("x-long", &"x".repeat(length));
    assert_eq!(with(7000).send(server.addr).await.status, 200);
    assert_eq!(with(9000).send(server.addr).await.status, 431);
    let many =
        (0..200).fold(initialize(), |request, number| request.header(&format!("x{number}"), ""));
    assert_eq!(many.send(server.addr).await.status, 431);
}

#[tokio::test]
async fn slow_head_closes_the_connection() {
    let server = start(|config| config.read_timeout(READING)).await;
    for begin in ["", "POST /mcp HT", "POST /mcp HTTP/1.1\r\nhost: local"] {
        let mut connection = Connection::open(server.addr).await;
        connection.write(begin).await;
        let response = connection.read_to_end().await;
        assert!(response.is_none_or(|response| response.status == 408), "{begin}");
    }
    // The timeout covers the whole head, so single bytes at intervals do not extend it.
    let mut connection = tokio::net::TcpStream::connect(server.addr).await.unwrap();
    let dropped = async {
        use tokio::io::AsyncWriteExt;
        while connection.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within(dropped).await;
}

#[tokio::test]
async fn slow_body_is_refused_with_408() {
    let server = start(|config| config.read_timeout(READING)).await;
    let request = initialize().to_bytes();
    let mut connection = Connection::open(server.addr).await;
    connection.write(&request[..request.len() - 5]).await;
    let response = connection.read_to_end().await.unwrap();
    assert_eq!(response.status, 408);
    assert_eq!(response.body, "Request Timeout: the body did not arrive in time");
}

#[tokio::test]
async fn connection_with_a_running_call_has_no_timeout() {
    let server = start(|config| config.read_timeout(READING)).await;
    let mut connection = Connection::open(server.addr).await;
    connection.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    // Idle connections are closed after the read timeout, while the call is still running.
    let mut others = [Connection::open(server.addr).await, Connection::open(server.addr).await];
    for other in &mut others {
        assert!(other.read_to_end().await.is_none());
    }
    server.waiting.release.notify_one();
    assert_eq!(connection.read_to_end().await.unwrap().tool_text(), "waited");
}

#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let limit = Duration::from_millis(500);
    let server = start(|config| config.max_connections(1).write_timeout(limit)).await;
    let mut deaf = Connection::open(server.addr).await;
    // The result is larger than the socket buffers of the system.
    let call = modern_call("much", &json!({ "bytes": 64 * 1024 * 1024 }));
    deaf.write(call.to_bytes()).await;
    // The limit is one connection, so this request is served only after the first connection was closed.
    let next = modern_call("echo", &json!({ "text": "next" })).send(server.addr).await;
    assert_eq!(next.tool_text(), "next");
    assert!(deaf.read_to_end().await.is_none_or(|read| read.body.len() < 64 * 1024 * 1024));
}

#[tokio::test]
async fn connection_above_the_limit_waits() {
    let server = start(|config| config.max_connections(1)).await;
    let mut first = Connection::open(server.addr).await;
    first.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;

    let mut second = Connection::open(server.addr).await;
    second.write(modern_call("echo", &json!({ "text": "second" })).to_bytes()).await;
    let early = tokio::time::timeout(Duration::from_millis(200), second.read_until("second")).await;
    assert!(early.is_err(), "the second was served beside the first");

    server.waiting.release.notify_one();
    assert_eq!(first.read_to_end().await.unwrap().tool_text(), "waited");
    assert_eq!(second.read_to_end().await.unwrap().tool_text(), "second");
}

#[tokio::test]
async fn half_sent_heads_do_not_block_another_client() {
    let server = start(|config| config.max_connections(64).max_connections_per_address(8)).await;
    let mut first = Connection::open(server.addr).await;
    first.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    let mut halves = Vec::new();
    for _ in 0..200 {
        let mut half = Connection::open(server.addr).await;
        half.write("POST /mcp HTTP/1.1\r\nhost: localhost\r\n").await;
        halves.push(half);
    }
    let next = modern_call("echo", &json!({ "text": "next" }));
    let next = tokio::time::timeout(READING, next.send(server.addr)).await.expect("no wait");
    assert_eq!(next.tool_text(), "next");
    // A connection with a running call is not closed to make room.
    server.waiting.release.notify_one();
    assert_eq!(first.read_to_end().await.unwrap().tool_text(), "waited");
}

#[tokio::test]
async fn least_recently_used_session_is_replaced_unless_all_are_in_use() {
    let server = start(|config| config.max_sessions(2)).await;
    let first = begin(server.addr, |request| request).await;
    let second = begin(server.addr, |request| request).await;
    let echo = async |id: &str| call(id, "echo", &json!({ "text": "on" })).send(server.addr).await;
    assert_eq!(echo(&first).await.tool_text(), "on");
    let third = begin(server.addr, |request| request).await;
    assert_eq!(echo(&second).await.status, 404);
    assert_eq!((echo(&first).await.status, echo(&third).await.status), (200, 200));

    let mut streams = Vec::new();
    for id in [&first, &third] {
        let mut stream = Connection::open(server.addr).await;
        stream.write(Request::listen().session(id).to_bytes()).await;
        stream.read_until("200 OK").await;
        streams.push(stream);
    }
    let response = initialize().send(server.addr).await;
    assert_eq!(response.status, 503);
    assert!(response.header("retry-after").is_some());
    // Existing sessions still work, and requests without a session are not limited.
    for id in [&first, &third] {
        assert_eq!(echo(id).await.tool_text(), "on");
    }
    let response = modern_call("echo", &json!({ "text": "new" })).send(server.addr).await;
    assert_eq!(response.tool_text(), "new");

    assert_eq!(Request::new("DELETE").session(&first).send(server.addr).await.status, 204);
    begin(server.addr, |request| request).await;
}

#[tokio::test]
async fn client_above_its_session_limit_loses_only_its_own_sessions() {
    let by_key = |request: HttpRequestHead| {
        let key = request.headers.get("x-key").and_then(|key| key.to_str().ok());
        std::future::ready(key.map(HttpIdentity::new).ok_or_else(HttpRefusal::unauthorized))
    };
    let server =
        start(|config| config.max_sessions(64).max_sessions_per_client(3).authenticate(by_key));
    let server = server.await;
    let begin_as = async |key: &str| {
        let key = key.to_owned();
        begin(server.addr, move |request| request.header("x-key", &key)).await
    };
    let calm = begin_as("calm").await;
    let mut last = String::new();
    for _ in 0..1500 {
        last = begin_as("flood").await;
    }
    let echo = async |id: &str, key: &str| {
        let call = call(id, "echo", &json!({ "text": "on" })).header("x-key", key);
        call.send(server.addr).await.status
    };
    assert_eq!((echo(&calm, "calm").await, echo(&last, "flood").await), (200, 200));
    assert_eq!(echo(&begin_as("calm").await, "calm").await, 200);
}

#[tokio::test]
async fn maximum_durations_disable_the_time_limits() {
    let server = start(|config| {
        config
            .read_timeout(Duration::MAX)
            .write_timeout(Duration::MAX)
            .session_idle_timeout(Duration::MAX)
            .shutdown_grace(Duration::MAX)
    });
    let mut server = server.await;
    for version in [McpVersion::V2025_11_25, McpVersion::V2026_07_28] {
        let client = McpClient::builder()
            .versions([version])
            .request_timeout(Duration::MAX)
            .max_request_time(Duration::MAX)
            .connect_timeout(Duration::MAX);
        let client =
            client.connect_http(HttpConfig { url: server.url.clone(), ..HttpConfig::default() });
        let client = within(client).await.unwrap();
        let output = within(client.call_tool_json("echo", json!({ "text": "on" }))).await.unwrap();
        assert_eq!(output.content[0].to_string(), "on");
        client.close().await;
    }
    server.shutdown.cancel();
    server.ended().await.unwrap();
}
