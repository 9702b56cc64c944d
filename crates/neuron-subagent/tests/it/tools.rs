//! Tests of agents as tools. They check the tool definition, the results and the maximum depth.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{LoopConfig, LoopError, OnLimit, ToolErrorPolicy};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::tool_middleware_fn;
use neuron_types::{
    ContentBlock, Message, ProviderError, Role, StopReason, ToolContext, ToolDyn, ToolEffect,
    ToolError, UsageLimits,
};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn model_gives_an_agent_a_task_and_gets_its_answer() {
    for way in WAYS {
        let scripts = Scripts::new([
            ("main", vec![asks(&["finder"]), text("all done")]),
            ("finder", vec![calls([("x", "act", json!({}))]), text("found it")]),
        ]);
        let log = Log::default();
        let agents = [("finder", with_tools("finder", &["act"]))];
        let mut agent = Chat::new(parent(&scripts, &log, agents));
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "all done");
        assert_eq!(last_results(agent.messages()), ["c0: found it"]);
        assert_eq!(log.lines().len(), 1);
        // The agent has its own conversation, which begins with the prompt.
        assert_eq!(scripts.of("finder").requests()[0].messages, [Message::user("go")]);
        assert_eq!(agent.messages().len(), 4);
        let told = &scripts.of("main").requests()[0].tools;
        let names: Vec<_> = told.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["act", "other", "finder"]);
    }
}

#[test]
fn tool_definition_describes_the_agent() {
    let mut agents = SubAgentManager::new();
    agents.register("plain", SubAgentConfig::default());
    agents.register(
        "described",
        SubAgentConfig {
            description: "Writes poems.".into(),
            effect: ToolEffect::Idempotent,
            ..Default::default()
        },
    );
    let tools = agents.into_tools(&Default::default(), ScriptedProvider::default()).unwrap();
    let (plain, described) = (tools[0].definition(), tools[1].definition());
    assert_eq!((plain.name.as_str(), described.name.as_str()), ("plain", "described"));
    assert_eq!(plain.description, "Gives a task to the agent `plain` and returns its answer.");
    assert_eq!(described.description, "Writes poems.");
    assert_eq!(plain.input_schema["required"], json!(["prompt"]));
    assert_eq!(tools[0].effect(), ToolEffect::AtMostOnce);
    assert_eq!(tools[1].effect(), ToolEffect::Idempotent);
    assert!(tools[0].check_input(&json!({ "prompt": "x" })).is_ok());
    let error = tools[0].check_input(&json!({ "task": "x" })).unwrap_err();
    assert_eq!(error.to_string(), "invalid input: arguments of `plain`: missing field `prompt`");
}

#[tokio::test]
async fn empty_prompt_is_a_hint_and_missing_prompt_is_invalid() {
    let scripts = Scripts::new([
        (
            "main",
            vec![calls([("e", "a", json!({ "prompt": " \n" }))]), calls([("n", "a", json!({}))])],
        ),
        ("a", vec![]),
    ]);
    let mut agent = Chat::new(parent(&scripts, &Log::default(), [("a", with_tools("a", &[]))]));
    let error = agent.run("start", &ToolContext::default()).await.unwrap_err();
    assert!(matches!(error, LoopError::Tool(ToolError::InvalidInput(_))), "{error}");
    let results = last_results(&agent.messages()[..3]);
    assert_eq!(results, ["e: !the prompt is empty; describe the task"]);
}

/// Returns the result of an agent with this script, as the calling model sees it.
async fn result_of(script: Vec<Reply>, config: SubAgentConfig) -> String {
    let scripts = Scripts::new([("main", vec![asks(&["a"]), text("done")]), ("a", script)]);
    let mut agent = Chat::new(parent(&scripts, &Log::default(), [("a", config)]));
    agent.run("start", &ToolContext::default()).await.unwrap();
    last_results(agent.messages()).remove(0)
}

