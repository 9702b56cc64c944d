//! An agent whose tools are those of a hostile server: the model hears what went wrong, and the run goes on.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{Agent, Conversation, ToolErrorPolicy};
use neuron_mcp::{BridgeOptions, McpClient, McpToolBridge, McpToolset};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{ContentBlock, Message, ToolDefinition};
use serde_json::json;

use crate::server::{client, connect, program};

/// These tools of a server, whether it has them or not.
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

/// Runs an agent that calls these tools, one a turn, and returns what it heard of each.
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

/// The texts of all results of tools.
fn results(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks
        .filter(|block| matches!(block, ContentBlock::ToolResult { .. }))
        .map(|block| serde_json::to_string(block).unwrap())
        .collect()
}

#[track_caller]
fn check(heard: &[String], expected: &[&str]) {
    assert_eq!(heard.len(), expected.len(), "{heard:?}");
    for (heard, expected) in heard.iter().zip(expected) {
        assert!(heard.contains(expected), "{expected:?} is not in {heard}");
    }
}

#[tokio::test]
async fn an_agent_hears_what_went_wrong_and_goes_on() {
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
async fn an_agent_that_is_to_end_with_a_failed_call_ends_with_a_clear_error() {
    let replies = [Reply::tool_call("call-1", "nested", json!({}))];
    let agent = Agent::builder(ScriptedProvider::new(replies))
        .tools(registry(connect("serves").await, &["nested"]))
        .config(|config| config.tool_errors = ToolErrorPolicy::EndRun)
        .build();
    let error = agent.run(&mut Conversation::new(), "go").await.unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn an_agent_goes_on_with_a_server_that_was_started_anew() {
    // The third call may be the one that finds the server gone.
    let heard = run(connect("serves").await, &["fine", "cut", "fine", "fine"]).await;
    check(&heard, &["fine", "cannot be read", "", "fine"]);
    let heard = run(connect("dies when it is called").await, &["fine"]).await;
    check(&heard, &["lost"]);
}

#[tokio::test]
async fn an_agent_does_not_wait_longer_than_the_limit() {
    // Not one client with both limits: progress may take a second to arrive on a busy machine.
    let silent = client().request_timeout(Duration::from_secs(1));
    let heard = run(silent.connect_stdio(program("serves")).await.unwrap(), &["another id"]).await;
    check(&heard, &["within 1s"]);
    let endless = client().max_request_time(Duration::from_secs(2));
    let client = endless.connect_stdio(program("serves")).await.unwrap();
    check(&run(client, &["endless progress"]).await, &["within 2s"]);
}

#[tokio::test]
async fn an_agent_has_other_tools_after_they_changed_in_a_call() {
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
