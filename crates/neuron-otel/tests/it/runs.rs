//! Runs, and the spans that are exported of them.

use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::ToolContext;
use serde_json::json;

use crate::support::agents::{Chat, hook, parallel, scout_of};
use crate::support::memory::{Memory, attribute};

#[tokio::test]
async fn a_run_is_a_tree_of_its_calls() {
    let memory = Memory::new();
    let calls = [
        ("c1", "look", json!({"text": "a", "delay": 20})),
        ("c2", "look", json!({"text": "b", "delay": 10})),
    ];
    let provider = ScriptedProvider::new([Reply::tool_calls(calls), Reply::text("done")]);
    let mut agent = Chat::new(scout_of(provider).config(parallel).hook(hook(&memory)));
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    agent.run("go", &ctx).await.unwrap();
    assert_eq!(
        memory.tree(),
        "invoke_agent scout\n  chat scripted-model\n  execute_tool look\n    work a\n    more a\n  \
         execute_tool look\n    work b\n    more b\n  chat scripted-model\n"
    );
    let spans = memory.spans();
    let run = spans.iter().find(|span| span.name == "invoke_agent scout").unwrap();
    assert_eq!(attribute(run, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    let durations = memory.measured("gen_ai.client.operation.duration");
    let tools = durations.iter().find(|(name, _)| name.contains("execute_tool")).unwrap();
    assert_eq!(*tools.1, 2);
}
