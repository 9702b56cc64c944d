//! Telling clients what changed.

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

/// A client that is told of changes: the answer comes after the server has begun to listen.
async fn older(server: &McpServer) -> Client {
    let mut client = Client::older(server, "2025-11-25", json!({})).await;
    client.request("ping", json!({})).await;
    client
}

#[tokio::test]
async fn all_clients_learn_that_the_tools_are_others() {
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
async fn a_resource_is_told_to_who_subscribed_only() {
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
    // The order among different changes is not kept.
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
async fn a_subscription_hears_of_what_it_is_for() {
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

    // Cancelled, it hears of nothing more.
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
async fn what_changes_while_a_subscription_begins_is_not_lost() {
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
async fn a_client_that_reads_nothing_holds_nobody_up_and_costs_little() {
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
    // Later it learns all that changed, a few times at most.
    slow.hear("notifications/tools/list_changed").await;
    slow.hear("notifications/resources/updated").await;
}

#[tokio::test]
async fn a_tool_tells_of_changes_and_keeps_no_server_alive() {
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
async fn before_the_handshake_is_over_nothing_is_told() {
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
