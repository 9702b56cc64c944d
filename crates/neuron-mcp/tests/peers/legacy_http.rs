//! Tests of the client with a server of the Python SDK that supports only the two-endpoint HTTP transport of MCP
//! 2024-11-05.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{HttpConfig, McpClient};
use neuron_testkit::mcp::python_or_skip;
use serde_json::json;

/// A running server process and the URL of its event stream. The process is killed on drop.
struct Server(Child, String);

impl Server {
    /// Starts the server. Returns `None` if the test is to be skipped because there is no Python with the SDK.
    fn or_skip() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/python/sse_server.py");
        let mut command = Command::new(python_or_skip()?);
        command.args(["-P", "-B", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Some(Self(child, url.trim().to_owned()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connect(server: &Server) -> McpClient {
    let config = HttpConfig { url: server.1.clone(), ..HttpConfig::default() };
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(120));
    builder.connect_http(config).await.unwrap()
}

#[tokio::test]
async fn python_sdk_server_is_recognised() {
    let Some(server) = Server::or_skip() else { return };
    let client = connect(&server).await;
    assert_eq!(client.server_info().name, "old");
    let tools: Vec<_> = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 2);
    for number in 0..20 {
        let output = client.call_tool_json("add", json!({"a": number, "b": 1})).await.unwrap();
        let text: String = output.content.iter().map(ToString::to_string).collect();
        assert_eq!(text, (number + 1).to_string());
    }
    client.close().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn call_fails_when_the_server_is_killed() {
    let Some(mut server) = Server::or_skip() else { return };
    let client = Arc::new(connect(&server).await);
    let calling = Arc::clone(&client);
    let call = tokio::spawn(async move { calling.call_tool_json("sleep", json!({})).await });
    // The response to this call proves that the server has received the earlier call.
    client.call_tool_json("add", json!({"a": 1, "b": 1})).await.unwrap();
    server.0.kill().unwrap();
    let error = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap().unwrap();
    assert!(error.is_err(), "{error:?}");
}
