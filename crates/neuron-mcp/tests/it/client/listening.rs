//! Tests of the subscription stream, on which a server sends change notifications (MCP 2026-07-28).

use std::time::Duration;

use neuron_mcp::{McpClient, McpClientBuilder, McpError, McpEvent, McpNotSubscribed};
use serde_json::{Value, json};

use super::connected_to_modern;
use crate::script::Script;

/// Timeout after which a hanging test fails. Every operation takes much less time, even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Acknowledges the next `subscriptions/listen` request with all requested notifications. Returns the request.
async fn accept(server: &mut Script) -> Value {
    let request = server.expect("subscriptions/listen").await;
    acknowledge(server, &request, &request["params"]["notifications"]).await;
    request
}

/// Acknowledges the subscription to these notifications. `stream` is the client's `subscriptions/listen` request.
async fn acknowledge(server: &mut Script, stream: &Value, notifications: &Value) {
    let params = json!({
        "notifications": notifications,
        "_meta": { "io.modelcontextprotocol/subscriptionId": stream["id"] },
    });
    server.notify("notifications/subscriptions/acknowledged", params).await;
}

/// Sends a notification of a subscription to the client. `stream` is the client's `subscriptions/listen` request.
async fn tell(server: &mut Script, stream: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": stream["id"] });
    server.notify(method, params).await;
}

/// Connects a client to a server that supports change notifications. Returns the client, the server, and the client's
/// `subscriptions/listen` request.
async fn listening(builder: McpClientBuilder) -> (McpClient, Script, Value) {
    let (mut server, reader, writer) = Script::new();
    let capabilities = json!({
        "tools": { "listChanged": true },
        "prompts": {},
        "resources": { "subscribe": true },
    });
    let serving = async {
        server.tell_versions(capabilities).await;
        accept(&mut server).await
    };
    let (client, stream) = tokio::join!(builder.connect_io(reader, writer), serving);
    (client.unwrap(), server, stream)
}

#[tokio::test]
async fn stream_is_opened_for_declared_notifications() {
    let (client, mut server, stream) = listening(McpClient::builder()).await;
    assert_eq!(stream["params"]["notifications"], json!({ "toolsListChanged": true }));
    let mut events = client.events();
    // More notifications than the SDK's own buffer holds.
    for _ in 0..200 {
        tell(&mut server, &stream, "notifications/tools/list_changed", json!({})).await;
    }
    for _ in 0..200 {
        assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
    }
}

#[tokio::test]
async fn stream_is_not_opened_without_notifications() {
    let (client, mut server) = connected_to_modern(McpClient::builder(), json!({})).await;
    drop(client);
    assert!(server.next().await.is_none());
}

#[tokio::test]
async fn subscription_replaces_the_stream() {
    let (client, mut server, first) = listening(McpClient::builder()).await;
    let mut events = client.events();
    let (done, second) = tokio::join!(client.subscribe("file:///a"), accept(&mut server));
    done.unwrap();
    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["file:///a"] });
    assert_eq!(second["params"]["notifications"], wanted);
    let ended = server.expect("notifications/cancelled").await;
    assert_eq!(ended["params"]["requestId"], first["id"]);
    let params = json!({ "uri": "file:///a" });
    tell(&mut server, &second, "notifications/resources/updated", params).await;
    assert_eq!(events.next().await, Some(McpEvent::ResourceUpdated { uri: "file:///a".into() }));
    let (done, third) = tokio::join!(client.unsubscribe("file:///a"), accept(&mut server));
    done.unwrap();
    assert_eq!(third["params"]["notifications"], json!({ "toolsListChanged": true }));
}

#[tokio::test(start_paused = true)]
async fn ended_stream_is_reopened_after_a_second() {
    let (client, mut server, stream) = listening(McpClient::builder()).await;
    let mut events = client.events();
    let result = json!({
        "resultType": "complete",
        "_meta": { "io.modelcontextprotocol/subscriptionId": stream["id"] },
    });
    server.reply(&stream, result).await;
    let started = tokio::time::Instant::now();
    accept(&mut server).await;
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    // The client reports a change, because notifications may have been lost while no stream was open.
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
}

