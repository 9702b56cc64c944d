//! Tests of a connection with many concurrent calls, huge results, cancelled calls, and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_mcp::McpServer;
use neuron_types::{ToolContext, ToolOutput};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Client, LIMIT, one, text};

/// Returns a server whose tool `wait` never ends, and a receiver for the cancellation tokens of the tool's calls.
fn waiting() -> (McpServer, mpsc::UnboundedReceiver<CancellationToken>) {
    let (started, starts) = mpsc::unbounded_channel();
    let tools = one("wait", move |_, ctx: ToolContext| {
        started.send(ctx.cancellation_token.clone()).unwrap();
        std::future::pending()
    });
    (McpServer::new(tools), starts)
}

/// Waits until the token is cancelled.
async fn ends(token: CancellationToken) {
    tokio::time::timeout(LIMIT, token.cancelled()).await.expect("the call is cancelled");
}

#[tokio::test]
async fn cancelled_call_ends_without_a_response() {
    let (server, mut starts) = waiting();
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let id = client.begin("tools/call", json!({ "name": "wait" })).await;
    let token = starts.recv().await.unwrap();
    assert!(!token.is_cancelled());
    let params = json!({ "requestId": id, "reason": "no need" });
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
    });
    client.send(cancelled).await;
    ends(token).await;
    let response = client.request("tools/list", json!({})).await;
    assert_eq!(response["result"]["tools"][0]["name"], "wait");
    assert!(client.heard.is_empty(), "a cancelled request has no response: {:?}", client.heard);
}

#[tokio::test(start_paused = true)]
async fn disconnect_cancels_running_calls() {
    let (server, mut starts) = waiting();
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    client.begin("tools/call", json!({ "name": "wait" })).await;
    let token = starts.recv().await.unwrap();
    client.close().await;
    ends(token).await;
}

/// Subscribes to changes of the tool list. Returns the request id of the subscription.
async fn listen(client: &mut Client) -> u64 {
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let id = client.begin("subscriptions/listen", params).await;
    client.hear("notifications/subscriptions/acknowledged").await;
    id
}

#[tokio::test(start_paused = true)]
async fn subscription_ends_at_end_of_input() {
    let (server, _) = waiting();
    let mut client = Client::modern(&server, json!({}));
    let id = listen(&mut client).await;
    let start = Instant::now();
    client.end_input().await;
    client.response(id).await;
    assert_eq!(client.read().await, None);
    client.close().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn call_that_reports_progress_finishes_after_end_of_input() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let tools = one("tell", move |_, ctx: ToolContext| {
        started.send(()).unwrap();
        async move {
            // The paused clock advances only when all tasks are idle. So after this sleep the server has read the end
            // of its input.
            tokio::time::sleep(Duration::from_secs(1)).await;
            for step in 0..10_u8 {
                ctx.progress_reporter.as_ref().unwrap().report(step.into(), None, None);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(ToolOutput::text("told"))
        }
    });
    let mut client = Client::modern(&McpServer::new(tools), json!({}));
    listen(&mut client).await;
    let params = json!({ "name": "tell", "_meta": { "progressToken": 1 } });
    let id = client.begin("tools/call", params).await;
    starts.recv().await.unwrap();
    let start = Instant::now();
    client.end_input().await;
    assert_eq!(text(&client.response(id).await), "told");
    client.close().await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_running_calls() {
    let (server, mut starts) = waiting();
    let shutdown = CancellationToken::new();
    let server = server.with_shutdown(shutdown.clone());
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    client.begin("tools/call", json!({ "name": "wait" })).await;
    let token = starts.recv().await.unwrap();
    shutdown.cancel();
    ends(token).await;
    while client.read().await.is_some() {}
    client.close().await;
}

#[tokio::test]
async fn finished_call_does_not_cancel_its_token() {
    let (tokens, mut told) = mpsc::unbounded_channel();
    let tools = one("t", move |_, ctx: ToolContext| {
        tokens.send(ctx.cancellation_token).unwrap();
        async { Ok(ToolOutput::text("")) }
    });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await;
    client.call("t", json!({})).await;
    assert!(!told.recv().await.unwrap().is_cancelled(), "what it started may go on");
}

#[tokio::test]
async fn a_thousand_calls_run_concurrently() {
    let running = Arc::new(AtomicUsize::new(0));
    let all = Arc::new(tokio::sync::Barrier::new(1000));
    let tools = one("meet", move |input, _| {
        let (running, all) = (running.clone(), all.clone());
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            all.wait().await;
            assert_eq!(running.load(Ordering::SeqCst), 1000);
            Ok(ToolOutput::text(input["n"].to_string()))
        }
    });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await;
    let mut ids = Vec::new();
    for n in 0..1000 {
        let params = json!({ "name": "meet", "arguments": { "n": n } });
        ids.push(client.begin("tools/call", params).await);
    }
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(text(&client.response(id).await), n.to_string());
    }
}

#[tokio::test]
async fn calls_above_the_limit_are_refused() {
    let (server, mut starts) = waiting();
    let server = server.with_max_calls(2);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let first = client.begin("tools/call", json!({ "name": "wait" })).await;
    client.begin("tools/call", json!({ "name": "wait" })).await;
    let token = starts.recv().await.unwrap();
    let other = starts.recv().await.unwrap();
    let refused = client.call("wait", json!({})).await;
    assert_eq!(refused["error"], json!({ "code": -32000, "message": "2 calls run already" }));
    // The limit is per connection, and requests that run no tool are still answered.
    let mut neighbour = Client::older(&server, "2025-11-25", json!({})).await;
    neighbour.begin("tools/call", json!({ "name": "wait" })).await;
    starts.recv().await.unwrap();
    client.request("tools/list", json!({})).await;

    // A call that ends makes room for another call.
    let params = json!({ "requestId": first });
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
    });
    client.send(cancelled).await;
    tokio::select! {
        () = ends(token) => {}
        () = ends(other) => {}
    }
    let again = async {
        loop {
            let id = client.begin("tools/call", json!({ "name": "wait" })).await;
            client.request("tools/list", json!({})).await;
            let refused = |message: &serde_json::Value| message["id"] == id;
            match client.heard.iter().position(refused) {
                Some(position) => client.heard.remove(position),
                None => return starts.recv().await.unwrap(),
            };
        }
    };
    tokio::time::timeout(LIMIT, again).await.expect("there is a place");
}

#[tokio::test]
async fn a_huge_result_arrives() {
    let tools = one("huge", |_, _| async { Ok(ToolOutput::text("x".repeat(20 << 20))) });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await;
    let response = client.call("huge", json!({})).await;
    assert_eq!(text(&response).len(), 20 << 20);
}

#[tokio::test]
async fn short_state_key_fails_when_serving_starts() {
    let server = McpServer::new(neuron_tool::ToolRegistry::new()).with_state_key("tiny-k3y");
    let (_, theirs) = tokio::io::duplex(1);
    let (input, output) = tokio::io::split(theirs);
    let error = server.serve_io(input, output).await.unwrap_err().to_string();
    assert!(error.contains("at least 32 bytes") && !error.contains("tiny-k3y"), "{error}");
}
