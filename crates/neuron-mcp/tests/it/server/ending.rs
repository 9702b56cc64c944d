//! Tests of the end of a connection. They check the last messages of the server, and that the server does not wait for
//! a client forever.

use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{LogLevel, McpServer};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolOutput};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Client, LIMIT, add, code, one, peer, text};

/// Length of a text that exceeds the buffer of the stream between server and client, in bytes.
const LONG: usize = 1 << 20;

/// Returns a server whose tool `long` has a result of [`LONG`] bytes, and a signal that the tool has run.
fn long() -> (McpServer, Arc<Notify>) {
    let ran = Arc::new(Notify::new());
    let runs = ran.clone();
    let tools = one("long", move |_, _| {
        runs.notify_one();
        async { Ok(ToolOutput::text("x".repeat(LONG))) }
    });
    (McpServer::new(tools), ran)
}

/// Waits until the server task has ended.
async fn ended(client: &mut Client) {
    let ended = tokio::time::timeout(LIMIT, &mut client.serving).await;
    ended.expect("the server ends").expect("without a panic");
}

/// Returns all messages that the client has not processed yet, up to the end of the stream.
async fn rest(client: &mut Client) -> Vec<Value> {
    let mut rest: Vec<Value> = client.heard.drain(..).collect();
    while let Some(message) = client.read().await {
        rest.push(message);
    }
    rest
}

