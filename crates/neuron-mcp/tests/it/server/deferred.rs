//! Tests of a server whose registry defers its tools.

use neuron_mcp::McpServer;
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{CALL_TOOL, SEARCH_TOOLS, ToolOutput};
use serde_json::{Value, json};

use super::{Client, add, code, text};

fn deferred(names: &[&'static str]) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for &name in names {
        add(&mut tools, name, move |_, _| async move { Ok(ToolOutput::text(name)) });
    }
    tools.defer_tools(ToolSearch::new().visible(["read"])).unwrap();
    tools
}

async fn check(client: &mut Client, expected: &[&str]) {
    let list = client.request("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, expected);
    for name in expected {
        assert_eq!(text(&client.call(name, json!({})).await), *name);
    }
    for name in [SEARCH_TOOLS, CALL_TOOL] {
        assert_eq!(code(&client.call(name, json!({})).await), -32602, "{name}");
    }
}

#[tokio::test]
async fn server_offers_deferred_tools_without_the_search() {
    let server = McpServer::new(deferred(&["read", "mail"]));
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    check(&mut client, &["read", "mail"]).await;
    server.notifier().replace_tools(deferred(&["pay"]));
    check(&mut client, &["pay"]).await;
}
