//! Tests of the server's change notifications.

use neuron_mcp::{McpResource, McpResourceSet, McpServer};
use neuron_tool::ToolRegistry;
use neuron_types::ToolOutput;
use serde_json::{Value, json};

use super::{Client, one, peer, text};

fn server() -> McpServer {
    let resources = McpResourceSet::new().with_text(McpResource::new("x://1", "one"), "1");
    McpServer::new(one("old", |_, _| async { Ok(ToolOutput::text("old")) }))
        .with_resources(resources)
}

/// Connects a client with version 2025-11-25 that receives change notifications.
///
/// Also waits for the response to a `ping`. By then the server has processed `notifications/initialized`, and notifies
/// the client of changes.
async fn older(server: &McpServer) -> Client {
    let mut client = Client::older(server, "2025-11-25", json!({})).await;
    client.request("ping", json!({})).await;
    client
}

#[tokio::test]
async fn replaced_tools_are_announced_to_all_clients() {
    let server = server();
    let (mut one_client, mut other) = (older(&server).await, older(&server).await);
    let mut modern = Client::modern(&server, json!({}));
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let id = modern.begin("subscriptions/listen", params).await;
    let acknowledged = modern.hear("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));

    let tools = one("new", |_, _| async { Ok(ToolOutput::text("new")) });
    server.notifier().replace_tools(tools);
    for client in [&mut one_client, &mut other] {
        client.hear("notifications/tools/list_changed").await;
        assert_eq!(text(&client.call("new", json!({})).await), "new");
        assert_eq!(super::code(&client.call("old", json!({})).await), -32602);
    }
    let heard = modern.hear("notifications/tools/list_changed").await;
    let meta = &heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(meta.as_u64(), Some(id), "{heard}");
}

#[tokio::test]
async fn resource_update_is_sent_only_to_subscribers() {
    let server = server();
    let (mut subscribed, mut other) = (older(&server).await, older(&server).await);
    subscribed.request("resources/subscribe", json!({ "uri": "x://1" })).await;
    let notifier = server.notifier();
    notifier.resource_updated("x://2");
    notifier.resource_updated("x://1");
    notifier.resources_changed();
    for client in [&mut subscribed, &mut other] {
        client.hear("notifications/resources/list_changed").await;
        client.request("ping", json!({})).await;
    }
    // Notifications of different kinds can arrive in any order.
    let updated = subscribed.hear("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "x://1");
    assert!(other.heard.is_empty() && subscribed.heard.is_empty());

    subscribed.request("resources/unsubscribe", json!({ "uri": "x://1" })).await;
    notifier.resource_updated("x://1");
    notifier.tools_changed();
    subscribed.hear("notifications/tools/list_changed").await;
    subscribed.request("ping", json!({})).await;
    assert!(subscribed.heard.is_empty(), "{:?}", subscribed.heard);
}

#[tokio::test]
async fn subscription_receives_only_the_requested_kinds() {
    let server = server();
    let mut client = Client::modern(&server, json!({}));
    let params = json!({ "notifications": {
        "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["x://1"],
    } });
    let id = client.begin("subscriptions/listen", params).await;
    let acknowledged = client.hear("notifications/subscriptions/acknowledged").await;
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "resourcesListChanged": true, "resourceSubscriptions": ["x://1"] }),
        "there are no prompts"
    );
    let notifier = server.notifier();
    notifier.tools_changed();
    notifier.prompts_changed();
    notifier.resource_updated("x://2");
    notifier.resource_updated("x://1");
    let heard = client.receive().await;
    assert_eq!(heard["method"], "notifications/resources/updated");
    assert_eq!(heard["params"]["uri"], "x://1");
    notifier.resources_changed();
    assert_eq!(client.receive().await["method"], "notifications/resources/list_changed");

    // After the cancellation the client receives no more notifications.
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    });
    client.send(cancelled).await;
    client.request("tools/list", json!({})).await;
    client.request("tools/list", json!({})).await;
    client.heard.clear();
    notifier.resources_changed();
    client.request("tools/list", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

#[tokio::test]
async fn change_during_subscription_start_is_not_lost() {
    for _ in 0..100 {
        let server = server();
        let mut client = Client::modern(&server, json!({}));
        let params = json!({ "notifications": { "toolsListChanged": true } });
        client.begin("subscriptions/listen", params).await;
        client.hear("notifications/subscriptions/acknowledged").await;
        server.notifier().tools_changed();
        client.hear("notifications/tools/list_changed").await;
    }
}

#[tokio::test]
async fn client_that_does_not_read_delays_no_other_client() {
    let server = server();
    let mut slow = older(&server).await;
    slow.request("resources/subscribe", json!({ "uri": "x://1" })).await;
    let mut other = older(&server).await;
    let notifier = server.notifier();
    for _ in 0..100_000 {
        notifier.tools_changed();
        notifier.resource_updated("x://1");
    }
    other.hear("notifications/tools/list_changed").await;
    // Once the client reads, it receives each kind of change. The server merges repeated changes.
    slow.hear("notifications/tools/list_changed").await;
    slow.hear("notifications/resources/updated").await;
}

#[tokio::test]
async fn notifier_in_a_tool_announces_changes_and_outlives_the_server() {
    let tools = one("grow", |_, ctx| async move {
        let tools = one("grown", |_, _| async { Ok(ToolOutput::text("grown")) });
        peer(&ctx).notifier().replace_tools(tools);
        Ok(ToolOutput::text("done"))
    });
    let server = McpServer::new(tools);
    let notifier = server.notifier();
    let mut client = older(&server).await;
    assert_eq!(text(&client.call("grow", json!({})).await), "done", "the call goes on");
    client.hear("notifications/tools/list_changed").await;
    assert_eq!(text(&client.call("grown", json!({})).await), "grown");
    client.close().await;
    drop(server);
    notifier.replace_tools(ToolRegistry::new());
    notifier.tools_changed();
}

#[tokio::test]
async fn no_change_is_sent_before_the_handshake_ends() {
    let server = server();
    let mut client = Client::connect(&server);
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "raw", "version": "1" },
    });
    client.request("initialize", params).await;
    server.notifier().tools_changed();
    client.request("ping", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    let heard: Value = client.receive().await;
    assert_eq!(heard["method"], "notifications/tools/list_changed");
}