#[tokio::test(start_paused = true)]
async fn end_of_input_does_not_wait_for_a_client_that_does_not_read() {
    let (server, ran) = long();
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    client.begin("tools/call", json!({ "name": "long" })).await;
    ran.notified().await;
    client.output.shutdown().await.unwrap();
    ended(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_client_that_does_not_read() {
    let (server, ran) = long();
    let shutdown = CancellationToken::new();
    let server = server.with_shutdown(shutdown.clone());
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    client.begin("tools/call", json!({ "name": "long" })).await;
    ran.notified().await;
    shutdown.cancel();
    ended(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_the_handshake_does_not_wait_for_the_client() {
    let shutdown = CancellationToken::new();
    let server = McpServer::new(ToolRegistry::new())
        .with_instructions("x".repeat(LONG))
        .with_shutdown(shutdown.clone());
    let mut client = Client::connect(&server);
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "raw", "version": "1" },
    });
    client.begin("initialize", params).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    shutdown.cancel();
    ended(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_server_is_freed_while_its_client_does_not_read() {
    let (server, ran) = long();
    let left = Arc::new(());
    let mut context = ToolContext::default();
    context.extensions.insert(left.clone());
    let server = server.with_tool_context(context);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    drop(server);
    client.begin("tools/call", json!({ "name": "long" })).await;
    ran.notified().await;
    client.serving.abort();
    let gone = async {
        while Arc::strong_count(&left) > 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.expect("the server is gone");
}

/// Returns a registry with the tool `talk`. The tool logs a message and reports progress once per second, for three
/// seconds.
fn talking() -> ToolRegistry {
    one("talk", |_, ctx: ToolContext| async move {
        for step in 0..3 {
            peer(&ctx).log(LogLevel::Info, None, format!("step {step}"));
            ctx.progress_reporter.as_ref().unwrap().report(f64::from(step), None, None);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(ToolOutput::text("done"))
    })
}

#[tokio::test(start_paused = true)]
async fn call_with_progress_is_answered_after_end_of_input() {
    let mut client = Client::older(&McpServer::new(talking()), "2025-11-25", json!({})).await;
    let params = json!({ "name": "talk", "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params).await;
    client.output.shutdown().await.unwrap();
    let began = Instant::now();
    assert_eq!(text(&client.response(id).await), "done");
    for step in 0..3 {
        let logged = client.hear("notifications/message").await;
        assert_eq!(logged["params"]["data"], format!("step {step}"));
        let progress = client.hear("notifications/progress").await;
        assert_eq!(progress["params"]["progress"], f64::from(step));
    }
    assert_eq!(rest(&mut client).await, Vec::<Value>::new());
    ended(&mut client).await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn slow_call_is_cancelled_and_answered_after_end_of_input() {
    let tools = one("wait", |_, ctx: ToolContext| async move {
        ctx.cancellation_token.cancelled().await;
        peer(&ctx).log(LogLevel::Info, None, "cancelled");
        Ok(ToolOutput::text("as far as it came"))
    });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await;
    let id = client.begin("tools/call", json!({ "name": "wait" })).await;
    client.output.shutdown().await.unwrap();
    let began = Instant::now();
    assert_eq!(text(&client.response(id).await), "as far as it came");
    client.hear("notifications/message").await;
    ended(&mut client).await;
    let took = began.elapsed().as_secs();
    assert!((5..=6).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn end_of_input_does_not_wait_for_a_cancelled_call() {
    let tools = one("wait", |_, _| std::future::pending());
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await;
    let id = client.begin("tools/call", json!({ "name": "wait" })).await;
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    });
    client.send(cancelled).await;
    client.output.shutdown().await.unwrap();
    let began = Instant::now();
    ended(&mut client).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_a_pending_question_and_answers_the_call() {
    let mut tools = talking();
    add(&mut tools, "ask", |_, ctx| async move {
        peer(&ctx).roots("roots").await?;
        Ok(ToolOutput::text("answered"))
    });
    let shutdown = CancellationToken::new();
    let server = McpServer::new(tools).with_shutdown(shutdown.clone());
    let mut client = Client::older(&server, "2025-11-25", json!({ "roots": {} })).await;
    let ask = client.begin("tools/call", json!({ "name": "ask" })).await;
    let asked = client.hear("roots/list").await;
    let params = json!({ "name": "talk", "_meta": { "progressToken": "p" } });
    let talk = client.begin("tools/call", params).await;
    client.hear("notifications/message").await;
    shutdown.cancel();
    let response = client.response(ask).await;
    assert!(response["error"].is_object() || response["result"]["isError"] == true, "{response}");
    let cancelled = client.hear("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert_eq!(code(&client.response(talk).await), -32603);
    ended(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn question_fails_after_end_of_input() {
    let tools = one("ask", |_, ctx| async move {
        let first = peer(&ctx).roots("first").await.unwrap_err().to_string();
        let second = peer(&ctx).roots("second").await.unwrap_err().to_string();
        assert_eq!(first, second);
        Ok(ToolOutput::text(first))
    });
    let mut client =
        Client::older(&McpServer::new(tools), "2025-11-25", json!({ "roots": {} })).await;
    let id = client.begin("tools/call", json!({ "name": "ask" })).await;
    let asked = client.hear("roots/list").await;
    client.output.shutdown().await.unwrap();
    let began = Instant::now();
    let response = client.response(id).await;
    assert!(text(&response).contains("cannot respond any more"), "{response}");
    let cancelled = client.hear("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert_eq!(rest(&mut client).await, Vec::<Value>::new());
    ended(&mut client).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn subscription_does_not_delay_the_end_of_the_server() {
    let mut client = Client::modern(&McpServer::new(talking()), json!({}));
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let id = client.begin("subscriptions/listen", params).await;
    client.hear("notifications/subscriptions/acknowledged").await;
    client.output.shutdown().await.unwrap();
    let began = Instant::now();
    assert!(client.response(id).await["result"].is_object());
    ended(&mut client).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn server_stops_reading_from_a_client_that_does_not_read() {
    const CALLS: usize = 120;
    let (server, _) = long();
    let client = Client::older(&server, "2025-11-25", json!({})).await;
    let mut lines = Vec::new();
    for id in 0..CALLS {
        let params = json!({ "name": "long", "arguments": { "padding": " ".repeat(8 << 10) } });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        lines.extend(format!("{call}\n").into_bytes());
    }
    let Client { mut output, mut input, .. } = client;
    let write = output.write_all(&lines);
    tokio::pin!(write);
    let written = tokio::time::timeout(Duration::from_secs(3600), &mut write).await;
    assert!(written.is_err(), "all was read");

    // As soon as the client reads, the server sends the queued results and reads further calls.
    let read = async {
        for _ in 0..CALLS {
            assert!(input.next_line().await.unwrap().unwrap().len() > LONG);
        }
    };
    let both = futures_util::future::join(write, read);
    tokio::time::timeout(LIMIT, both).await.expect("it goes on").0.unwrap();
}
