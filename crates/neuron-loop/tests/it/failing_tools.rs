//! Results that the model receives from failing tools, and the limit of retries.

use std::sync::Arc;

use neuron_loop::{LoopConfig, LoopError, ToolErrorPolicy};
use neuron_testing::Reply;
use neuron_types::{ToolContext, ToolError, ToolOutput};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn return_to_model_makes_every_failure_a_result() {
    for (way, parallel) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let invalid = neuron_types::ToolCall::invalid_json_input("{\"a\": ");
        let setup = setup([
            Reply::tool_calls([
                ("c0", "act", json!({"fail": "disk full"})),
                ("c1", "nothing", json!({})),
                ("c2", "act", invalid),
                ("c3", "act", json!({"text": "fine"})),
            ]),
            Reply::text("done"),
        ]);
        let hook = Recorder::default();
        let builder = setup.builder.hook(hook.clone()).parallel_tool_execution(parallel);
        let mut agent = builder.tool_errors(ToolErrorPolicy::ReturnToModel).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "done");
        let results = last_results(&result.messages);
        assert_eq!(
            results[..2],
            [
                "c0: !execution failed: disk full",
                "c1: !tool not found: nothing; the tools are: act",
            ]
        );
        assert!(
            results[2].starts_with("c2: !invalid input: the arguments of `act` are not JSON"),
            "{results:?}"
        );
        assert_eq!(results[3], "c3: fine");
        assert_eq!(setup.log.count("start"), 2, "arguments that are no JSON never run");
        check_pairs(&hook.log.lines());
        check_valid(&result.messages);
    }
}

#[tokio::test]
async fn panic_is_a_result_under_both_policies() {
    for errors in [ToolErrorPolicy::EndRun, ToolErrorPolicy::ReturnToModel] {
        let setup = setup([calls([json!({"panic": true}), json!({})]), Reply::text("done")]);
        let mut agent = setup.builder.tool_errors(errors).parallel_tool_execution(true).build();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        let results = last_results(&result.messages);
        assert!(results[0].starts_with("c0: !`act` failed unexpectedly"), "{results:?}");
        assert_eq!(results[1], "c1: ok");
    }
}

#[tokio::test]
async fn cancelled_run_ends_under_both_policies() {
    let setup = setup([calls([json!({"cancelled": true})])]);
    let mut agent = setup.builder.tool_errors(ToolErrorPolicy::ReturnToModel).build();
    let ctx = ToolContext::default();
    let token = ctx.cancellation_token.clone();
    let (ended, ()) = tokio::join!(agent.run_text("go", &ctx), async move { token.cancel() });
    assert!(matches!(ended, Err(LoopError::Cancelled)));
}

fn limited(retries: usize) -> LoopConfig {
    LoopConfig {
        tool_retry_limit: Some(retries),
        tool_errors: ToolErrorPolicy::ReturnToModel,
        ..Default::default()
    }
}

#[tokio::test]
async fn n_retries_allow_n_plus_one_attempts() {
    for (way, retries) in WAYS.into_iter().flat_map(|way| [0, 1, 3].map(|retries| (way, retries))) {
        let wrong = || calls([json!({"retry": "again"}), json!({"retry": "again"})]);
        let setup = setup((0..=retries).map(|_| wrong()));
        let mut agent = setup.builder.config(limited(retries)).build();
        let ctx = ToolContext::default();
        let error = run(way, &mut agent, &ctx).await.unwrap_err();
        let turns = retries + 1;
        let text = format!("calls of `act` failed in {turns} turns in a row: no retry is left");
        assert!(error.contains(&text), "{error}");
        assert_eq!(setup.provider.requests().len(), turns, "turns count, and not calls");
        assert_eq!(last_results(agent.messages()), ["c0: !again", "c1: !again"]);
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn success_or_new_run_resets_the_retry_counter() {
    let wrong = || calls([json!({"fail": "no"})]);
    let setup = setup([
        wrong(),
        calls([json!({"fail": "no"}), json!({"text": "yes"})]),
        wrong(),
        Reply::text("first"),
        wrong(),
        Reply::text("second"),
    ]);
    let mut agent = setup.builder.config(limited(1)).build();
    let ctx = ToolContext::default();
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "first");
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "second");
}

#[tokio::test]
async fn unknown_tools_share_one_retry_counter() {
    let unknown = |name: &'static str| Reply::tool_calls([("c0", name, json!({}))]);
    let setup = setup([unknown("foo"), unknown("bar"), unknown("baz")]);
    let mut agent = setup.builder.config(limited(1)).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    let LoopError::Tool(ToolError::InvalidInput(text)) = &error else { panic!("{error:?}") };
    assert!(text.contains("tools that do not exist in 2 turns in a row"), "{text}");
    assert_eq!(setup.provider.requests().len(), 2);
}