#[tokio::test]
async fn failure_of_an_agent_is_an_error_result() {
    let config = || with_tools("a", &["act"]);
    let call = || calls([("x", "act", json!({}))]);
    let limits = UsageLimits::default().with_total_tokens_limit(5);
    let limited = LoopConfig { usage_limits: Some(limits), ..Default::default() };
    let failing = calls([("x", "act", json!({ "fail": "boom" }))]);
    let unauthorized = Reply::error(ProviderError::Authentication("bad key".into()));
    for (script, config, expected) in [
        (
            vec![call()],
            SubAgentConfig { max_turns: Some(1), ..config() },
            "c0: !the agent `a` failed: max turns reached (1)",
        ),
        (
            vec![call()],
            SubAgentConfig { settings: limited, ..config() },
            "c0: !the agent `a` failed: usage limit exceeded: total token limit exceeded: 11 > 5",
        ),
        (vec![failing], config(), "c0: !the agent `a` failed: tool error: execution failed: boom"),
        (
            vec![unauthorized],
            config(),
            "c0: !the agent `a` failed: provider error: authentication failed: bad key",
        ),
        (
            vec![text("I will not").stop_reason(StopReason::Refusal)],
            config(),
            "c0: !the agent `a` refused: I will not",
        ),
        // The model is asked for an answer twice.
        (
            vec![text(" "), text(""), text("\n")],
            config(),
            "c0: !the agent `a` ended without an answer",
        ),
        (
            vec![text("and then").stop_reason(StopReason::MaxTokens)],
            config(),
            "c0: and then\n\n[the answer was cut off]",
        ),
        (
            vec![call(), text("so far")],
            SubAgentConfig {
                max_turns: Some(1),
                settings: LoopConfig { on_limit: OnLimit::Finalize, ..Default::default() },
                ..config()
            },
            "c0: so far\n\n[the agent had to come to an end: max turns reached (1)]",
        ),
    ] {
        assert_eq!(result_of(script, config).await, expected);
    }
}

#[tokio::test]
async fn middleware_stays_around_the_tools_of_an_agent() {
    let scripts = Scripts::new([
        ("main", vec![asks(&["a"]), text("done")]),
        ("a", vec![calls([("x", "act", json!({})), ("y", "other", json!({}))]), text("done")]),
    ]);
    let (log, seen) = (Log::default(), Log::default());
    let mut tools = acting(&log);
    let (around_all, around_act) = (seen.clone(), seen.clone());
    tools.add_middleware(tool_middleware_fn(move |call, ctx, next| {
        around_all.push(format!("all {}", call.name));
        Box::pin(next.run(call, ctx))
    }));
    tools.add_tool_middleware(
        "act",
        tool_middleware_fn(move |call, _ctx, _next| {
            around_act.push(format!("act {}", call.name));
            Box::pin(async { Err(ToolError::ModelRetry("not now".into())) })
        }),
    );
    let mut agents = SubAgentManager::new();
    agents.register("a", with_tools("a", &["act", "other"]));
    agents.add_to(&mut tools, scripts.clone()).unwrap();
    let mut agent = Chat::new(main_agent(&scripts, tools));
    agent.run("start", &ToolContext::default()).await.unwrap();
    assert_eq!(seen.lines(), ["all a", "all act", "act act", "all other"]);
    assert_eq!(log.count("act"), 0);
    let inner = &scripts.of("a").requests()[1].messages;
    assert_eq!(last_results(inner), ["x: !not now", "y: ok"]);
}

#[tokio::test]
async fn agents_call_each_other_up_to_their_maximum_depth() {
    let depth =
        |tools: &[&str], name, max_depth| SubAgentConfig { max_depth, ..with_tools(name, tools) };
    // `self` may run inside itself twice. `deep` may run where it is called. `flat` may run only at the top level.
    let scripts = Scripts::new([
        ("main", vec![asks(&["self"]), text("done")]),
        ("self", vec![asks(&["self"]), asks(&["deep"]), text("inner"), text("outer")]),
        ("deep", vec![text("deepest")]),
    ]);
    let agents = [
        ("self", depth(&["self", "deep", "flat", "act"], "self", 2)),
        ("deep", depth(&["self"], "deep", 3)),
        ("flat", depth(&[], "flat", 1)),
    ];
    let mut agent = Chat::new(parent(&scripts, &Log::default(), agents));
    agent.run("start", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["c0: outer"]);
    let offered = |script: &str, request: usize| -> Vec<String> {
        let tools = &scripts.of(script).requests()[request].tools;
        tools.iter().map(|tool| tool.name.clone()).collect()
    };
    // At depth 1 both other agents may run below. `flat` may not run at depth 2.
    assert_eq!(offered("self", 0), ["act", "self", "deep"]);
    assert_eq!(offered("self", 1), ["act", "deep"]);
    assert_eq!(offered("deep", 0), Vec::<String>::new());
    assert_eq!(scripts.of("main").requests()[0].tools.len(), 5);
}

/// Checks that ten nested agents do not overflow the stack of a test thread in a build without optimisation.
#[tokio::test]
async fn ten_nested_agents_fit_on_the_stack() {
    for way in WAYS {
        let mut script: Vec<_> = (1..10).map(|_| asks(&["w"])).collect();
        script.extend((0..10).map(|_| text("w")));
        let scripts = Scripts::new([("main", vec![asks(&["w"]), text("done")]), ("w", script)]);
        let w = SubAgentConfig { max_depth: 10, ..with_tools("w", &["w"]) };
        let mut agent = Chat::new(parent(&scripts, &Log::default(), [("w", w)]));
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "done");
        scripts.of("w").assert_complete();
    }
}

