//! Tests of runs whose deferred tools change between an interruption and the replay.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    AgentResult, CALL_TOOL, ContentBlock, LoopError, PermissionDecision, PermissionPolicy,
    SEARCH_TOOLS, ToolOutput,
};
use serde_json::{Value, json};

use crate::support::{add_tool, place};

/// Returns a registry that defers these tools.
fn deferred(names: &[&'static str], search: &ToolSearch) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for &name in names {
        add_tool(&mut tools, name, move |_, _| ready(ToolOutput::text(format!("ran {name}"))));
    }
    tools.defer_tools(search.clone()).unwrap();
    tools
}

/// Denies calls with the argument `deny`.
struct ByArguments;

impl PermissionPolicy for ByArguments {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        match input.get("deny") {
            Some(_) => PermissionDecision::Deny("not this one".into()),
            None => PermissionDecision::Allow,
        }
    }
}

async fn drive(
    runs: &SqliteRuns,
    model: &Arc<ScriptedProvider>,
    tools: ToolRegistry,
) -> Result<AgentResult, LoopError> {
    let agent = Agent::builder(model.clone()).tools(tools.clone()).permission_policy(ByArguments);
    let agent = agent.config(|config| config.tool_errors = ToolErrorPolicy::ReturnToModel).build();
    runs.run("r").open(model.clone(), Arc::new(tools)).await?.drive("go", &agent).await
}

/// Drives a run with the tools `before` until the model has answered `replies`. Then continues it with the tools `after`
/// and the response `done`. Returns the result of the last call.
async fn last_result(
    replies: Vec<Reply>,
    search: &ToolSearch,
    before: &[&'static str],
    after: &[&'static str],
) -> String {
    let (_folder, path) = place();
    let calls = replies.len();
    let model = Arc::new(ScriptedProvider::new(replies.into_iter().chain([Reply::hang()])));
    let runs = SqliteRuns::open(&path).await.unwrap();
    let hangs = async {
        while model.calls() <= calls {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = drive(&runs, &model, deferred(before, search)) => panic!("it ended: {ended:?}"),
        () = hangs => {}
    }
    let model = Arc::new(ScriptedProvider::new([Reply::text("done")]));
    let runs = SqliteRuns::open(&path).await.unwrap();
    let result = drive(&runs, &model, deferred(after, search)).await.unwrap();
    assert_eq!(result.response, "done");
    let message = &result.messages[result.messages.len() - 2];
    serde_json::to_string(message).unwrap()
}

#[tokio::test]
async fn change_of_the_deferred_tools_does_not_change_the_replay() {
    let find = || Reply::tool_call("a", SEARCH_TOOLS, json!({ "query": "mail" }));
    let call = || {
        let input = json!({ "name": "send_mail", "arguments": {} });
        [Reply::tool_call("b", CALL_TOOL, input), Reply::tool_call("b", "send_mail", json!({}))]
    };
    let (few, all) = (&["look"][..], &["look", "send_mail"][..]);
    let own = ToolSearch::new();
    for reply in call() {
        // Unknown at first and registered later, or registered and not found at first and removed later.
        for (before, after) in [(few, all), (all, few), (all, all)] {
            let result = last_result(vec![reply.clone()], &own, before, after).await;
            assert!(result.contains("tool not found: send_mail"), "{result}");
        }
        // The tool was found and has run.
        for after in [few, all] {
            let result = last_result(vec![find(), reply.clone()], &own, all, after).await;
            assert!(result.contains("ran send_mail"), "{result}");
        }
    }
}

#[tokio::test]
async fn tools_that_the_vendor_found_are_replayed() {
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "tool_search" });
    let search = ContentBlock::Raw { provider: "vendor".into(), json: search, portable: None };
    let name = "send_mail".to_owned();
    let call = ContentBlock::ToolUse { id: "b".into(), name, input: json!({}) };
    let reply = || Reply::message(vec![search.clone(), call.clone()]);
    let (few, all) = (&["look"][..], &["look", "send_mail"][..]);
    let vendor = ToolSearch::new().prefer_vendor();
    for after in [few, all] {
        let result = last_result(vec![reply()], &vendor, all, after).await;
        assert!(result.contains("ran send_mail"), "{result}");
    }
}

/// Regression test. The policy was not asked about a tool that was removed after the model had found it. The replay then
/// ran a call that the policy had denied, and failed because the journal has no such call.
#[tokio::test]
async fn denied_call_of_a_removed_tool_is_replayed() {
    let find = Reply::tool_call("a", SEARCH_TOOLS, json!({ "query": "mail" }));
    let arguments = json!({ "deny": true });
    let input = json!({ "name": "send_mail", "arguments": arguments });
    let (few, all) = (&["look"][..], &["look", "send_mail"][..]);
    for after in [few, all] {
        for (search, replies) in [
            (
                ToolSearch::new(),
                vec![find.clone(), Reply::tool_call("b", CALL_TOOL, input.clone())],
            ),
            (
                ToolSearch::new().prefer_vendor(),
                vec![Reply::tool_call("b", "send_mail", arguments.clone())],
            ),
        ] {
            let result = last_result(replies, &search, all, after).await;
            assert!(result.contains("permission denied: not this one"), "{result}");
        }
    }
}
