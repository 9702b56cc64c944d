//! Tests of tasks that a server creates for tool calls (extension `io.modelcontextprotocol/tasks`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpCancelled, McpClient,
    McpClientBuilder, McpError, McpRoot, McpTimeout, McpToolBridge,
};
use neuron_types::{ProgressReporter, ToolContext, ToolError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{connected, connected_to_modern};
use crate::script::{Script, said, text};

/// Returns a task in this state, with the fields of `more`.
fn task(status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t1", "status": status, "ttlMs": null,
        "createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z",
        "pollIntervalMs": 500,
    });
    let fields = task.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    task
}

/// Responds to the next tool call with a task in the state `working`.
async fn create(server: &mut Script) -> Value {
    let call = server.expect("tools/call").await;
    server.reply(&call, task("working", json!({ "resultType": "task" }))).await;
    call
}

/// Responds to the next request for the state of the task.
async fn report(server: &mut Script, state: Value) {
    let get = server.expect("tasks/get").await;
    assert_eq!(get["params"]["taskId"], "t1", "{get}");
    server.reply(&get, state).await;
}

/// Connects a client to a modern server that supports tasks.
async fn connect(builder: McpClientBuilder) -> (McpClient, Script) {
    let capabilities =
        json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    connected_to_modern(builder, capabilities).await
}

