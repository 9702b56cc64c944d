//! Tests of an agent with the tools of a hostile server. They check that the model receives each error as a tool
//! result, and that the run continues.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{Agent, Conversation, ToolErrorPolicy};
use neuron_mcp::{BridgeOptions, McpClient, McpToolBridge, McpToolset};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{ContentBlock, Message, ToolDefinition};
use serde_json::json;

use crate::hostile::server::{client, connect, program};

/// Returns a registry with a bridge to each of these tools. The server need not have the tools.
fn registry(client: McpClient, tools: &[&str]) -> ToolRegistry {
    let client = Arc::new(client);
    let mut registry = ToolRegistry::new();
    for name in tools {
        let definition =
            json!({"name": name, "description": "", "input_schema": {"type": "object"}});
        let definition: ToolDefinition = serde_json::from_value(definition).unwrap();
        registry.register_dyn(Arc::new(McpToolBridge::new(Arc::clone(&client), definition)));
    }
    registry
}

/// Runs an agent that calls one of these tools per turn. Returns the tool results as JSON, in order.
async fn run(client: McpClient, tools: &[&str]) -> Vec<String> {
    let registry = registry(client, tools);
    let calls = tools.iter().enumerate();
    let mut replies: Vec<Reply> = calls
        .map(|(number, name)| {
            Reply::tool_call(format!("call-{number}"), name.replace(' ', "_"), json!({}))
        })
        .collect();
    replies.push(Reply::text("done"));
    let agent = Agent::builder(ScriptedProvider::new(replies)).tools(registry).build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "go").await.unwrap();
    assert_eq!(result.response, "done");
    results(conversation.messages())
}

/// Returns all tool results in the messages, as JSON.
fn results(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks
        .filter(|block| matches!(block, ContentBlock::ToolResult { .. }))
        .map(|block| serde_json::to_string(block).unwrap())
        .collect()
}

/// Asserts that each tool result in `heard` contains the text at the same index of `expected`.
#[track_caller]
fn check(heard: &[String], expected: &[&str]) {
    assert_eq!(heard.len(), expected.len(), "{heard:?}");
    for (heard, expected) in heard.iter().zip(expected) {
        assert!(heard.contains(expected), "{expected:?} is not in {heard}");
    }
}

#[tokio::test]
async fn agent_continues_after_failed_calls() {
    let tools = ["nested", "huge", "frames", "no such tool", "twice", "asks", "fine"];
    let heard = run(connect("serves").await, &tools).await;
    check(
        &heard,
        &[
            "cannot be read",
            "more than 16777216 bytes",
            "fine",
            "not found",
            "once",
            "-32601",
            "fine",
        ],
    );
}

#[tokio::test]
async fn agent_with_end_run_policy_ends_with_the_call_error() {
    let replies = [Reply::tool_call("call-1", "nested", json!({}))];
    let agent = Agent::builder(ScriptedProvider::new(replies))
        .tools(registry(connect("serves").await, &["nested"]))
        .config(|config| config.tool_errors = ToolErrorPolicy::EndRun)
        .build();
    let error = agent.run(&mut Conversation::new(), "go").await.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn agent_continues_after_the_server_restarts() {
    // The third call may fail, because it may be the call that notices the end of the server. So its result is not
    // checked.
    let heard = run(connect("serves").await, &["fine", "cut", "fine", "fine"]).await;
    check(&heard, &["fine", "cannot be read", "", "fine"]);
    let heard = run(connect("dies when it is called").await, &["fine"]).await;
    check(&heard, &["lost"]);
}

#[tokio::test]
async fn agent_calls_respect_the_time_limits() {
    // Each limit has its own client. If one client had both limits, progress could arrive too late for the request
    // timeout of one second on a loaded machine.
    let silent = client().request_timeout(Duration::from_secs(1));
    let heard = run(silent.connect_stdio(program("serves")).await.unwrap(), &["another id"]).await;
    check(&heard, &["within 1s"]);
    let endless = client().max_request_time(Duration::from_secs(2));
    let client = endless.connect_stdio(program("serves")).await.unwrap();
    check(&run(client, &["endless progress"]).await, &["within 2s"]);
}

#[tokio::test]
async fn agent_gets_tools_that_changed_during_a_call() {
    let client = Arc::new(client().connect_stdio(program("changes its tools")).await.unwrap());
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    let replies = vec![
        Reply::tool_call("call-1", "first", json!({})),
        Reply::text("it is gone"),
        Reply::tool_call("call-2", "third", json!({})),
        Reply::text("it is there"),
    ];
    let mut tools = ToolRegistry::new();
    toolset.sync(&mut tools).await.unwrap();
    assert_eq!(tools.names().collect::<Vec<_>>(), ["first", "second"]);

    let mut conversation = Conversation::new();
    let agent = Agent::builder(ScriptedProvider::new(replies)).tools(tools.clone()).build();
    assert_eq!(agent.run(&mut conversation, "go").await.unwrap().response, "it is gone");
    assert!(toolset.has_changed());
    toolset.sync(&mut tools).await.unwrap();
    assert_eq!(tools.names().collect::<Vec<_>>(), ["second", "third"]);

    let agent = agent.to_builder().tools(tools).build();
    assert_eq!(agent.run(&mut conversation, "go").await.unwrap().response, "it is there");
    check(&results(conversation.messages()), &["first", "fine"]);
}
