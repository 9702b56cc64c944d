//! Tests with hostile servers that appear to support only the two-endpoint HTTP transport of MCP 2024-11-05.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_mcp::{HttpConfig, McpClient, McpError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server with an event stream whose content the test determines.
struct Server {
    url: String,
    /// Path and body of each received POST.
    posts: Arc<Mutex<Vec<(String, String)>>>,
    _tasks: JoinSet<()>,
}

/// Starts a server with an event stream and an endpoint for messages. `events` is the complete text of the stream. If
/// `stays_open` is `true`, the stream does not end after the text.
///
/// The response to a POST has status 405 for the path `/sse`, and `status` for all other paths.
async fn serve(events: String, stays_open: bool, status: u16) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/sse", listener.local_addr().unwrap());
    let posts = Arc::<Mutex<Vec<_>>>::default();
    let noted = Arc::clone(&posts);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (events, noted) = (events.clone(), Arc::clone(&noted));
            connections.spawn(async move {
                let _ = answer(stream, &events, stays_open, status, &noted).await;
            });
        }
    });
    Server { url, posts, _tasks: tasks }
}

/// Reads one HTTP request and responds to it.
///
/// The response to a GET is an event stream with the text `events`. The stream does not end if `stays_open` is `true`.
/// Path and body of any other request are added to `posts`. The response then has status 405 for the path `/sse`, and
/// `status` for all other paths.
async fn answer(
    mut stream: TcpStream,
    events: &str,
    stays_open: bool,
    status: u16,
    posts: &Mutex<Vec<(String, String)>>,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    let (head, length) = loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text.to_lowercase();
            let length = length.split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.split("\r\n").next().and_then(|length| length.parse().ok()).unwrap_or(0)
            });
            if request.len() >= end + 4 + length {
                break (text[..end].to_owned(), text[end + 4..].to_owned());
            }
        }
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if head.starts_with("GET") {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(events.as_bytes()).await?;
        if stays_open {
            std::future::pending::<()>().await;
        }
        return Ok(());
    }
    posts.lock().unwrap().push((path.clone(), length));
    let status = if path == "/sse" { 405 } else { status };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}

async fn connect(server: &Server) -> Result<McpClient, McpError> {
    let config = HttpConfig {
        url: server.url.clone(),
        auth_header: Some("secret-token".into()),
        ..HttpConfig::default()
    };
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(10));
    builder.max_message_bytes(100_000).connect_http(config).await
}

/// Returns an event stream for a complete handshake. `endpoint` is the URL for the client's messages. `id` is the
/// request id of `initialize`, to which the stream contains the response.
fn whole(endpoint: &str, id: u32) -> String {
    let result = json!({
        "protocolVersion": "2024-11-05",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "old", "version": "1" },
    });
    let response: Value = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    format!(
        "event: endpoint\ndata: {endpoint}\n\nevent: message\ndata: {notification}\n\n: ping\n\nevent: other\ndata: x\n\n\
         event: message\ndata: {response}\n\n"
    )
}

/// Returns the request id that the client uses for `initialize`. Connects a client to a recording server to find out
/// the id.
async fn initialize_id() -> u32 {
    let probe = serve("event: endpoint\ndata: /m\n\n".into(), true, 202).await;
    let config = HttpConfig { url: probe.url.clone(), ..HttpConfig::default() };
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(3));
    assert!(builder.connect_http(config).await.is_err(), "it has no response");
    let posts = probe.posts.lock().unwrap();
    let (_, body) = posts.iter().find(|(path, _)| path == "/m").expect("a message").clone();
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(message["method"], "initialize");
    u32::try_from(message["id"].as_u64().unwrap()).unwrap()
}

#[tokio::test]
async fn server_is_recognised_by_its_endpoint_event() {
    let id = initialize_id().await;
    for endpoint in ["/m", "m?session=1", "?session=1"] {
        let server = serve(whole(endpoint, id), true, 202).await;
        let client = connect(&server).await.unwrap();
        assert_eq!(client.server_info().name, "old");
        client.close().await;
    }
}

#[tokio::test]
async fn truncated_event_stream_is_an_error() {
    let id = initialize_id().await;
    let events = whole("/m", id);
    let needed = events.rfind("\n\n").unwrap();
    // Cut at each of the first 60 bytes, and then at every seventh byte.
    for cut in (0..60).chain((60..needed).step_by(7)) {
        let server = serve(events[..cut].to_owned(), false, 202).await;
        let result = connect(&server).await;
        assert!(result.is_err(), "cut at {cut}");
    }
}

#[tokio::test]
async fn message_url_of_another_server_is_refused() {
    let other = serve(String::new(), true, 202).await;
    let id = initialize_id().await;
    let elsewhere = other.url.replace("/sse", "/m");
    for named in [&*elsewhere, "https://127.0.0.1/m", "//localhost/m", "http://[::1]:1/m"] {
        let server = serve(whole(named, id), true, 202).await;
        let error = connect(&server).await.unwrap_err().to_string();
        assert!(error.contains("names another server"), "{named}: {error}");
    }
    assert!(other.posts.lock().unwrap().is_empty());
}

#[tokio::test]
async fn server_without_endpoint_event_keeps_its_first_error() {
    for events in ["", "event: message\ndata: {}\n\n", "event: endpoint", "x", "data: /m\n\n"] {
        let server = serve(events.to_owned(), false, 202).await;
        let error = connect(&server).await.unwrap_err().to_string();
        assert!(error.contains("405"), "{events:?}: {error}");
    }
}

#[tokio::test]
async fn refused_messages_and_huge_events_are_errors() {
    let id = initialize_id().await;
    let server = serve(whole("/m", id), true, 500).await;
    assert!(connect(&server).await.unwrap_err().to_string().contains("500"));
    let huge = format!("event: endpoint\ndata: /{}\n\n", "m".repeat(200_000));
    let server = serve(huge, true, 202).await;
    assert!(connect(&server).await.is_err());
    let huge =
        format!("event: endpoint\ndata: /m\n\nevent: message\ndata: {}\n\n", "x".repeat(200_000));
    let server = serve(huge, true, 202).await;
    assert!(connect(&server).await.is_err());
}
