//! Tests of the calls of a batch that run, run again, or must not run again.

mod scopes;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use neuron_durable::{DurableOptions, UnknownOutcome};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, DurableContext, DurableError, KnownEffect, RunSnapshot, Start, ToolContext,
    ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolInvocation, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::test_support::{Echo, forget, invocation, look, place, silent, text_of};
use crate::{SqliteDurableContext, SqliteRuns};

type Durable = SqliteDurableContext<neuron_testing::ScriptedProvider>;

async fn open(runs: &SqliteRuns, tools: &[Echo], unknown: UnknownOutcome) -> Durable {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(Arc::new(tool.clone()));
    }
    let opened = runs
        .run("r")
        .options(DurableOptions::new().unknown_outcome(unknown))
        .open(silent(), Arc::new(registry))
        .await;
    opened.unwrap()
}

fn batch(tools: &[Echo]) -> Vec<ToolInvocation> {
    let call = |tool: &Echo| invocation(tool.name, json!({"n": 1})).with_effect(tool.effect);
    tools.iter().map(call).collect()
}

async fn texts(durable: &Durable, batch: Vec<ToolInvocation>) -> Vec<String> {
    let ran = durable.execute_tools(batch, ActivityOptions::default()).await;
    let text = |ran: Result<ToolOutput, DurableError>| match ran {
        Ok(output) => text_of(&output),
        Err(error) => format!("error: {error}"),
    };
    ran.into_iter().map(text).collect()
}

fn three() -> [Echo; 3] {
    [
        Echo::new("look", ToolEffect::Pure),
        Echo::new("put", ToolEffect::Idempotent),
        Echo::new("pay", ToolEffect::AtMostOnce),
    ]
}

#[tokio::test]
async fn ended_calls_do_not_run_again_and_count_tokens_once() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tools = three();
    let first = {
        let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
        texts(&durable, batch(&tools)).await
    };
    assert_eq!(first[1], r#"{"n":1} key-put"#);
    let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
    assert!(durable.is_replaying());
    let calls = batch(&tools);
    let meters: Vec<_> = calls.iter().map(|call| call.ctx.usage.clone()).collect();
    assert_eq!(texts(&durable, calls).await, first);
    assert!(meters.iter().all(|meter| meter.total().output_tokens == 5));
    assert!(tools.iter().all(|tool| tool.ran() == 1));
    assert!(!durable.is_replaying());
}

#[tokio::test]
async fn replay_with_another_effect_key_is_an_error_that_names_it() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let tools = [Echo::new("pay", ToolEffect::AtMostOnce)];
    let keyed = |key: Option<&str>| {
        let mut calls = batch(&tools);
        calls[0].effect_key = key.map(str::to_owned);
        calls
    };
    let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
    texts(&durable, keyed(Some("invoice 17"))).await;
    drop(durable);
    for (key, shown) in [(Some("invoice 18"), "`invoice 18`"), (None, "none")] {
        let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
        let error = texts(&durable, keyed(key)).await.remove(0);
        let named = format!("effect_key of `pay`: {shown}");
        assert!(error.contains("effect_key of `pay`: `invoice 17`"), "{error}");
        assert!(error.contains(&named), "{error}");
    }
    let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
    assert_eq!(texts(&durable, keyed(Some("invoice 17"))).await.len(), 1);
    assert_eq!(tools[0].ran(), 1);
}

#[tokio::test]
async fn effect_key_that_changes_after_a_new_execution_is_named() {
    let tools = [Echo::new("pay", ToolEffect::AtMostOnce)];
    let keyed = |key: Option<&str>| {
        let mut calls = batch(&tools);
        calls[0].effect_key = key.map(str::to_owned);
        calls
    };
    let known = KnownEffect { tool: "pay".into(), key: "17".into(), output: None };
    let state = || {
        let mut snapshot = RunSnapshot::new("run", Vec::new());
        snapshot.effects = vec![known.clone()];
        Start::from(snapshot)
    };
    let shown = |key: Option<&str>| {
        let key = key.map_or("none".into(), |key| format!("`{key}`"));
        format!("effect_key of `pay`: {key}")
    };
    for (before, after) in [(Some("17"), Some("18")), (Some("18"), Some("17")), (None, Some("17"))]
    {
        let runs = SqliteRuns::open(":memory:").await.unwrap();
        let first = open(&runs, &tools, UnknownOutcome::TellModel).await;
        first.start(state()).await.unwrap();
        let calls = texts(&first, keyed(before)).await;
        drop(first);
        let second = open(&runs, &tools, UnknownOutcome::TellModel).await;
        second.start(state()).await.unwrap();
        let error = texts(&second, keyed(after)).await.remove(0);
        assert!(error.contains(&shown(before)) && error.contains(&shown(after)), "{error}");
        drop(second);
        let third = open(&runs, &tools, UnknownOutcome::TellModel).await;
        third.start(state()).await.unwrap();
        assert_eq!(texts(&third, keyed(before)).await, calls);
    }
    assert_eq!(tools[0].ran(), 2);
}

