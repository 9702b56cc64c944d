//! Test of the span of a request to a server over stdio.

use neuron_mcp::{McpClient, McpVersion, StdioConfig};
use serde_json::json;

use super::recorder::Recorder;

/// A shell script that completes the handshake and answers one tool call.
const SERVER: &str = r#"
read hello
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}'
read initialized
read call
echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
read end
"#;

#[tokio::test]
async fn stdio_request_span_has_pipe_transport() {
    let (recorder, _guard) = Recorder::start();
    let config = StdioConfig {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), SERVER.to_owned()],
        ..StdioConfig::default()
    };
    let client = McpClient::builder().versions([McpVersion::V2025_11_25]);
    let client = client.connect_stdio(config).await.unwrap();
    client.call_tool_json("t", json!({})).await.unwrap();
    assert_eq!(
        recorder.ended("tools/call t", "client").fields,
        json!({
            "otel.name": "tools/call t",
            "otel.kind": "client",
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2025-11-25",
            "gen_ai.tool.name": "t",
            "gen_ai.operation.name": "execute_tool",
            "jsonrpc.request.id": "1",
            "network.transport": "pipe",
        })
    );
    client.close().await;
}
