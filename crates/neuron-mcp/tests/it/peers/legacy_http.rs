//! Tests of the client with a server of the Python SDK that supports only the two-endpoint HTTP transport of MCP
//! 2024-11-05.

use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{HttpConfig, McpClient};
use serde_json::json;

use crate::peers::support::{PythonServer, builder, text};

/// Starts the server of the Python SDK. Returns `None` if no Python with the SDK is available, so that the test is
/// skipped.
fn start_or_skip() -> Option<PythonServer> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/python/sse_server.py");
    PythonServer::or_skip(script, &[])
}

async fn connect(server: &PythonServer) -> McpClient {
    let config = HttpConfig { url: server.url(), ..HttpConfig::default() };
    builder().connect_http(config).await.unwrap()
}

#[tokio::test]
async fn python_sdk_server_is_recognised() {
    let Some(server) = start_or_skip() else { return };
    let client = connect(&server).await;
    assert_eq!(client.server_info().name, "old");
    let tools: Vec<_> = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 2);
    for number in 0..20 {
        let output = client.call_tool_json("add", json!({"a": number, "b": 1})).await.unwrap();
        assert_eq!(text(&output), (number + 1).to_string());
    }
    client.close().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn call_fails_when_the_server_is_killed() {
    let Some(mut server) = start_or_skip() else { return };
    let client = Arc::new(connect(&server).await);
    let calling = Arc::clone(&client);
    let call = tokio::spawn(async move { calling.call_tool_json("sleep", json!({})).await });
    // The response to this call proves that the server has received the earlier call.
    client.call_tool_json("add", json!({"a": 1, "b": 1})).await.unwrap();
    server.kill();
    let error = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
    assert!(error.is_err(), "{error:?}");
}
