//! Tests of tool calls that become tasks (extension `io.modelcontextprotocol/tasks`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_mcp::{
    ElicitationRequest, ElicitationResponse, InputAnswers, McpPeer, McpServer, McpTask,
    McpTaskState, McpTasks, TaskSource,
};
use neuron_tool::ToolRegistry;
use neuron_types::{
    PendingApproval, PendingCall, ResumedApproval, ToolCall, ToolError, ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::{Client, add, code, one, peer, text};

fn capabilities() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// Creates a server whose calls become tasks at once.
fn server(tools: ToolRegistry) -> McpServer {
    McpServer::new(tools).with_tasks(at_once())
}

fn at_once() -> McpTasks {
    McpTasks::new().with_rule(|_| Some(Duration::ZERO)).with_poll_interval(Duration::from_millis(5))
}

fn modern(server: &McpServer) -> Client {
    Client::modern(server, capabilities())
}

/// Calls the tool. Returns the id of the task.
async fn begin(client: &mut Client, tool: &str) -> String {
    let response = client.call(tool, json!({})).await;
    let result = &response["result"];
    assert_eq!(result["resultType"], "task", "{response}");
    assert_eq!(result["pollIntervalMs"], 5, "{response}");
    result["taskId"].as_str().unwrap().to_owned()
}

async fn get(client: &mut Client, id: &str) -> Value {
    client.request("tasks/get", json!({ "taskId": id })).await
}

/// Requests the state of the task until it has this status. Returns the state.
async fn wait_for(client: &mut Client, id: &str, status: &str) -> Value {
    for _ in 0..2000 {
        let state = get(client, id).await["result"].clone();
        if state["status"] == status {
            assert_eq!((&state["resultType"], &state["taskId"]), (&json!("complete"), &json!(id)));
            return state;
        }
        assert!(state["status"] == "working" || state["status"] == "input_required", "{state}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the task does not get the status {status}")
}

async fn update(client: &mut Client, id: &str, responses: Value) -> Value {
    client.request("tasks/update", json!({ "taskId": id, "inputResponses": responses })).await
}

/// Returns a tool that reports progress and waits until `release` is notified.
fn waiting(release: &Arc<Notify>) -> ToolRegistry {
    let release = release.clone();
    one("wait", move |_, ctx| {
        let release = release.clone();
        async move {
            ctx.progress_reporter.as_ref().unwrap().report(1.0, None, Some("half way"));
            release.notified().await;
            Ok(ToolOutput::text("waited"))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn long_call_becomes_a_task() {
    let release = Arc::new(Notify::new());
    let mut client = modern(&server(waiting(&release)));
    let id = begin(&mut client, "wait").await;
    assert!(id.len() >= 32, "{id}");
    let state = wait_for(&mut client, &id, "working").await;
    assert_eq!(state["ttlMs"], 3_600_000);
    assert!(state["createdAt"].as_str().unwrap().ends_with('Z'), "{state}");
    while get(&mut client, &id).await["result"]["statusMessage"] != "half way" {
        tokio::task::yield_now().await;
    }
    release.notify_one();
    let state = wait_for(&mut client, &id, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "waited", "{state}");
    // The client may request the result again.
    wait_for(&mut client, &id, "completed").await;
    assert_eq!(code(&get(&mut client, "other").await), -32602);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn quick_call_and_call_without_a_rule_return_results() {
    let tools = one("quick", |_, _| async { Ok(ToolOutput::text("done")) });
    for tasks in [McpTasks::new().with_rule(|_| Some(Duration::from_secs(600))), McpTasks::new()] {
        let mut client = modern(&McpServer::new(tools.clone()).with_tasks(tasks));
        assert_eq!(text(&client.call("quick", json!({})).await), "done");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn client_without_the_extension_gets_no_task() {
    let tools = one("quick", |_, _| async { Ok(ToolOutput::text("done")) });
    let with_tasks = server(tools.clone());
    let mut client = Client::modern(&with_tasks, json!({}));
    assert_eq!(text(&client.call("quick", json!({})).await), "done");
    assert_eq!(code(&get(&mut client, "any").await), -32021);
    client.close().await;

    // A server without tasks does not know the methods.
    let mut client = modern(&McpServer::new(tools.clone()));
    assert_eq!(code(&get(&mut client, "any").await), -32601);
    client.close().await;

    // The versions with a handshake do not have the extension.
    let mut client = Client::connect(&with_tasks);
    let result = client.initialize("2025-11-25", capabilities()).await;
    assert_eq!(result["capabilities"].get("extensions"), None, "{result}");
    assert_eq!(text(&client.call("quick", json!({})).await), "done");
    assert_eq!(code(&get(&mut client, "any").await), -32601);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn server_announces_the_extension() {
    let mut client = modern(&server(ToolRegistry::new()));
    let response = client.request("server/discover", json!({})).await;
    let extensions = &response["result"]["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/tasks"], json!({}), "{response}");
    client.close().await;
}

/// Returns a tool that never returns, and a receiver whose sender is dropped with its call.
fn hanging() -> (ToolRegistry, oneshot::Receiver<()>) {
    let (dropped, is_dropped) = oneshot::channel();
    let dropped = Arc::new(std::sync::Mutex::new(Some(dropped)));
    let tools = one("hang", move |_, _| {
        let dropped = dropped.lock().unwrap().take();
        async move {
            let _dropped = dropped;
            std::future::pending().await
        }
    });
    (tools, is_dropped)
}

// Only calls without a response ended with their connection.
#[tokio::test(start_paused = true)]
async fn task_ends_with_its_connection() {
    for closes in [true, false] {
        let (tools, is_dropped) = hanging();
        let mut client = modern(&server(tools));
        begin(&mut client, "hang").await;
        match closes {
            true => client.close().await,
            false => client.serving.abort(),
        }
        let ended = tokio::time::timeout(Duration::from_secs(30), is_dropped).await;
        assert!(ended.expect("the tool ends").is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_task_drops_the_tool() {
    let (tools, mut is_dropped) = hanging();
    let mut client = modern(&server(tools));
    let id = begin(&mut client, "hang").await;
    assert!(is_dropped.try_recv().is_err());
    let response = client.request("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(response["result"], json!({ "resultType": "complete" }), "{response}");
    wait_for(&mut client, &id, "cancelled").await;
    assert!(is_dropped.await.is_err(), "the sender was dropped with the tool");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn call_that_is_cancelled_before_it_is_a_task_drops_the_tool() {
    let (dropped, is_dropped) = oneshot::channel::<()>();
    let dropped = Arc::new(std::sync::Mutex::new(Some(dropped)));
    let began = Arc::new(Notify::new());
    let begins = began.clone();
    let tools = one("hang", move |_, _| {
        let (dropped, begins) = (dropped.lock().unwrap().take(), begins.clone());
        async move {
            let _dropped = dropped;
            begins.notify_one();
            std::future::pending().await
        }
    });
    let tasks = McpTasks::new().with_rule(|_| Some(Duration::from_secs(600)));
    let mut client = modern(&McpServer::new(tools).with_tasks(tasks));
    let id = client.begin("tools/call", json!({ "name": "hang", "arguments": {} })).await;
    began.notified().await;
    let params = json!({ "requestId": id });
    let method = "notifications/cancelled";
    client.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    assert!(is_dropped.await.is_err(), "the sender was dropped with the tool");
    client.close().await;
}

/// Creates a tool that waits for `release` and then asks for a name.
fn asking(release: &Arc<Notify>) -> ToolRegistry {
    let release = release.clone();
    let has_waited = Arc::new(AtomicUsize::new(0));
    one("greet", move |_, ctx| {
        let (release, has_waited) = (release.clone(), has_waited.clone());
        async move {
            if has_waited.fetch_add(1, Ordering::SeqCst) == 0 {
                release.notified().await;
            }
            let schema = json!({
                "type": "object",
                "properties": { "name": { "type": "string" } },
                "required": ["name"],
            });
            let form = ElicitationRequest::form("Name?", schema);
            match peer(&ctx).elicit("name", form).await? {
                ElicitationResponse::Accept(form) => Ok(ToolOutput::text(form.to_string())),
                _ => Ok(ToolOutput::error("no name")),
            }
        }
    })
}

#[tokio::test(start_paused = true)]
async fn input_of_a_task_is_updated_and_each_key_is_used_once() {
    let release = Arc::new(Notify::new());
    let mut client = modern(&server(asking(&release)));
    let id = begin(&mut client, "greet").await;
    release.notify_one();
    let state = wait_for(&mut client, &id, "input_required").await;
    let asked = state["inputRequests"].as_object().unwrap();
    let (first, request) = asked.iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create", "{state}");
    assert_eq!(request["params"]["message"], "Name?");

    // Unknown keys are ignored.
    let response = update(&mut client, &id, json!({ "other": {} })).await;
    assert_eq!(response["result"], json!({ "resultType": "complete" }), "{response}");
    wait_for(&mut client, &id, "input_required").await;

    // The form lacks the required field, so the tool asks again, under another key.
    update(&mut client, &id, json!({ first: { "action": "accept", "content": {} } })).await;
    let second = loop {
        let state = wait_for(&mut client, &id, "input_required").await;
        let key = state["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        if key != *first {
            break key;
        }
    };
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    update(&mut client, &id, json!({ second: answer })).await;
    let state = wait_for(&mut client, &id, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], r#"{"name":"Ann"}"#);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_task_can_be_cancelled() {
    let release = Arc::new(Notify::new());
    let mut client = modern(&server(asking(&release)));
    let id = begin(&mut client, "greet").await;
    release.notify_one();
    wait_for(&mut client, &id, "input_required").await;
    client.request("tasks/cancel", json!({ "taskId": id })).await;
    wait_for(&mut client, &id, "cancelled").await;
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn missing_capability_fails_the_task() {
    let release = Arc::new(Notify::new());
    let without_forms = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut client = Client::modern(&server(asking(&release)), without_forms);
    let id = begin(&mut client, "greet").await;
    release.notify_one();
    let state = wait_for(&mut client, &id, "failed").await;
    assert_eq!(state["error"]["code"], -32021, "{state}");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn task_expires_after_its_ttl() {
    let release = Arc::new(Notify::new());
    let tasks = at_once().with_ttl(Duration::from_secs(30));
    let server = McpServer::new(waiting(&release)).with_tasks(tasks);
    let mut client = modern(&server);
    let id = begin(&mut client, "wait").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    wait_for(&mut client, &id, "working").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let state = wait_for(&mut client, &id, "failed").await;
    assert_eq!(state["error"]["message"], "the task took more than 30s", "{state}");
    // The end is kept for the same time.
    tokio::time::sleep(Duration::from_secs(28)).await;
    wait_for(&mut client, &id, "failed").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(code(&get(&mut client, &id).await), -32602);
    client.close().await;
}

// The result was removed at once, and clients in JavaScript reject numbers above 2^53 - 1.
#[tokio::test(start_paused = true)]
async fn result_without_a_time_limit_is_kept() {
    let release = Arc::new(Notify::new());
    for (ttl, shown) in [
        (Duration::MAX, Value::Null),
        (Duration::from_millis(1 << 53), Value::Null),
        (Duration::from_secs(1 << 42), json!((1_u64 << 42) * 1000)),
    ] {
        let tasks = at_once().with_ttl(ttl);
        let mut client = modern(&McpServer::new(waiting(&release)).with_tasks(tasks));
        let id = begin(&mut client, "wait").await;
        let state = wait_for(&mut client, &id, "working").await;
        assert_eq!(state["ttlMs"], shown);
        release.notify_one();
        wait_for(&mut client, &id, "completed").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        wait_for(&mut client, &id, "completed").await;
        client.close().await;
    }

    let tasks = McpTasks::new().with_poll_interval(Duration::MAX);
    let mut client = modern(&with_source(&Source::new(), tasks));
    let state = get(&mut client, "stored").await;
    assert_eq!(state["result"]["pollIntervalMs"], (1_u64 << 53) - 1, "{state}");
    assert_eq!(state["result"]["ttlMs"], Value::Null);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn call_is_no_task_if_too_many_tasks_run() {
    let release = Arc::new(Notify::new());
    let tasks = at_once().with_max_tasks(1);
    let mut client = modern(&McpServer::new(waiting(&release)).with_tasks(tasks));
    let first = begin(&mut client, "wait").await;
    let second = client.begin("tools/call", json!({ "name": "wait", "arguments": {} })).await;
    // The second call has started before this request is answered.
    tokio::time::sleep(Duration::from_millis(20)).await;
    wait_for(&mut client, &first, "working").await;
    release.notify_waiters();
    assert_eq!(text(&client.response(second).await), "waited");
    wait_for(&mut client, &first, "completed").await;
    // The next task replaces the result of the first.
    let third = begin(&mut client, "wait").await;
    assert_ne!(first, third);
    assert_eq!(code(&get(&mut client, &first).await), -32602);
    client.close().await;
}

/// Returns the state of a run whose call `pay` and whose agent's call `delete` wait for an approval.
fn pending() -> PendingApproval {
    let call = |id: &str, name: &str| {
        let call = ToolCall { id: id.into(), name: name.into(), input: json!({ "sum": 3 }) };
        PendingCall::new(call, "May it?")
    };
    let inner = PendingApproval::new("inner", vec![call("i", "delete").at("inner", 0, 0, 0)]);
    let mut outer = call("o", "helper");
    outer.nested = Some(Box::new(inner));
    let calls = vec![call("p", "pay").at("run", 0, 0, 0), outer.at("run", 0, 0, 1)];
    PendingApproval::new("run", calls)
}

#[tokio::test(start_paused = true)]
async fn agent_inside_a_task_waits_for_an_approval() {
    let tools = one("agent", |_, ctx| async move {
        let Some(resumed) = ctx.extensions.get::<ResumedApproval>() else {
            return Err(ToolError::ApprovalRequired(Box::new(pending())));
        };
        assert_eq!(resumed.pending, pending());
        pending().check(&resumed.decisions).expect("the decisions fit");
        Ok(ToolOutput::text(serde_json::to_string(&resumed.decisions).unwrap()))
    });
    // The call waits for the approval, so it becomes a task before the grace time has passed.
    let tasks = at_once().with_rule(|_| Some(Duration::from_secs(600)));
    let mut client = modern(&McpServer::new(tools).with_tasks(tasks));
    let id = begin(&mut client, "agent").await;
    let state = wait_for(&mut client, &id, "input_required").await;
    let asked = state["inputRequests"].as_object().unwrap();
    let key = |name: &str| {
        let is_it = |(_, request): &(&String, &Value)| {
            request["params"]["message"].as_str().unwrap().contains(&format!("`{name}`"))
        };
        asked.iter().find(is_it).unwrap().0.clone()
    };
    assert_eq!(asked.len(), 2, "{state}");
    let message = &asked[&key("pay")]["params"]["message"];
    assert_eq!(*message, r#"Approve the call of the tool `pay` with {"sum":3}? May it?"#);
    let denied = json!({ "approve": false, "reason": "not today" });
    let responses = json!({
        key("pay"): { "action": "accept", "content": { "approve": true } },
        key("delete"): { "action": "accept", "content": denied },
    });
    update(&mut client, &id, responses).await;
    let state = wait_for(&mut client, &id, "completed").await;
    let text = state["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("approve") && text.contains("not today"), "{text}");
    client.close().await;
}

/// Returns the keys of the task's requests, once they differ from `known`.
async fn keys(client: &mut Client, id: &str, known: &[String]) -> Vec<String> {
    loop {
        let state = wait_for(client, id, "input_required").await;
        let asked = state["inputRequests"].as_object().unwrap();
        let keys: Vec<String> = asked.keys().cloned().collect();
        if keys != known {
            return keys;
        }
    }
}

// The second update notified the waiting task again, so the next request was answered without a response.
#[tokio::test(start_paused = true)]
async fn repeated_update_does_not_answer_the_next_request() {
    let tools = one("agent", |_, ctx| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let form = ElicitationRequest::form("Name?", json!({ "type": "object", "properties": {} }));
        peer(&ctx).elicit("name", form).await?;
        match ctx.extensions.get::<ResumedApproval>() {
            Some(_) => Ok(ToolOutput::text("approved")),
            None => Err(ToolError::ApprovalRequired(Box::new(pending()))),
        }
    });
    let mut client = modern(&server(tools));
    let id = begin(&mut client, "agent").await;
    let name = keys(&mut client, &id, &[]).await;
    let responses = json!({ &name[0]: { "action": "accept", "content": {} } });
    let params = json!({ "taskId": id, "inputResponses": responses });
    let first = client.begin("tasks/update", params.clone()).await;
    let second = client.begin("tasks/update", params).await;
    client.response(first).await;
    client.response(second).await;
    assert_eq!(keys(&mut client, &id, &name).await.len(), 2);
    tokio::time::sleep(Duration::from_secs(1)).await;
    wait_for(&mut client, &id, "input_required").await;
    client.close().await;
}

// The task ended, as if the user had not decided.
#[tokio::test(start_paused = true)]
async fn approval_is_requested_again_after_a_response_that_does_not_fit() {
    let tools =
        one("agent", |_, _| async { Err(ToolError::ApprovalRequired(Box::new(pending()))) });
    let mut client = modern(&server(tools));
    let id = begin(&mut client, "agent").await;
    let forms = keys(&mut client, &id, &[]).await;
    let all = |forms: &[String], response: Value| {
        forms.iter().map(|key| (key.clone(), response.clone())).collect::<Value>()
    };
    let wrong = json!({ "action": "accept", "content": { "approve": "yes" } });
    update(&mut client, &id, all(&forms, wrong)).await;
    let again = keys(&mut client, &id, &forms).await;
    assert_eq!(again.len(), 2);
    update(&mut client, &id, all(&again, json!({ "action": "cancel" }))).await;
    let state = wait_for(&mut client, &id, "completed").await;
    let text = state["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "not executed: the user did not decide on the approval");
    client.close().await;
}

#[test]
fn undecided_calls_are_partial_decisions() {
    let McpTaskState::InputRequired(forms) = McpTaskState::approval(&pending()) else {
        panic!("no input");
    };
    assert_eq!(forms.len(), 2);
    assert_eq!(InputAnswers::default().approval_decisions(&pending()), None);
}

/// A source with one task, which waits for a name.
#[derive(Clone)]
struct Source(Arc<std::sync::Mutex<McpTaskState>>);

impl Source {
    fn new() -> Self {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let form = ElicitationRequest::form("Name?", schema);
        let asked = [("name".to_owned(), form.into())].into();
        Self(Arc::new(std::sync::Mutex::new(McpTaskState::InputRequired(asked))))
    }
}

impl TaskSource for Source {
    async fn get(&self, id: &str, _: &McpPeer) -> Result<Option<McpTask>, ToolError> {
        match id {
            "stored" => Ok(Some(McpTask::new(self.0.lock().unwrap().clone()))),
            // The first request for the state hangs.
            "slow" => {
                let state = std::mem::replace(&mut *self.0.lock().unwrap(), McpTaskState::Working);
                if matches!(state, McpTaskState::InputRequired(_)) {
                    std::future::pending::<()>().await;
                }
                Ok(Some(McpTask::new(McpTaskState::Working)))
            }
            "broken" => Err(ToolError::ModelRetry("the database is gone".into())),
            _ => Ok(None),
        }
    }

    async fn update(&self, _: &str, answers: InputAnswers, _: &McpPeer) -> Result<(), ToolError> {
        let Some(ElicitationResponse::Accept(form)) = answers.elicitation("name") else {
            return Ok(());
        };
        let output = ToolOutput::text(form["name"].to_string());
        *self.0.lock().unwrap() = McpTaskState::Completed(output);
        Ok(())
    }

    async fn cancel(&self, _: &str, _: &McpPeer) -> Result<(), ToolError> {
        *self.0.lock().unwrap() = McpTaskState::Cancelled;
        Ok(())
    }
}

/// Creates a server whose tool starts the task of the source with the id of its argument.
fn with_source(source: &Source, tasks: McpTasks) -> McpServer {
    let mut tools = one("start", |input, ctx| async move {
        match peer(&ctx).answer_with_task(input["id"].as_str().unwrap()) {
            true => Ok(ToolOutput::text("started")),
            false => Ok(ToolOutput::text("waited")),
        }
    });
    add(&mut tools, "start_later", |_, ctx| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(peer(&ctx).answer_with_task("stored"));
        Ok(ToolOutput::text("started"))
    });
    add(&mut tools, "start_and_hang", |_, ctx| async move {
        assert!(peer(&ctx).answer_with_task("stored"));
        std::future::pending().await
    });
    McpServer::new(tools).with_tasks(tasks.with_source(source.clone()))
}

/// Waits until the task of the source is cancelled.
async fn is_cancelled(source: &Source) {
    let cancelled = async {
        while *source.0.lock().unwrap() != McpTaskState::Cancelled {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), cancelled).await.expect("it is cancelled");
}

// The client does not know the id of the stored task, so nobody could cancel it afterwards.
#[tokio::test(start_paused = true)]
async fn cancelled_call_cancels_the_stored_task_that_its_tool_started() {
    for tasks in [McpTasks::new(), at_once().with_rule(|_| Some(Duration::from_secs(600)))] {
        for (tool, id) in [("start_and_hang", "stored"), ("start", "slow")] {
            let source = Source::new();
            let mut client = modern(&with_source(&source, tasks.clone()));
            let params = json!({ "name": tool, "arguments": { "id": id } });
            let request = client.begin("tools/call", params).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_ne!(*source.0.lock().unwrap(), McpTaskState::Cancelled);
            let method = "notifications/cancelled";
            let params = json!({ "requestId": request });
            client.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
            is_cancelled(&source).await;
            client.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ended_task_in_memory_cancels_the_stored_task_that_its_tool_started() {
    for expires in [true, false] {
        let source = Source::new();
        let tasks = at_once().with_ttl(Duration::from_secs(20));
        let mut client = modern(&with_source(&source, tasks));
        let id = begin(&mut client, "start_and_hang").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if !expires {
            client.request("tasks/cancel", json!({ "taskId": id })).await;
        }
        is_cancelled(&source).await;
        wait_for(&mut client, &id, if expires { "failed" } else { "cancelled" }).await;
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tool_answers_with_a_task_of_the_source() {
    let source = Source::new();
    let tasks = McpTasks::new().with_poll_interval(Duration::from_millis(5));
    let mut client = modern(&with_source(&source, tasks));
    let response = client.call("start", json!({ "id": "stored" })).await;
    assert_eq!(response["result"]["resultType"], "task", "{response}");
    assert_eq!(response["result"]["status"], "input_required");
    let id = response["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(id, "stored");

    let state = wait_for(&mut client, &id, "input_required").await;
    assert_eq!(state["inputRequests"]["name"]["params"]["message"], "Name?");
    let wrong = json!({ "name": { "action": "accept", "content": { "name": 3 } } });
    assert_eq!(code(&update(&mut client, &id, wrong).await), -32602);
    let right = json!({ "name": { "action": "accept", "content": { "name": "Ann" } }, "x": 1 });
    let response = update(&mut client, &id, right).await;
    assert_eq!(response["result"], json!({ "resultType": "complete" }), "{response}");
    let state = wait_for(&mut client, &id, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "\"Ann\"");
    client.request("tasks/cancel", json!({ "taskId": id })).await;
    wait_for(&mut client, &id, "cancelled").await;

    // A task that does not exist cannot be the response.
    assert_eq!(code(&client.call("start", json!({ "id": "none" })).await), -32602);
    assert_eq!(code(&get(&mut client, "none").await), -32602);
    let broken = get(&mut client, "broken").await;
    assert_eq!(code(&broken), -32603, "{broken}");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn task_in_memory_continues_as_a_task_of_the_source() {
    let source = Source::new();
    let mut client = modern(&with_source(&source, at_once()));
    // The tool waits 50 ms before it starts the stored task, so its call becomes a task first.
    let id = begin(&mut client, "start_later").await;
    assert_ne!(id, "stored");
    let state = wait_for(&mut client, &id, "input_required").await;
    // The stored task has no time limit, but the server forgets the id of the task in memory.
    let ttl = state["ttlMs"].as_u64().unwrap();
    assert!((3_600_000..3_700_000).contains(&ttl), "{state}");
    let right = json!({ "name": { "action": "accept", "content": { "name": "Ann" } } });
    assert_eq!(state["inputRequests"]["name"]["params"]["message"], "Name?");
    update(&mut client, &id, right).await;
    let state = wait_for(&mut client, &id, "completed").await;
    assert_eq!(state["result"]["content"][0]["text"], "\"Ann\"");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn tool_does_not_answer_with_a_task_that_the_client_does_not_support() {
    let server = with_source(&Source::new(), McpTasks::new());
    let mut client = Client::modern(&server, json!({}));
    assert_eq!(text(&client.call("start", json!({ "id": "stored" })).await), "waited");
    client.close().await;
    let mut client = Client::older(&server, "2025-11-25", capabilities()).await;
    assert_eq!(text(&client.call("start", json!({ "id": "stored" })).await), "waited");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn client_without_forms_sees_that_a_stored_task_waits() {
    let without_forms = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut client = Client::modern(&with_source(&Source::new(), McpTasks::new()), without_forms);
    let state = get(&mut client, "stored").await["result"].clone();
    assert_eq!(state["status"], "working", "{state}");
    assert!(state["statusMessage"].as_str().unwrap().starts_with("waits for input: "), "{state}");
    client.close().await;
}
