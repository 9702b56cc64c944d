//! Tests of agents that are run from code and not by a tool call. An agent runs alone or with others concurrently. Some
//! errors must prevent the run.

use std::pin::pin;
use std::time::Duration;

use neuron_loop::{Budget, LoopConfig, LoopError};
use neuron_subagent::{SubAgentConfig, SubAgentError, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecisions, ContextStrategy, Message, PendingApproval, Provider, ProviderError,
    ResumedApproval, SystemPrompt, ToolContext, ToolError, UsageLimits,
};
use serde_json::json;

use crate::support::*;

fn agents(configs: impl IntoIterator<Item = (&'static str, SubAgentConfig)>) -> SubAgentManager {
    let mut agents = SubAgentManager::new();
    for (name, config) in configs {
        agents.register(name, config);
    }
    agents
}

#[tokio::test]
async fn agent_follows_its_configuration() {
    let provider = ScriptedProvider::new([
        calls([("a", "other", json!({})), ("b", "act", json!({}))]),
        text("done"),
    ]);
    let log = Log::default();
    let agents = agents([(
        "worker",
        SubAgentConfig {
            system_prompt: "You work.".into(),
            // In another order than in the registry.
            tools: vec!["other".into(), "act".into()],
            model: Some("small".into()),
            max_turns: Some(2),
            settings: LoopConfig {
                system_prompt: "not this one".into(),
                max_turns: Some(1),
                ..Default::default()
            },
            ..Default::default()
        },
    )]);
    assert_eq!(agents.names().collect::<Vec<_>>(), ["worker"]);
    let result = agents.spawn("worker", "Do it", &acting(&log), &provider).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 2));
    assert_eq!(result.messages[0], Message::user("Do it"));
    let request = &provider.requests()[0];
    assert_eq!(request.system, Some(SystemPrompt::Text("You work.".into())));
    assert_eq!(request.model, "small");
    let names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["act", "other"], "in the registry's order");
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test]
async fn agent_has_only_the_tools_it_was_given() {
    let provider = ScriptedProvider::new([calls([("a", "act", json!({}))])]);
    let log = Log::default();
    let agents = agents([("worker", with_tools("", &["other"]))]);
    let error = agents.spawn("worker", "go", &acting(&log), &provider).await.unwrap_err();
    let Some(LoopError::Tool(ToolError::NotFound(name))) = error.run_error() else {
        panic!("{error:?}");
    };
    assert_eq!(name, "act");
    assert_eq!(error.to_string(), "the agent `worker` failed: tool error: tool not found: act");
    assert!(log.lines().is_empty());
}

#[tokio::test]
async fn configuration_errors_are_reported_before_any_model_call() {
    let provider = ScriptedProvider::default();
    let tools = ToolRegistry::new();
    let agents = agents([
        ("broken", with_tools("", &["none"])),
        ("shallow", SubAgentConfig { max_depth: 0, ..Default::default() }),
    ]);
    for (name, text) in [
        ("stranger", "no agent is named `stranger`; the agents are: broken, shallow"),
        (
            "broken",
            "the agent `broken` is to have the tool `none`, which is not among the tools given",
        ),
        ("shallow", "the agent `shallow` would run at depth 1, and may at 0 at the most"),
    ] {
        let error = agents.spawn(name, "go", &tools, &provider).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(matches!(ToolError::from(error), ToolError::ExecutionFailed(_)));
    }
    let error = agents.clone().into_tools(&tools, provider.clone()).unwrap_err();
    assert!(
        matches!(error, SubAgentError::UnknownTool { agent, tool } if (&*agent, &*tool) == ("broken", "none"))
    );
    let error = SubAgentManager::new().spawn("x", "go", &tools, &provider).await.unwrap_err();
    assert_eq!(error.to_string(), "no agent is named `x`; the agents are: none");
}

#[tokio::test]
async fn name_of_an_existing_tool_is_rejected_and_the_registry_unchanged() {
    let mut tools = acting(&Log::default());
    let agents = agents([("fine", with_tools("", &[])), ("act", with_tools("", &[]))]);
    let error = agents.add_to(&mut tools, ScriptedProvider::default()).unwrap_err();
    assert_eq!(error.to_string(), "a tool named `act` is registered already");
    assert_eq!(tools.names().collect::<Vec<_>>(), ["act", "other"]);
}

/// Checks that `add_to` rejects an agent whose name no vendor would accept for a tool.
#[test]
fn invalid_tool_name_is_rejected() {
    for name in ["", "two words", "naïve", "a.b", &"x".repeat(65)] {
        let mut agents = SubAgentManager::new();
        agents.register("fine", with_tools("", &[])).register(name, with_tools("", &[]));
        let mut tools = ToolRegistry::new();
        let error = agents.add_to(&mut tools, ScriptedProvider::default()).unwrap_err();
        let expected = "a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`, but one is";
        assert_eq!(error.to_string(), format!("{expected} `{name}`"));
        assert!(tools.names().next().is_none());
    }
}

