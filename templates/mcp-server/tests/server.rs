//! Runs the server over standard input and output, as a client does.

use std::sync::Arc;

use neuron::mcp::{McpClient, McpToolBridge, StdioConfig};
use neuron::prelude::*;
use serde_json::json;

#[tokio::test]
async fn tools_are_listed_and_called() {
    let config =
        StdioConfig { command: env!("CARGO_BIN_EXE_server").into(), args: vec![], env: vec![] };
    let client = Arc::new(McpClient::connect_stdio(config).await.unwrap());
    let mut tools = ToolRegistry::new();
    for tool in McpToolBridge::discover(&client).await.unwrap() {
        tools.register_dyn(tool);
    }
    let mut names: Vec<&str> = tools.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["count_words", "sort_lines"]);

    let context = ToolContext::default();
    let call = |name, input| tools.execute(name, input, &context);
    let output = call("count_words", json!({"text": "one two three"})).await.unwrap();
    assert_eq!(output.content, [ContentItem::Text("3".into())]);
    let output = call("sort_lines", json!({"text": "b\na\nc", "descending": true})).await.unwrap();
    assert_eq!(output.content, [ContentItem::Text("c\nb\na".into())]);
    let output = call("sort_lines", json!({"text": "one", "descending": false})).await;
    assert!(format!("{output:?}").contains("fewer than two lines"), "{output:?}");
}