#[tokio::test]
async fn unfinished_calls_run_again_or_have_an_unknown_outcome() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tools = three();
    let first = {
        let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
        texts(&durable, batch(&tools)).await
    };
    // As if the process had been killed after the first call ended, and before the others ended.
    forget(&path, &[1, 2]);

    // With `Fail` no call runs, and nothing is written.
    {
        let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
        for text in texts(&durable, batch(&tools)).await {
            assert!(text.contains("the outcome of a call of `pay` is unknown"), "{text}");
        }
        assert_eq!(tools.each_ref().map(Echo::ran), [1, 1, 1]);
        assert_eq!(runs.inspect("r").await.unwrap().steps[1].attempts, 1);
    }

    let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
    let again = texts(&durable, batch(&tools)).await;
    assert_eq!(tools.each_ref().map(Echo::ran), [1, 2, 1]);
    assert_eq!(again[..2], first[..2]);
    assert!(again[2].starts_with("The outcome of this call of `pay` is unknown"), "{}", again[2]);
    let steps = runs.inspect("r").await.unwrap().steps;
    assert_eq!(steps.iter().map(|step| step.attempts).collect::<Vec<_>>(), [1, 2, 1]);
    drop(durable);

    // The stored unknown outcome stays, whatever the option is now.
    let durable = open(&runs, &tools, UnknownOutcome::Fail).await;
    assert_eq!(texts(&durable, batch(&tools)).await, again);
    assert_eq!(tools.each_ref().map(Echo::ran), [1, 2, 1]);
}

#[tokio::test]
async fn more_careful_of_old_and_new_effect_decides() {
    use ToolEffect::{AtMostOnce, Idempotent, Pure};
    for (then, now, runs_again) in [
        (Pure, Idempotent, true),
        (Idempotent, Pure, true),
        (AtMostOnce, Pure, false),
        (Pure, AtMostOnce, false),
    ] {
        let (_folder, path) = place();
        let runs = SqliteRuns::open(&path).await.unwrap();
        let tools = |effect| [Echo::new("put", effect)];
        let durable = open(&runs, &tools(then), UnknownOutcome::TellModel).await;
        texts(&durable, batch(&tools(then))).await;
        drop(durable);
        forget(&path, &[0]);
        let now = tools(now);
        let durable = open(&runs, &now, UnknownOutcome::TellModel).await;
        // The caller's effect may be out of date, so the effect of the tool counts too.
        let calls = vec![invocation("put", json!({"n": 1})).with_effect(Pure)];
        texts(&durable, calls).await;
        assert_eq!(now[0].ran() == 1, runs_again, "{then:?} {now:?}");
    }
}

#[tokio::test]
async fn second_attempt_has_the_idempotency_key_of_the_first() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tools = [Echo::new("put", ToolEffect::Idempotent)];
    let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
    let first = texts(&durable, batch(&tools)).await;
    drop(durable);
    forget(&path, &[0]);
    let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
    let mut calls = batch(&tools);
    calls[0].ctx.idempotency_key = "another".into();
    assert_eq!(texts(&durable, calls).await, first);
    assert_eq!(tools[0].ran(), 2);
}

#[tokio::test]
async fn parallel_calls_store_each_result_as_soon_as_it_ends() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let gate = Gate::default();
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(gate.clone()));
    registry.register_dyn(Arc::new(Echo::new("pay", ToolEffect::AtMostOnce)));
    let durable = runs.run("r").open(silent(), Arc::new(registry)).await.unwrap();
    let calls = || {
        let pay = invocation("pay", json!({})).with_effect(ToolEffect::AtMostOnce);
        vec![invocation("gate", json!({})).with_effect(ToolEffect::AtMostOnce), pay]
    };
    {
        let mut ran = Box::pin(texts(&durable, calls()));
        // Polls until the second call has ended. The first call is still in progress.
        while look(&path, "SELECT count(record) FROM steps") == 0 {
            let poll = std::future::poll_fn(|cx| Poll::Ready(ran.as_mut().poll(cx).is_pending()));
            assert!(poll.await);
            tokio::task::yield_now().await;
        }
        let steps = runs.inspect("r").await.unwrap().steps;
        assert!(steps[0].ended_at.is_none() && steps[1].ended_at.is_some());
    }
    // The run was dropped here. The same context continues it, as another process would.
    durable.start("x").await.unwrap();
    let again = texts(&durable, calls()).await;
    assert!(again[0].starts_with("The outcome of this call of `gate` is unknown"), "{again:?}");
    assert_eq!(again[1], "{} key-pay");
    assert_eq!(gate.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn call_that_stops_on_cancellation_has_not_ended() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tools = [Failing("stop", || ToolError::Cancelled)];
    let durable = open_dyn(&runs, tools).await;
    let calls = vec![invocation("stop", json!({}))];
    calls[0].ctx.cancellation_token.cancel();
    assert_eq!(texts(&durable, calls).await, ["error: tool error: cancelled"]);
    assert!(runs.inspect("r").await.unwrap().steps[0].ended_at.is_none());
    // A tool that returns `Cancelled` without a cancellation has ended.
    let calls = || vec![invocation("stop", json!({}))];
    assert_eq!(texts(&durable, calls()).await, ["error: tool error: cancelled"]);
    let step = &runs.inspect("r").await.unwrap().steps[0];
    assert_eq!((step.error.as_deref(), step.attempts), (Some("Cancelled"), 2));
}