/// Checks that `spawn` fails if an agent's own sub-agent is not among the given tools, and succeeds if it is.
#[tokio::test]
async fn spawned_agent_calls_the_agents_it_is_given() {
    let scripts =
        Scripts::new([("lead", vec![asks(&["w"]), text("led")]), ("w", vec![text("done")])]);
    let w = SubAgentConfig { max_depth: 2, ..with_tools("w", &[]) };
    let agents = agents([("lead", with_tools("lead", &["w"])), ("w", w)]);
    let mut tools = ToolRegistry::new();
    let error = agents.spawn("lead", "go", &tools, &scripts).await.unwrap_err();
    let expected = "the agent `lead` is to have the tool `w`, which is not among the tools given";
    assert_eq!(error.to_string(), expected);
    agents.clone().add_to(&mut tools, scripts.clone()).unwrap();
    let result = agents.spawn("lead", "go", &tools, &scripts).await.unwrap();
    assert_eq!(last_results(&result.messages), ["c0: done"]);
}

#[tokio::test(start_paused = true)]
async fn parallel_agents_return_results_in_task_order() {
    let slow = |seconds| text("answer").delay(Duration::from_secs(seconds));
    let scripts = Scripts::new([
        ("a", vec![slow(9)]),
        ("b", vec![Reply::error(ProviderError::Authentication("no key".into()))]),
        ("c", vec![slow(3)]),
    ]);
    let agents = agents(["a", "b", "c"].map(|name| (name, with_tools(name, &[]))));
    let tasks = vec![("a", "one"), ("b", "two"), ("stranger", "three"), ("c", "four")];
    let start = tokio::time::Instant::now();
    let results = agents.spawn_parallel(tasks, &ToolRegistry::new(), &scripts).await;
    assert_eq!(start.elapsed(), Duration::from_secs(9));
    let prompt = |at: usize| results[at].as_ref().map(|result| result.messages[0].text());
    assert_eq!((prompt(0).unwrap(), prompt(3).unwrap()), ("one".into(), "four".into()));
    let error = results[1].as_ref().unwrap_err().run_error();
    assert!(matches!(error, Some(LoopError::Provider(ProviderError::Authentication(_)))));
    assert!(matches!(results[2], Err(SubAgentError::UnknownAgent { .. })));
    assert_eq!(results.len(), 4);
    let none = agents.spawn_parallel(Vec::new(), &ToolRegistry::new(), &scripts).await;
    assert!(none.is_empty());
}

#[tokio::test]
async fn parallel_agents_in_one_call_have_distinct_keys() {
    let call = || calls([("same", "act", json!({}))]);
    // Both runs of `w` make their first call before one of them makes its second.
    let twice = vec![call(), call(), text("done"), text("done")];
    let scripts = Scripts::new([("w", twice), ("v", vec![call(), text("done")])]);
    let agents = agents([("w", with_tools("w", &["act"])), ("v", with_tools("v", &["act"]))]);
    let log = Log::default();
    let ctx = ToolContext {
        run_id: "r".into(),
        call_id: "c".into(),
        idempotency_key: "r/0/0/0/c".into(),
        ..Default::default()
    };
    let tasks = vec![("w", "1"), ("w", "2"), ("v", "3")];
    for result in agents.spawn_parallel_in(tasks, &acting(&log), &scripts, &ctx).await {
        result.unwrap();
    }
    let mut keys = log.lines();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "act r/0/0/0/c/v#2/0/0/0/same",
            "act r/0/0/0/c/w#0/0/0/0/same",
            "act r/0/0/0/c/w#1/0/0/0/same",
        ]
    );
}

#[tokio::test]
async fn spawned_run_outside_of_a_call_extends_the_run_id() {
    let scripts = Scripts::new([("w", vec![calls([("same", "act", json!({}))]), text("done")])]);
    let agents = agents([("w", with_tools("w", &["act"]))]);
    let log = Log::default();
    let ctx = ToolContext { run_id: "r".into(), ..Default::default() };
    agents.spawn_in("w", "go", &acting(&log), &scripts, &ctx).await.unwrap();
    assert_eq!(log.lines(), ["act r/w/0/0/0/same"]);
}

#[tokio::test]
async fn parallel_agents_share_a_budget_and_fail_independently() {
    let scripts = Scripts::new([("w", (0..3).map(|_| text("done")).collect())]);
    let agents = agents([("w", with_tools("w", &[]))]);
    let budget = Budget::new(UsageLimits::default().with_request_limit(2));
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(budget.clone());
    let tasks = vec![("w", "1"), ("w", "2"), ("w", "3")];
    let results = agents.spawn_parallel_in(tasks, &ToolRegistry::new(), &scripts, &ctx).await;
    let ended: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(ended, [true, true, false]);
    let error = results[2].as_ref().unwrap_err().run_error();
    assert!(matches!(error, Some(LoopError::UsageLimitExceeded(_))));
    assert_eq!((budget.requests(), budget.reserved_tokens()), (2, 0));
    assert_eq!(ctx.usage.total(), usage(20, 2), "what both took");
}