#[tokio::test]
async fn refused_stream_does_not_fail_connecting() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        server.tell_versions(json!({ "tools": { "listChanged": true } })).await;
        let request = server.expect("subscriptions/listen").await;
        server.refuse(&request, -32601, "no streams").await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    client.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_an_unacknowledged_subscription() {
    let (client, mut server, _) = listening(McpClient::builder()).await;
    let started = tokio::time::Instant::now();
    let closing = async {
        server.expect("subscriptions/listen").await;
        client.close().await;
        server
    };
    let (done, server) = tokio::join!(client.subscribe("file:///a"), closing);
    assert!(matches!(done.unwrap_err(), McpError::Transport(_)));
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn late_acknowledgement_of_the_stream_is_accepted() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        server.tell_versions(json!({ "tools": { "listChanged": true } })).await;
        server.expect("subscriptions/listen").await
    };
    let builder = McpClient::builder().connect_timeout(Duration::from_secs(3));
    let (client, stream) = tokio::join!(builder.connect_io(reader, writer), serving);
    let client = client.unwrap();
    let mut events = client.events();
    acknowledge(&mut server, &stream, &stream["params"]["notifications"]).await;
    // The client reports a change, because the tools may have changed before the stream was open.
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
    tell(&mut server, &stream, "notifications/tools/list_changed", json!({})).await;
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
}

#[tokio::test(start_paused = true)]
async fn refused_stream_is_requested_again() {
    let (mut server, reader, writer) = Script::new();
    let serving = async {
        server.tell_versions(json!({ "tools": { "listChanged": true } })).await;
        let request = server.expect("subscriptions/listen").await;
        server.refuse(&request, -32603, "not now").await;
    };
    let (client, ()) = tokio::join!(McpClient::builder().connect_io(reader, writer), serving);
    let client = client.unwrap();
    let mut events = client.events();
    accept(&mut server).await;
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
}

#[tokio::test]
async fn subscription_without_acknowledged_resource_is_an_error() {
    let (client, mut server, first) = listening(McpClient::builder()).await;
    let mut events = client.events();
    for _ in 0..2 {
        let serving = async {
            let stream = server.expect("subscriptions/listen").await;
            acknowledge(&mut server, &stream, &json!({ "toolsListChanged": true })).await;
            let ended = server.expect("notifications/cancelled").await;
            assert_eq!(ended["params"]["requestId"], stream["id"]);
        };
        let (done, ()) = tokio::join!(client.subscribe("file:///a"), serving);
        let McpError::Other(error) = done.unwrap_err() else { panic!("another error") };
        assert_eq!(error.downcast_ref::<McpNotSubscribed>().unwrap().uri, "file:///a");
    }
    // The previous stream stays open.
    tell(&mut server, &first, "notifications/tools/list_changed", json!({})).await;
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
    client.unsubscribe("file:///a").await.unwrap();
}

#[tokio::test]
async fn unpolled_subscription_does_not_block_another() {
    let (client, mut server, _) = listening(McpClient::builder()).await;
    let mut first = Box::pin(client.subscribe("file:///a"));
    let stream = tokio::select! {
        biased;
        done = &mut first => panic!("{done:?}"),
        stream = server.expect("subscriptions/listen") => stream,
    };
    let serving = async {
        acknowledge(&mut server, &stream, &stream["params"]["notifications"]).await;
        server.expect("notifications/cancelled").await;
        let both = accept(&mut server).await;
        assert_eq!(
            both["params"]["notifications"]["resourceSubscriptions"],
            json!(["file:///a", "file:///b"])
        );
    };
    let both = async { tokio::join!(client.subscribe("file:///b"), serving) };
    let (second, ()) = tokio::time::timeout(LIMIT, both).await.expect("it goes on");
    second.unwrap();
    first.await.unwrap();
}

#[tokio::test]
async fn dropped_subscription_is_cancelled() {
    let (client, mut server, _) = listening(McpClient::builder()).await;
    let stream = tokio::select! {
        biased;
        done = client.subscribe("file:///a") => panic!("{done:?}"),
        stream = server.expect("subscriptions/listen") => stream,
    };
    let serving = async {
        let ended = server.expect("notifications/cancelled").await;
        assert_eq!(ended["params"]["requestId"], stream["id"]);
        accept(&mut server).await
    };
    let (done, stream) = tokio::join!(client.subscribe("file:///b"), serving);
    done.unwrap();
    let wanted = &stream["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*wanted, json!(["file:///b"]));
}
