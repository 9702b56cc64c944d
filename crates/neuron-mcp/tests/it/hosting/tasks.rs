//! Tests of tasks of authenticated callers over HTTP.

use std::time::Duration;

use neuron_mcp::{HttpIdentity, HttpRefusal, HttpRequestHead, HttpServerConfig, McpTasks};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::raw::{Request, modern_with};
use super::server::{Waiting, mcp_server};

/// Accepts each caller under the name in the header `x-user`.
async fn by_name(request: HttpRequestHead) -> Result<HttpIdentity, HttpRefusal> {
    let name = request.headers.get("x-user").and_then(|name| name.to_str().ok());
    name.map(HttpIdentity::new).ok_or_else(HttpRefusal::unauthorized)
}

fn request(user: &str, method: &str, params: Value) -> Request {
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    modern_with(method, params, capabilities).header("x-user", user)
}

#[tokio::test]
async fn only_the_caller_of_the_tool_can_access_the_task() {
    let waiting = Waiting::default();
    let tasks = McpTasks::new().with_rule(|_| Some(Duration::ZERO));
    let server = mcp_server(&waiting).with_tasks(tasks);
    let server = server.bind_http(HttpServerConfig::default().authenticate(by_name)).await.unwrap();
    let addr = server.local_addr();
    let mut serving = JoinSet::new();
    serving.spawn(server.serve());

    let call = request("alice", "tools/call", json!({ "name": "wait", "arguments": {} }));
    let response = call.send(addr).await.messages().pop().unwrap();
    let id = response["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{response}"));
    let task = json!({ "taskId": id, "inputResponses": {} });
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = request("bob", method, task.clone()).send(addr).await.messages().pop();
        assert_eq!(refused.unwrap()["error"]["code"], -32602, "{method}");
    }
    // The task goes on without a connection, and its caller receives the result.
    waiting.release.notify_one();
    waiting.ended.notified().await;
    loop {
        let get = request("alice", "tasks/get", json!({ "taskId": id }));
        let state = get.send(addr).await.messages().pop().unwrap()["result"].clone();
        if state["status"] == "completed" {
            assert_eq!(state["result"]["content"][0]["text"], "waited");
            break;
        }
        assert_eq!(state["status"], "working");
    }
}
