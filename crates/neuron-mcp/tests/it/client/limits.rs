//! Tests of timeouts, progress, cancellation, and lost connections.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpCancelled, McpClient, McpError,
    McpTimeout,
};
use neuron_types::{ProgressReporter, ToolContext};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connected;
use crate::script::{Script, said, text};

/// Returns the timeout inside an error. Panics if the error is not a timeout.
fn timeout(error: McpError) -> McpTimeout {
    match error {
        McpError::Other(error) => error.downcast_ref::<McpTimeout>().expect("a timeout").clone(),
        error => panic!("{error}"),
    }
}

/// Waits until the client sends a cancellation of the request `request`.
async fn told_of_cancellation(server: &mut Script, request: &Value) {
    let told = server.expect("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], request["id"]);
}

/// Sends a progress notification for the tool call `call` to the client.
async fn progress(server: &mut Script, call: &Value, progress: f64) {
    let token = &call["params"]["_meta"]["progressToken"];
    let params = json!({ "progressToken": token, "progress": progress, "message": "working" });
    server.notify("notifications/progress", params).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_times_out_and_is_cancelled() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let started = Instant::now();
    let serving = async {
        let call = server.expect("tools/call").await;
        told_of_cancellation(&mut server, &call).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("hang", Value::Null), serving);
    let error = timeout(output.unwrap_err());
    assert_eq!((error.method.as_str(), error.limit), ("tools/call", Duration::from_secs(60)));
    assert_eq!(started.elapsed().as_secs(), 60);
    assert!(!client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_timeout_up_to_the_maximum() {
    let builder = McpClient::builder()
        .request_timeout(Duration::from_secs(10))
        .max_request_time(Duration::from_secs(35));
    let (client, mut server) = connected(builder).await;
    let started = Instant::now();
    let serving = async {
        let call = server.expect("tools/call").await;
        for step in 0..4 {
            tokio::time::sleep(Duration::from_secs(8)).await;
            progress(&mut server, &call, f64::from(step)).await;
        }
        told_of_cancellation(&mut server, &call).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("slow", Value::Null), serving);
    assert_eq!(timeout(output.unwrap_err()).limit.as_secs(), 35);
    assert_eq!(started.elapsed().as_secs(), 35);
}

#[tokio::test(start_paused = true)]
async fn maximum_durations_disable_the_timeouts() {
    let builder =
        McpClient::builder().request_timeout(Duration::MAX).max_request_time(Duration::MAX);
    let (client, mut server) = connected(builder).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        server.reply(&call, said("done")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("slow", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "done");
}

/// Records each reported progress value.
#[derive(Default)]
struct Seen(Mutex<Vec<f64>>);

impl ProgressReporter for Seen {
    fn report(&self, progress: f64, _: Option<f64>, message: Option<&str>) {
        assert_eq!(message, Some("working"));
        self.0.lock().unwrap().push(progress);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_reported_in_order_before_the_result() {
    let (client, mut server) = connected(McpClient::builder()).await;
    for _ in 0..20 {
        let seen = Arc::new(Seen::default());
        let ctx = ToolContext { progress_reporter: Some(seen.clone()), ..Default::default() };
        let serving = async {
            let call = server.expect("tools/call").await;
            for step in 0..50 {
                progress(&mut server, &call, f64::from(step)).await;
            }
            server.reply(&call, said("done")).await;
            // Progress after the response is dropped.
            progress(&mut server, &call, 1000.0).await;
        };
        let (output, ()) = tokio::join!(client.call_tool_in("slow", Value::Null, &ctx), serving);
        output.unwrap();
        let expected: Vec<f64> = (0..50).map(f64::from).collect();
        assert_eq!(*seen.0.lock().unwrap(), expected);
    }
}

/// A progress reporter that panics.
struct Panics;

impl ProgressReporter for Panics {
    fn report(&self, _: f64, _: Option<f64>, _: Option<&str>) {
        panic!("a fault of the user");
    }
}

#[tokio::test]
async fn panicking_progress_reporter_does_not_fail_the_call() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let ctx = ToolContext { progress_reporter: Some(Arc::new(Panics)), ..Default::default() };
    let serving = async {
        let call = server.expect("tools/call").await;
        progress(&mut server, &call, 1.0).await;
        server.reply(&call, said("done")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_in("slow", Value::Null, &ctx), serving);
    assert_eq!(text(&output.unwrap()), "done");
}

#[tokio::test]
async fn cancelled_call_ends_immediately() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let ctx = ToolContext::default();
    let serving = async {
        let call = server.expect("tools/call").await;
        ctx.cancellation_token.cancel();
        call
    };
    let (output, call) = tokio::join!(client.call_tool_in("hang", Value::Null, &ctx), serving);
    let McpError::Other(error) = output.unwrap_err() else { panic!("another error") };
    assert!(error.is::<McpCancelled>(), "{error}");
    told_of_cancellation(&mut server, &call).await;
    // The late response to the cancelled call is ignored.
    server.reply(&call, said("late")).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        server.reply(&call, said("next")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "next");
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_the_server() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let call = tokio::select! {
        _ = client.call_tool_json("hang", Value::Null) => panic!("nobody answers"),
        call = server.expect("tools/call") => call,
    };
    told_of_cancellation(&mut server, &call).await;
}

#[tokio::test]
async fn lost_connection_fails_pending_calls() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = async move {
        server.expect("tools/call").await;
        drop(server);
    };
    let (output, ()) = tokio::join!(client.call_tool_json("crash", Value::Null), serving);
    let error = output.unwrap_err();
    assert!(matches!(&error, McpError::Transport(text) if text.contains("tools/call")), "{error}");
    assert!(client.is_closed());
    // A connection over plain streams cannot be reopened.
    let error = client.ping().await.unwrap_err();
    assert!(matches!(&error, McpError::Transport(_)), "{error}");
}

/// An elicitation handler that accepts after one hour.
struct Slow;

impl ElicitationHandler for Slow {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(ElicitationResponse::Accept(json!({ "name": "Ann" })))
    }
}

#[tokio::test(start_paused = true)]
async fn elicitation_pauses_the_request_timeout() {
    let (client, mut server) = connected(McpClient::builder().elicitation(Slow)).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let params = json!({ "message": "Who?", "requestedSchema": schema });
        server.ask("q1", "elicitation/create", params).await;
        let answer = server.next().await.unwrap();
        assert_eq!(answer["id"], "q1");
        assert_eq!(answer["result"]["content"], json!({ "name": "Ann" }), "{answer}");
        // After the client's response, the request timeout of 60 seconds starts again.
        tokio::time::sleep(Duration::from_secs(59)).await;
        server.reply(&call, said("Ann")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("who", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "Ann");
}

#[tokio::test(start_paused = true)]
async fn set_roots_times_out_if_the_server_does_not_read() {
    let (client, server) = connected(McpClient::builder().roots(vec![])).await;
    // More than the pipe holds, so that the client cannot finish writing the call.
    let arguments = json!({ "much": "x".repeat(2 * 1024 * 1024) });
    let (call, told) =
        tokio::join!(client.call_tool_json("hang", arguments), client.set_roots(vec![]));
    timeout(call.unwrap_err());
    let error = timeout(told.unwrap_err());
    assert_eq!(error.method, "notifications/roots/list_changed");
    assert_eq!(error.limit, Duration::from_secs(60));
    drop(server);
}

#[tokio::test]
async fn set_roots_fails_when_the_client_is_closed() {
    let (client, server) = connected(McpClient::builder().roots(vec![])).await;
    let arguments = json!({ "much": "x".repeat(2 * 1024 * 1024) });
    let (call, told, ()) = tokio::join!(
        client.call_tool_json("hang", arguments),
        client.set_roots(vec![]),
        client.close()
    );
    assert!(matches!(call.unwrap_err(), McpError::Transport(_)));
    assert!(matches!(told.unwrap_err(), McpError::Transport(_)));
    drop(server);
}