/// Regression test. Nothing reset the counter of unknown tools, so calls in turns that were far apart ended the run.
#[tokio::test]
async fn turn_without_unknown_tools_resets_their_counter() {
    let unknown = || Reply::tool_calls([("c0", "foo", json!({}))]);
    let beside = Reply::tool_calls([("c0", "bar", json!({})), ("c1", "act", json!({}))]);
    let known = || calls([json!({})]);
    let failing = || calls([json!({"fail": "no"})]);
    let replies = [unknown(), known(), unknown(), failing(), unknown(), known(), beside, unknown()];
    let count = replies.len();
    let setup = setup(replies);
    let mut agent = setup.builder.config(limited(1)).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err().to_string();
    assert!(error.contains("tools that do not exist in 2 turns in a row"), "{error}");
    assert_eq!(setup.provider.requests().len(), count);
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_respect_the_maximum() {
    for (most, elapsed) in [(0, 50), (1, 50), (2, 30), (5, 10), (9, 10)] {
        let setup = setup([
            calls((0..5).map(|n| json!({"delay": 10, "text": n.to_string()}))),
            Reply::text("done"),
        ]);
        let builder = setup.builder.parallel_tool_execution(true);
        let mut agent = builder.max_parallel_tools(most).build();
        let begin = tokio::time::Instant::now();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(begin.elapsed().as_millis(), elapsed, "{most} at once");
        let texts: Vec<_> = (0..5).map(|n| format!("c{n}: {n}")).collect();
        assert_eq!(last_results(&result.messages), texts);
        let (mut running, mut highest) = (0, 0);
        for line in setup.log.lines() {
            running += if line.starts_with("start") { 1 } else { -1 };
            highest = highest.max(running);
        }
        assert_eq!(highest, i32::try_from(most.clamp(1, 5)).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn queued_calls_do_not_start_after_a_failure() {
    let setup = setup([
        calls([json!({"delay": 1, "fail": "boom"}), json!({"delay": 5}), json!({}), json!({})]),
        Reply::text("recovered"),
    ]);
    let hook = Recorder::default();
    let builder = setup.builder.parallel_tool_execution(true).hook(hook.clone());
    let mut agent = builder.max_parallel_tools(2).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap_err();
    let not_executed = "![not executed: another tool call of the same answer failed]";
    assert_eq!(
        last_results(agent.messages()),
        [
            "c0: !execution failed: boom".to_owned(),
            "c1: ok".to_owned(),
            format!("c2: {not_executed}"),
            format!("c3: {not_executed}"),
        ]
    );
    assert_eq!(setup.log.count("start"), 2);
    check_pairs(&hook.log.lines());
    agent.run_text("go on", &ctx).await.unwrap();
}

/// The tool `act`, which must not run concurrently with other calls.
struct Alone(Act);

impl neuron_types::ToolDyn for Alone {
    fn name(&self) -> &str {
        "alone"
    }

    fn definition(&self) -> neuron_types::ToolDefinition {
        Act::definition_of("alone")
    }

    fn call_dyn<'a>(
        &'a self,
        input: serde_json::Value,
        ctx: &'a ToolContext,
    ) -> neuron_types::WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.call_dyn(input, ctx)
    }

    fn runs_alone(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn tool_that_runs_alone_has_no_concurrent_call() {
    let delay = |ms: u64| json!({ "delay": ms });
    let setup = setup([
        Reply::tool_calls([
            ("c0", "act", delay(20)),
            ("c1", "act", delay(10)),
            ("c2", "alone", delay(5)),
            ("c3", "alone", delay(5)),
            ("c4", "act", delay(2)),
            ("c5", "act", delay(1)),
        ]),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.parallel_tool_execution(true).build();
    let alone = Alone(Act { name: "alone", log: setup.log.clone() });
    let mut others = neuron_tool::ToolRegistry::new();
    others.register_dyn(Arc::new(alone));
    agent.tools_mut().merge_prefixed("", others).unwrap();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(
        setup.log.lines(),
        [
            "start c0", "start c1", "end c1", "end c0", "start c2", "end c2", "start c3", "end c3",
            "start c4", "start c5", "end c5", "end c4",
        ]
    );
    assert_eq!(last_results(&result.messages).len(), 6);
}