/// Calls a tool whose task has these states. Returns the result.
async fn follow(states: impl IntoIterator<Item = Value>) -> Result<String, McpError> {
    let (client, mut server) = connect(McpClient::builder()).await;
    let serving = async {
        create(&mut server).await;
        for state in states {
            report(&mut server, state).await;
        }
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    output.map(|output| format!("{} {}", output.is_error, text(&output)))
}

/// Records each progress report.
#[derive(Default)]
struct Seen(Mutex<Vec<(f64, Option<String>)>>);

impl ProgressReporter for Seen {
    fn report(&self, progress: f64, _: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push((progress, message.map(str::to_owned)));
    }
}

#[tokio::test(start_paused = true)]
async fn task_is_followed_to_its_result() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let seen = Arc::new(Seen::default());
    let ctx = ToolContext { progress_reporter: Some(seen.clone()), ..Default::default() };
    let serving = async {
        let call = create(&mut server).await;
        let capabilities = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(capabilities["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
        let token = &call["params"]["_meta"]["progressToken"];
        let progress = json!({ "progressToken": token, "progress": 7 });
        server.notify("notifications/progress", progress).await;
        // The first request comes after 500 ms, and each other after the time that the previous response suggests.
        let mut before = Instant::now();
        for (suggested, waited) in
            [(json!(0), 500), (json!(1), 1000), (json!(-5), 100), (json!("x"), 1000)]
        {
            let state = json!({ "pollIntervalMs": suggested, "statusMessage": "reading" });
            report(&mut server, task("working", state)).await;
            assert_eq!(before.elapsed().as_millis(), waited, "{suggested}");
            before = Instant::now();
        }
        report(&mut server, task("working", json!({ "pollIntervalMs": 999_999_999 }))).await;
        before = Instant::now();
        report(&mut server, task("completed", json!({ "result": said("done") }))).await;
        assert_eq!(before.elapsed(), Duration::from_secs(60));
    };
    let (output, ()) = tokio::join!(client.call_tool_in("work", Value::Null, &ctx), serving);
    assert_eq!(text(&output.unwrap()), "done");
    let seen = seen.0.lock().unwrap().clone();
    assert_eq!(seen.first(), Some(&(7.0, None)));
    assert_eq!(seen.get(1), Some(&(7.0, Some("reading".to_owned()))), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn notification_about_a_task_causes_a_request_for_its_state() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let serving = async {
        create(&mut server).await;
        report(&mut server, task("working", json!({ "pollIntervalMs": 30_000 }))).await;
        let before = Instant::now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let done = task("completed", json!({ "result": said("done") }));
        server.notify("notifications/tasks", done.clone()).await;
        report(&mut server, done).await;
        assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "done");
}

#[tokio::test(start_paused = true)]
async fn ends_of_a_task_are_the_ends_of_the_call() {
    let completed = |result: Value| task("completed", json!({ "result": result }));
    assert_eq!(follow([completed(said("ok"))]).await.unwrap(), "false ok");
    // A result without content is an empty result.
    assert_eq!(follow([completed(json!({}))]).await.unwrap(), "false ");
    let failed = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
    assert_eq!(follow([completed(failed)]).await.unwrap(), "true no");

    let error = json!({ "error": { "code": -32603, "message": "out of memory" } });
    let error = follow([task("failed", error)]).await.unwrap_err();
    assert_eq!(error.to_string(), "tool call failed: out of memory (-32603)");
    let error = follow([task("cancelled", json!({}))]).await.unwrap_err();
    let McpError::Other(error) = error else { panic!("{error}") };
    assert!(error.is::<McpCancelled>(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn result_without_content_is_an_empty_result() {
    let (client, mut server) = connect(McpClient::builder()).await;
    for result in [json!({}), json!({ "resultType": "complete" }), json!({ "_meta": { "a": 1 } })] {
        let serving = async {
            let call = server.expect("tools/call").await;
            server.reply(&call, result).await;
        };
        let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
        assert_eq!(output.unwrap().content, []);
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_tasks_are_errors_that_say_that_the_tool_began() {
    let began = "tool call failed: the tool `work` began, but the server's task cannot be read: ";
    let states = [
        (task("sleeping", json!({})), r#"its status is "sleeping""#),
        (task("working", json!({ "status": 3 })), "its status is 3"),
        (task("working", json!({ "taskId": "" })), "it has no `taskId`"),
        (task("completed", json!({})), "it is completed and has no `result`"),
        (task("failed", json!({ "error": 1 })), "its member `error` is invalid"),
        (task("input_required", json!({})), "its member `inputRequests` is invalid"),
        (json!({}), "it has no `taskId`"),
    ];
    for (state, reason) in states {
        let error = follow([state]).await.unwrap_err().to_string();
        assert!(error.starts_with(began) && error.contains(reason), "{error}");
    }
    let error = follow([task("completed", json!({ "result": { "odd": 1 } }))]).await.unwrap_err();
    assert!(error.to_string().contains("the tool `work` ran"), "{error}");
}

#[tokio::test]
async fn created_task_without_an_id_is_an_error() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        server.reply(&call, json!({ "resultType": "task", "status": "working" })).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    assert!(error.contains("the tool `work` began") && error.contains("`taskId`"), "{error}");
}

#[tokio::test]
async fn task_of_an_older_version_is_an_error() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let (output, _) = tokio::join!(client.call_tool_json("work", Value::Null), create(&mut server));
    let error = output.unwrap_err().to_string();
    assert!(error.contains("tasks were not requested"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn endless_task_ends_at_the_time_limit_and_is_cancelled() {
    let limit = Duration::from_secs(90);
    let (client, mut server) = connect(McpClient::builder().max_request_time(limit)).await;
    let started = Instant::now();
    let serving = async {
        create(&mut server).await;
        loop {
            let request = server.next().await.unwrap();
            if request["method"] == "tasks/cancel" {
                assert_eq!(request["params"]["taskId"], "t1");
                break;
            }
            if request["method"] == "tasks/get" {
                server.reply(&request, task("working", json!({}))).await;
            }
        }
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    let McpError::Other(error) = output.unwrap_err() else { panic!("another error") };
    let error = error.downcast::<McpTimeout>().unwrap();
    assert_eq!((error.method.as_str(), error.limit), ("tools/call", limit));
    assert_eq!(started.elapsed(), limit);
}

/// Waits until the client cancels the task.
async fn told_of_cancellation(server: &mut Script) {
    loop {
        let request = server.next().await.expect("the client is there");
        if request["method"] == "tasks/cancel" {
            assert_eq!(request["params"]["taskId"], "t1");
            server.reply(&request, json!({ "resultType": "complete" })).await;
            return;
        }
    }
}

#[tokio::test]
async fn cancelled_or_dropped_call_cancels_the_task() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let ctx = ToolContext::default();
    let serving = async {
        create(&mut server).await;
        server.expect("tasks/get").await;
        ctx.cancellation_token.cancel();
    };
    let (output, ()) = tokio::join!(client.call_tool_in("work", Value::Null, &ctx), serving);
    let McpError::Other(error) = output.unwrap_err() else { panic!("another error") };
    assert_eq!(error.to_string(), "tools/call was cancelled");
    told_of_cancellation(&mut server).await;

    let serving = async {
        create(&mut server).await;
        report(&mut server, task("working", json!({}))).await;
    };
    tokio::select! {
        _ = client.call_tool_json("work", Value::Null) => panic!("the task has not ended"),
        () = serving => {}
    }
    told_of_cancellation(&mut server).await;
}

// The SDK drops the response to a cancelled request, and the task went on.
#[tokio::test]
async fn task_that_is_created_for_a_cancelled_call_is_cancelled() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let mut call = None;
    tokio::select! {
        _ = client.call_tool_json("work", Value::Null) => panic!("the call has not ended"),
        () = async { call = Some(server.expect("tools/call").await) } => {}
    }
    server.expect("notifications/cancelled").await;
    let created = task("working", json!({ "resultType": "task" }));
    server.reply(&call.unwrap(), created).await;
    told_of_cancellation(&mut server).await;
}

// The connection was closed before the cancellation was sent.
#[tokio::test]
async fn close_after_a_dropped_call_cancels_the_task() {
    let (client, mut server) = connect(McpClient::builder()).await;
    tokio::select! {
        _ = client.call_tool_json("work", Value::Null) => panic!("the task has not ended"),
        () = async {
            create(&mut server).await;
            server.expect("tasks/get").await;
        } => {}
    }
    tokio::join!(client.close(), told_of_cancellation(&mut server));
}

// The call is not polled while the client is closed.
#[tokio::test]
async fn close_cancels_the_task_of_a_suspended_call() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let mut call = std::pin::pin!(client.call_tool_json("work", Value::Null));
    tokio::select! {
        _ = &mut call => panic!("the task has not ended"),
        () = async {
            create(&mut server).await;
            server.expect("tasks/get").await;
        } => {}
    }
    tokio::join!(client.close(), told_of_cancellation(&mut server));
    assert!(call.await.unwrap_err().to_string().contains("the client is closed"));
}

#[tokio::test(start_paused = true)]
async fn forgotten_task_says_that_the_tool_began() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let client = Arc::new(client);
    let serving = async {
        let list = server.expect("tools/list").await;
        let tool = json!({ "name": "work", "inputSchema": { "type": "object" } });
        server.reply(&list, json!({ "tools": [tool] })).await;
        create(&mut server).await;
        let get = server.expect("tasks/get").await;
        server.refuse(&get, -32602, "Failed to retrieve task: Task not found").await;
    };
    let calling = async {
        let tools = McpToolBridge::discover(&client).await.unwrap();
        tools[0].call_dyn(json!({}), &ToolContext::default()).await
    };
    let (output, ()) = tokio::join!(calling, serving);
    let error = output.unwrap_err();
    // This error must not look like an unknown tool.
    assert!(matches!(error, ToolError::ExecutionFailed(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the tool `work` began, but its result is lost"), "{text}");
}

// One slow response cancelled the whole task.
#[tokio::test(start_paused = true)]
async fn request_for_the_state_is_repeated_after_a_timeout() {
    let builder = McpClient::builder().request_timeout(Duration::from_secs(10));
    let (client, mut server) = connect(builder).await;
    let serving = async {
        create(&mut server).await;
        server.expect("tasks/get").await;
        server.expect("notifications/cancelled").await;
        report(&mut server, task("completed", json!({ "result": said("done") }))).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "done");

    let serving = async {
        create(&mut server).await;
        told_of_cancellation(&mut server).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    let began = "the tool `work` began, but its result is lost, because its task `t1` cannot be \
                 followed: the server did not answer tasks/get within 10s";
    assert!(error.contains(began), "{error}");
}

#[tokio::test]
async fn lost_connection_says_that_the_tool_may_still_run() {
    let (client, mut server) = connect(McpClient::builder()).await;
    let serving = async move {
        create(&mut server).await;
        drop(server);
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    assert!(error.contains("the tool `work` began, and may still run as the task `t1`"), "{error}");
}

/// An elicitation handler that accepts after two hours, or never responds.
struct Person;

impl ElicitationHandler for Person {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, .. } = request else { panic!("no form") };
        if message == "never" {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_secs(7200)).await;
        Ok(ElicitationResponse::Accept(json!({ "name": message })))
    }
}

/// Returns the state of a task that requires the response to a form under the key `key`, and the roots.
fn asks(key: &str, message: &str) -> Value {
    let params =
        json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } });
    let asked = json!({
        key: { "method": "elicitation/create", "params": params },
        format!("{key}-roots"): { "method": "roots/list", "params": {} },
    });
    task("input_required", json!({ "inputRequests": asked }))
}

fn with_person() -> McpClientBuilder {
    McpClient::builder().elicitation(Person).roots(vec![McpRoot::new("file:///work")])
}

#[tokio::test(start_paused = true)]
async fn required_input_is_sent_once() {
    let (client, mut server) = connect(with_person()).await;
    let serving = async {
        create(&mut server).await;
        for (key, name) in [("a", "Ann"), ("b", "Bob")] {
            report(&mut server, asks(key, name)).await;
            let update = server.expect("tasks/update").await;
            assert_eq!(update["params"]["taskId"], "t1");
            let responses = &update["params"]["inputResponses"];
            assert_eq!(responses[key]["content"], json!({ "name": name }), "{update}");
            assert_eq!(responses[format!("{key}-roots")]["roots"][0]["uri"], "file:///work");
            server.reply(&update, json!({ "resultType": "complete" })).await;
            // The server has not handled the responses yet. The user is not asked again.
            report(&mut server, asks(key, name)).await;
        }
        report(&mut server, task("completed", json!({ "result": said("hello") }))).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test(start_paused = true)]
async fn number_of_requests_for_input_is_limited() {
    let (client, mut server) = connect(with_person()).await;
    let serving = async {
        create(&mut server).await;
        for round in 0..10 {
            report(&mut server, asks(&round.to_string(), "Ann")).await;
            let update = server.expect("tasks/update").await;
            server.reply(&update, json!({})).await;
        }
        report(&mut server, asks("b", "Ann")).await;
        told_of_cancellation(&mut server).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("work", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    assert!(error.contains("more than 10 rounds"), "{error}");
}

#[tokio::test]
async fn cancellation_and_close_end_an_open_form() {
    for closes in [false, true] {
        let (client, mut server) = connect(with_person()).await;
        let ctx = ToolContext::default();
        let serving = async {
            create(&mut server).await;
            report(&mut server, asks("a", "never")).await;
            match closes {
                true => {
                    tokio::join!(client.close(), told_of_cancellation(&mut server));
                }
                false => ctx.cancellation_token.cancel(),
            }
        };
        let (output, ()) = tokio::join!(client.call_tool_in("work", Value::Null, &ctx), serving);
        let error = output.unwrap_err().to_string();
        let expected = if closes { "the client is closed" } else { "tools/call was cancelled" };
        assert!(error.contains(expected), "{error}");
    }
}