#[tokio::test]
async fn tool_errors_and_retry_hints_are_replayed() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let names = ["retry", "fail", "missing"];
    let batch = || names.map(|name| invocation(name, json!({}))).to_vec();
    let mut all = Vec::new();
    for _ in 0..2 {
        let tools = [
            Failing("retry", || ToolError::ModelRetry("use meters".into())),
            Failing("fail", || ToolError::ExecutionFailed("on fire".into())),
        ];
        let durable = open_dyn(&runs, tools).await;
        let ran = durable.execute_tools(batch(), ActivityOptions::default()).await;
        assert!(
            matches!(&ran[0], Err(DurableError::Tool(ToolError::ModelRetry(hint))) if hint == "use meters")
        );
        assert!(matches!(&ran[2], Err(DurableError::Tool(ToolError::NotFound(_)))));
        all.push(ran.into_iter().map(|ran| ran.unwrap_err().to_string()).collect::<Vec<_>>());
    }
    assert_eq!(all[0], all[1]);
    let steps = runs.inspect("r").await.unwrap().steps;
    let errors: Vec<_> = steps.iter().filter_map(|step| step.error.as_deref()).collect();
    assert_eq!(errors, ["ModelRetry", "ExecutionFailed", "NotFound"]);
    assert!(steps.iter().all(|step| step.attempts == 1));
}

#[tokio::test]
async fn too_long_arguments_or_results_are_errors_with_the_tool_name() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let echo = Echo::new("echo", ToolEffect::AtMostOnce);
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(echo.clone()));
    let registry = Arc::new(registry);
    let call = |length| vec![invocation("echo", json!("x".repeat(length)))];
    let mut all = Vec::new();
    for _ in 0..2 {
        let opened = runs
            .run("r")
            .options(DurableOptions::new().record_limit(1000))
            .open(silent(), registry.clone())
            .await;
        let durable = opened.unwrap();
        // The result is longer than the arguments.
        let ran = [texts(&durable, call(950)).await, texts(&durable, call(2000)).await].concat();
        all.push(ran);
    }
    let [first, again] = &all[..] else { panic!() };
    assert!(first[0].contains("the result of `echo` takes 1"), "{}", first[0]);
    assert!(first[1].contains("the arguments of `echo` take 2002 bytes"), "{}", first[1]);
    assert_eq!(first, again);
    assert_eq!(echo.ran(), 1, "it ran with arguments that are too long, or twice");
}

#[tokio::test]
async fn single_call_runs_as_a_batch_of_one() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tools = [Echo::new("pay", ToolEffect::AtMostOnce)];
    for _ in 0..2 {
        let durable = open(&runs, &tools, UnknownOutcome::TellModel).await;
        let ctx = invocation("pay", json!(null)).ctx;
        let ran = durable.execute_tool("pay", json!({}), &ctx, ActivityOptions::default()).await;
        assert_eq!(text_of(&ran.unwrap()), "{} key-pay");
        assert!(durable.execute_tools(Vec::new(), ActivityOptions::default()).await.is_empty());
    }
    assert_eq!(tools[0].ran(), 1);
    let step = &runs.inspect("r").await.unwrap().steps[0];
    assert_eq!((step.key.as_str(), step.effect), ("tools/0/0", Some(ToolEffect::AtMostOnce)));
}

async fn open_dyn(runs: &SqliteRuns, tools: impl IntoIterator<Item = Failing>) -> Durable {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(Arc::new(tool));
    }
    runs.run("r").open(silent(), Arc::new(registry)).await.unwrap()
}

/// A tool with this name, whose calls fail with the error that the function returns.
struct Failing(&'static str, fn() -> ToolError);

impl ToolDyn for Failing {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        Echo::new(self.0, ToolEffect::Pure).definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Err((self.1)()) })
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }
}

/// A tool whose calls never end. The number counts the calls.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicUsize>);

impl ToolDyn for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn definition(&self) -> ToolDefinition {
        Echo::new("gate", ToolEffect::Pure).definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}
