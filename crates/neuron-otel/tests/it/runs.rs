//! Runs, and the spans that are exported of them.

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_otel::OtelHook;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::ToolContext;
use serde_json::json;

use crate::support::memory::{Memory, attribute};
use crate::support::tools::{Act, registry};

#[tokio::test]
async fn a_run_is_a_tree_of_its_calls() {
    let memory = Memory::new();
    let calls = [
        ("c1", "look", json!({"text": "a", "delay": 20})),
        ("c2", "look", json!({"text": "b", "delay": 10})),
    ];
    let provider = ScriptedProvider::new([Reply::tool_calls(calls), Reply::text("done")]);
    let hook = OtelHook::new().with_meter_provider(&memory.meter);
    let mut agent = AgentLoop::builder(provider, SlidingWindowStrategy::new(10, 10_000))
        .name("scout")
        .tools(registry([Act::new("look")]))
        .parallel_tool_execution(true)
        .hook(hook)
        .build();
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    agent.run_text("go", &ctx).await.unwrap();
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
