//! Sub-agents in a registry that defers its tools.

use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_tool::{ToolSearch, neuron_tool};
use neuron_types::{CALL_TOOL, SEARCH_TOOLS, ToolContext, ToolDyn, ToolEffect, ToolError};
use serde_json::json;

use crate::support::*;

fn finds(id: &str, query: &str) -> neuron_testing::Reply {
    calls([(id, SEARCH_TOOLS, json!({ "query": query }))])
}

fn through(id: &str, name: &str, arguments: serde_json::Value) -> neuron_testing::Reply {
    calls([(id, CALL_TOOL, json!({ "name": name, "arguments": arguments }))])
}

/// Returns the names of the tools in the first request of an agent.
fn offered(scripts: &Scripts, agent: &str) -> Vec<String> {
    scripts.of(agent).requests()[0].tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn deferred_agent_is_found_and_has_its_own_tools() {
    for way in WAYS {
        let scripts = Scripts::new([
            (
                "main",
                vec![
                    finds("a", "finder"),
                    through("b", "finder", json!({ "prompt": "go" })),
                    text("all done"),
                ],
            ),
            ("finder", vec![calls([("x", "act", json!({}))]), text("found it")]),
        ]);
        let log = Log::default();
        let mut tools = acting(&log);
        tools.defer_tools(ToolSearch::new()).unwrap();
        let mut manager = SubAgentManager::new();
        manager.register("finder", with_tools("finder", &["act"]));
        manager.add_to(&mut tools, scripts.clone()).unwrap();
        let mut agent = Chat::new(main_agent(&scripts, tools));
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "all done");
        assert_eq!(last_results(agent.messages()), ["b: found it"]);
        assert_eq!(log.lines().len(), 1);
        assert_eq!(offered(&scripts, "main"), [SEARCH_TOOLS, CALL_TOOL]);
        // The agent has few tools, so they are not deferred.
        assert_eq!(offered(&scripts, "finder"), ["act"]);
    }
}

#[tokio::test]
async fn agent_with_the_search_finds_only_its_own_tools() {
    let scripts = Scripts::new([
        (
            "main",
            vec![
                finds("a", "finder"),
                through("b", "finder", json!({ "prompt": "go" })),
                text("all done"),
            ],
        ),
        ("finder", vec![finds("x", "act other"), through("y", "act", json!({})), text("found it")]),
    ]);
    let log = Log::default();
    let mut tools = acting(&log);
    tools.defer_tools(ToolSearch::new()).unwrap();
    let mut manager = SubAgentManager::new();
    let own = ["act", SEARCH_TOOLS, CALL_TOOL];
    manager.register("finder", with_tools("finder", &own));
    manager.add_to(&mut tools, scripts.clone()).unwrap();
    let mut agent = Chat::new(main_agent(&scripts, tools));
    agent.run("start", &ToolContext::default()).await.unwrap();
    assert_eq!(log.count("act "), 1);
    assert_eq!(offered(&scripts, "finder"), [SEARCH_TOOLS, CALL_TOOL]);
    let found = last_results(&scripts.of("finder").requests()[1].messages).remove(0);
    assert!(found.contains(r#""name":"act""#) && !found.contains("other"), "{found}");
}

/// Looks
#[neuron_tool(effect = Pure)]
async fn look() -> Result<(), ToolError> {
    Ok(())
}

/// Regression test. `call_tool` declared no effect, so no agent with the search was pure.
#[test]
fn search_does_not_change_the_effect_of_an_agent() {
    let mut tools = acting(&Log::default());
    tools.register(LookTool);
    tools.defer_tools(ToolSearch::new()).unwrap();
    let effect_with = |tool: &str| {
        let mut manager = SubAgentManager::new();
        let config = with_tools("finder", &[tool, SEARCH_TOOLS, CALL_TOOL]);
        manager.register("finder", SubAgentConfig { effect: ToolEffect::Pure, ..config });
        let agents = manager.into_tools(&tools, Scripts::new([])).unwrap();
        agents[0].effect()
    };
    assert_eq!(effect_with("look"), ToolEffect::Pure);
    assert_eq!(effect_with("act"), ToolEffect::AtMostOnce);
}