/// Checks that an agent cannot run below its maximum depth, even if its caller belongs to another `SubAgentManager`.
#[tokio::test]
async fn agent_beyond_the_maximum_depth_is_an_error_result() {
    let scripts = Scripts::new([
        ("main", vec![asks(&["outer"]), text("done")]),
        ("outer", vec![asks(&["inner"]), text("so be it")]),
        ("inner", vec![]),
    ]);
    let mut tools = acting(&Log::default());
    let mut first = SubAgentManager::new();
    first.register("inner", with_tools("inner", &[]));
    first.add_to(&mut tools, scripts.clone()).unwrap();
    let mut second = SubAgentManager::new();
    second.register("outer", with_tools("outer", &["inner"]));
    second.add_to(&mut tools, scripts.clone()).unwrap();
    let mut agent = Chat::new(main_agent(&scripts, tools));
    agent.run("start", &ToolContext::default()).await.unwrap();
    let too_deep = "c0: !the agent `inner` would run at depth 2, and may at 1 at the most";
    assert_eq!(last_results(&scripts.of("outer").requests()[1].messages), [too_deep]);
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_response_run_concurrently() {
    let worker = || {
        vec![
            calls([("x", "act", json!({ "sleep": 5 }))]),
            text("done").delay(Duration::from_secs(1)),
        ]
    };
    let scripts = Scripts::new([
        ("main", vec![asks(&["a", "b", "c"]), text("done")]),
        ("a", worker()),
        ("b", worker()),
        ("c", worker()),
    ]);
    let log = Log::default();
    let agents = ["a", "b", "c"].map(|name| (name, with_tools(name, &["act"])));
    let builder = parent(&scripts, &log, agents);
    let mut agent = Chat::new(builder.config(|config| config.parallel_tool_execution = true));
    let ctx = ToolContext { run_id: "r".into(), ..Default::default() };
    let start = tokio::time::Instant::now();
    agent.run("start", &ctx).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(6));
    let mut keys = log.lines();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["act r/0/0/0/c0/a/0/0/0/x", "act r/0/0/1/c1/b/0/0/0/x", "act r/0/0/2/c2/c/0/0/0/x",]
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_ends_with_its_agents() {
    for way in WAYS {
        for parallel in [false, true] {
            let scripts = Scripts::new([
                ("main", vec![asks(&["a", "b"])]),
                ("a", vec![calls([("x", "act", json!({ "hang": true }))])]),
                ("b", vec![Reply::hang()]),
            ]);
            let agents = ["a", "b"].map(|name| (name, with_tools(name, &["act"])));
            let builder = parent(&scripts, &Log::default(), agents);
            let mut agent = Chat::new(builder.config(|config| {
                config.parallel_tool_execution = parallel;
                config.tool_errors = ToolErrorPolicy::ReturnToModel;
            }));
            let ctx = ToolContext::default();
            let cancel = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ctx.cancellation_token.cancel();
            };
            let start = tokio::time::Instant::now();
            let (ended, ()) = tokio::join!(run(way, &mut agent, &ctx), cancel);
            assert!(matches!(ended, Err(LoopError::Cancelled)), "{ended:?}");
            assert_eq!(start.elapsed(), Duration::from_secs(1));
            assert_eq!(last_results(agent.messages()).len(), 2);
        }
    }
}

/// Checks that the model can call sub-agents in a run with a typed output, and that their tokens are counted.
#[tokio::test]
async fn typed_run_can_give_tasks_to_agents() {
    #[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Total {
        sum: u64,
    }
    let output = calls([("o", "final_output", json!({ "sum": 4 }))]);
    let scripts =
        Scripts::new([("main", vec![asks(&["a"]), output]), ("a", vec![text("two and two")])]);
    let mut agent = Chat::new(parent(&scripts, &Log::default(), [("a", with_tools("a", &[]))]));
    let message = Message { role: Role::User, content: vec![ContentBlock::Text("sum".into())] };
    let result = agent.run(message, &ToolContext::default()).typed::<Total>().await.unwrap();
    assert_eq!(result.output, Total { sum: 4 });
    assert_eq!(agent.conversation.usage(), &usage(30, 3));
}

#[test]
fn agent_tool_works_as_a_dyn_tool() {
    let mut agents = SubAgentManager::new();
    agents.register("a", SubAgentConfig::default());
    let tools = agents.into_tools(&Default::default(), ScriptedProvider::default()).unwrap();
    let tool: Arc<dyn ToolDyn> = Arc::new(tools.into_iter().next().unwrap());
    assert_eq!((tool.name(), tool.runs_alone()), ("a", false));
}
