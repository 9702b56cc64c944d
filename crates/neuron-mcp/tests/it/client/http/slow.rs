//! Tests with HTTP servers that respond slowly or never.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{McpClient, McpError, McpVersion};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{config, greet, serve_slowly};
use crate::script::{said, text};

#[tokio::test]
async fn failed_connect_to_a_silent_server_closes_its_connections() {
    for versions in [&McpVersion::ALL[..], &[McpVersion::V2025_11_25]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut connections = JoinSet::new();
        let builder = McpClient::builder()
            .versions(versions.iter().copied())
            .connect_timeout(Duration::from_secs(3));
        let connecting = builder.connect_http(config(&url));
        tokio::pin!(connecting);
        let error = loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => {
                    let (mut stream, _) = accepted.unwrap();
                    connections.spawn(async move { stream.read_to_end(&mut Vec::new()).await });
                }
                connected = &mut connecting => break connected.unwrap_err(),
            }
        };
        assert!(matches!(error, McpError::Connection(_)), "{error}");
        assert!(!connections.is_empty());
        let all_ended = async { while connections.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(30), all_ended).await.expect("the client is gone");
    }
}

#[tokio::test]
async fn server_that_hangs_on_discover_gets_a_handshake() {
    let server = serve_slowly(async |asked| match asked.is("server/discover") {
        true => pending().await,
        false => asked.served(),
    })
    .await;
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(20));
    let client = builder.connect_http(config(&server.url)).await.unwrap();
    assert_eq!(client.version(), McpVersion::V2025_11_25);
    assert_eq!(greet(&client).await.unwrap(), "hello");
}

#[tokio::test]
async fn ping_and_calls_run_concurrently() {
    let (called, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = serve_slowly({
        let (called, finish) = (Arc::clone(&called), Arc::clone(&finish));
        move |asked| {
            let (called, finish) = (Arc::clone(&called), Arc::clone(&finish));
            async move {
                match asked.message["method"].as_str() {
                    Some("server/discover") => asked.result(json!({
                        "resultType": "complete",
                        "supportedVersions": ["2026-07-28"],
                        "capabilities": { "tools": {} },
                        "ttlMs": 0,
                        "cacheScope": "private",
                    })),
                    Some("tools/call") if asked.message["params"]["name"] == "slow" => {
                        called.notify_one();
                        finish.notified().await;
                        asked.result(said("at last"))
                    }
                    _ => asked.served(),
                }
            }
        }
    })
    .await;
    let builder = McpClient::builder().request_timeout(Duration::from_secs(30));
    let client = builder.connect_http(config(&server.url)).await.unwrap();
    assert_eq!(client.version(), McpVersion::V2026_07_28);
    let meanwhile = async {
        called.notified().await;
        client.ping().await.unwrap();
        assert_eq!(greet(&client).await.unwrap(), "hello");
        finish.notify_one();
    };
    let (output, ()) = tokio::join!(client.call_tool_json("slow", Value::Null), meanwhile);
    assert_eq!(text(&output.unwrap()), "at last");
}