#[tokio::test(start_paused = true)]
async fn cancelled_context_ends_all_agents_immediately() {
    let scripts = Scripts::new([("w", vec![Reply::hang(), Reply::hang(), Reply::hang()])]);
    let agents = agents([("w", with_tools("w", &[]))]);
    let (tools, ctx) = (ToolRegistry::new(), ToolContext::default());
    let two = agents.spawn_parallel_in(vec![("w", "1"), ("w", "2")], &tools, &scripts, &ctx);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ctx.cancellation_token.cancel();
    };
    let start = tokio::time::Instant::now();
    let (results, ()) = tokio::join!(two, cancel);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error.run_error(), Some(LoopError::Cancelled)));
        assert!(matches!(ToolError::from(error), ToolError::Cancelled));
    }
    {
        let mut one = pin!(agents.spawn("w", "3", &tools, &scripts));
        assert!(poll_times(one.as_mut(), 5).is_none());
    }
    assert_eq!(scripts.of("w").calls(), 3);
}

#[tokio::test]
async fn top_level_agent_pauses_and_resumes() {
    let scripts = Scripts::new([("w", vec![calls([("x", "act", json!({}))]), text("done")])]);
    let settings = LoopConfig { pause_for_approval: true, ..Default::default() };
    let policy: std::sync::Arc<dyn neuron_types::PermissionPolicy> =
        std::sync::Arc::new(AsksAbout(&["act"]));
    let config = SubAgentConfig { settings, policy: Some(policy), ..with_tools("w", &["act"]) };
    let agents = agents([("w", config)]);
    let (log, ctx) = (Log::default(), ToolContext::default());
    let tools = acting(&log);
    let error = agents.spawn_in("w", "go", &tools, &scripts, &ctx).await.unwrap_err();
    let Some(LoopError::ApprovalRequired(pending)) = error.run_error() else {
        panic!("{error:?}");
    };
    assert!(log.lines().is_empty());
    // In a parallel run, an agent ignores a resumed approval in the context.
    let mut resumed = ctx.clone();
    let decisions = ApprovalDecisions::approve_all(pending);
    resumed.extensions.insert(ResumedApproval::new((**pending).clone(), decisions.clone()));
    let scripts_of_others = Scripts::new([("w", vec![text("anew")])]);
    let others =
        agents.spawn_parallel_in(vec![("w", "go")], &tools, &scripts_of_others, &resumed).await;
    assert_eq!(others[0].as_ref().unwrap().response, "anew");

    let result =
        agents.resume("w", (**pending).clone(), decisions.clone(), &tools, &scripts, &ctx).await;
    assert_eq!(result.unwrap().response, "done");
    assert_eq!(log.lines().len(), 1);
    assert_eq!(ctx.usage.total(), usage(30, 3), "with that of the other, and nothing twice");

    let mut broken: PendingApproval = (**pending).clone();
    broken.messages.clear();
    let error = agents.resume("w", broken, decisions, &tools, &scripts, &ctx).await.unwrap_err();
    assert!(matches!(error.run_error(), Some(LoopError::Approval(_))));
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn default_strategy_keeps_everything_and_can_be_replaced() {
    let long = "long ".repeat(100);
    let call = |id| calls([(id, "act", json!({ "text": long }))]);
    let script = || vec![call("x"), call("y"), text("done")];
    let mut sizes = Vec::new();
    for context in [None, Some(neuron_context::SlidingWindowStrategy::new(2, 20))] {
        let scripts = Scripts::new([("w", script())]);
        let mut config = with_tools("w", &["act"]);
        if let Some(context) = context {
            config.context = neuron_types::BoxedStrategy::new(context);
        }
        let agents = agents([("w", config)]);
        agents.spawn("w", "go", &acting(&Log::default()), &scripts).await.unwrap();
        sizes.push(scripts.of("w").requests()[2].messages.len());
    }
    assert_eq!(sizes[0], 5);
    assert!(sizes[1] < 5, "{sizes:?}");
    let kept = vec![Message::user("a"), Message::assistant("four")];
    assert_eq!(neuron_subagent::NoCompaction.compact(kept.clone()).await.unwrap(), kept);
    assert_eq!(neuron_subagent::NoCompaction.token_estimate(&kept), 2);
}

/// Checks that the futures of the `spawn` methods are `Send`. Otherwise the test does not compile.
#[test]
fn futures_can_be_spawned() {
    fn can_be_sent<T: Send>(value: T) -> T {
        value
    }
    fn all<P: Provider>(agents: &SubAgentManager, provider: &P) {
        let (tools, ctx) = (ToolRegistry::new(), ToolContext::default());
        drop(can_be_sent(agents.spawn("a", "b", &tools, provider)));
        drop(can_be_sent(agents.spawn_in("a", "b", &tools, provider, &ctx)));
        drop(can_be_sent(agents.spawn_parallel(Vec::new(), &tools, provider)));
        drop(can_be_sent(agents.spawn_parallel_in(Vec::new(), &tools, provider, &ctx)));
    }
    all(&SubAgentManager::new(), &ScriptedProvider::default());
}
