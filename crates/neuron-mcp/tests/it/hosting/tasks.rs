//! Tests of tasks of authenticated callers over HTTP.

use std::time::Duration;

use neuron_mcp::{HttpIdentity, HttpRefusal, HttpRequestHead, McpServer, McpTasks};
use serde_json::{Value, json};

use super::raw::{Connection, Request, modern_call, modern_with, within};
use super::server::{Running, start_with};

/// Accepts each caller under the name in the header `x-user`.
async fn by_name(request: HttpRequestHead) -> Result<HttpIdentity, HttpRefusal> {
    let name = request.headers.get("x-user").and_then(|name| name.to_str().ok());
    name.map(HttpIdentity::new).ok_or_else(HttpRefusal::unauthorized)
}

fn request(user: &str, method: &str, params: Value) -> Request {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    modern_with(method, params, capabilities).header("x-user", user)
}

/// Lets all calls of clients that support tasks become tasks.
pub(super) fn with_tasks(server: McpServer) -> McpServer {
    server.with_tasks(McpTasks::new().with_rule(|_| Some(Duration::ZERO)))
}

/// Creates a call of the tool `wait`, which becomes a task.
pub(super) fn call_wait() -> Request {
    request("alice", "tools/call", json!({ "name": "wait", "arguments": {} }))
}

/// Calls the tool `wait`. Returns the id of the task, whose tool runs.
async fn begin(server: &Running) -> String {
    let response = call_wait().send(server.addr).await.messages().pop().unwrap();
    within(server.waiting.began.notified()).await;
    let id = response["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{response}"));
    id.to_owned()
}

/// Requests the state of the task until it has ended. Returns the text of its result.
async fn result(server: &Running, id: &str) -> String {
    loop {
        let get = request("alice", "tasks/get", json!({ "taskId": id })).send(server.addr).await;
        let response = get.messages().pop().unwrap_or_else(|| panic!("{get:?}"));
        let state = &response["result"];
        if state["status"] == "completed" {
            return state["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        }
        assert_eq!(state["status"], "working", "{response}");
    }
}

// The server ended at once, and cancelled its tasks.
#[tokio::test]
async fn shutdown_waits_for_tasks_and_reports_their_results() {
    let grace = Duration::from_secs(3600);
    let mut server = start_with(with_tasks, |config| config.shutdown_grace(grace)).await;
    let id = begin(&server).await;
    let mut call = Connection::open(server.addr).await;
    call.write(modern_call("wait", &json!({})).to_bytes()).await;
    within(server.waiting.began.notified()).await;
    server.shutdown.cancel();
    server.waiting.release.notify_one();
    assert_eq!(result(&server, &id).await, "waited");
    // The header alone does not make a request one about a task.
    let other = modern_call("echo", &json!({ "text": "new" })).without("mcp-method");
    let other = other.header("mcp-method", "tasks/get").send(server.addr).await;
    assert_eq!(other.status, 503);
    server.waiting.release.notify_one();
    assert_eq!(call.read_to_end().await.unwrap().tool_text(), "waited");
    server.ended().await.unwrap();

    let mut server = start_with(with_tasks, |config| config.shutdown_grace(grace)).await;
    let id = begin(&server).await;
    server.shutdown.cancel();
    let get = request("alice", "tasks/get", json!({ "taskId": id }));
    assert_eq!(get.send(server.addr).await.status, 200);
    server.waiting.release.notify_one();
    server.ended().await.unwrap();
}

// The callers shared one limit, so a caller could remove the results of another.
#[tokio::test]
async fn each_caller_has_its_own_limit_of_tasks() {
    let tasks = McpTasks::new().with_rule(|_| Some(Duration::ZERO)).with_max_tasks(1);
    let change = |server: McpServer| server.with_tasks(tasks);
    let server = start_with(change, |config| config.authenticate(by_name)).await;
    let id = begin(&server).await;
    server.waiting.release.notify_one();
    assert_eq!(result(&server, &id).await, "waited");
    let call = request("bob", "tools/call", json!({ "name": "wait", "arguments": {} }));
    let response = call.send(server.addr).await.messages().pop().unwrap();
    assert_eq!(response["result"]["resultType"], "task", "{response}");
    assert_eq!(result(&server, &id).await, "waited");
}

// Only the streams of responses ended.
#[tokio::test]
async fn dropped_server_and_shutdown_after_the_grace_time_end_tasks() {
    for drops in [true, false] {
        let grace = Duration::from_millis(50);
        let mut server = start_with(with_tasks, |config| config.shutdown_grace(grace)).await;
        begin(&server).await;
        match drops {
            true => server.drop_server().await,
            false => server.shutdown.cancel(),
        }
        within(server.waiting.ended.notified()).await;
    }
}

#[tokio::test]
async fn only_the_caller_of_the_tool_can_access_the_task() {
    let server = start_with(with_tasks, |config| config.authenticate(by_name)).await;
    let id = begin(&server).await;
    let task = json!({ "taskId": id, "inputResponses": {} });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = request("bob", method, task.clone()).send(server.addr).await.messages().pop();
        assert_eq!(refused.unwrap()["error"]["code"], -32602, "{method}");
    }
    // The task goes on without a connection, and its caller receives the result.
    server.waiting.release.notify_one();
    assert_eq!(result(&server, &id).await, "waited");
}
