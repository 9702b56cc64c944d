//! Tests of long runs, large payloads, and models that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use neuron_durable_temporal::{FilePayloadStore, ModelCalls, PayloadStore, TemporalOptions};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentResult, BoxError, ContentBlock, Durability, DurableContext, DurableError,
    LoopError, ProviderError, RetryPolicy, Start, ToolContext, ToolEffect, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::json;

use crate::host::{
    Agent, Does, Model, TestContext, answer, call, done, durable, failed, options, said, text,
    turns,
};

fn echo() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("echo", ToolEffect::Pure, |input, _| async move {
        let bytes = input["bytes"].as_u64().unwrap_or_default() as usize;
        Ok(ToolOutput::text("e".repeat(bytes)))
    }));
    tools
}

/// Returns a model that calls the tool `echo` `times` times, and then responds `done`. `argument` and `result` are the
/// lengths in bytes of the argument and the result of each call.
fn echoes(times: usize, argument: usize, result: usize) -> Model {
    Model::new(move |request| {
        let turn = turns(request);
        let input = json!({"bytes": result, "argument": "a".repeat(argument)});
        Ok(match turn < times {
            true => answer(turn, vec![call(&format!("c{turn}"), "echo", input)]),
            false => answer(turn, vec![text("done")]),
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn continued_run_keeps_its_usage_and_signals() {
    let options = TemporalOptions::from(durable().continue_after(4));
    let Some(bench) = TestContext::new("continues", &options).await else { return };
    let _worker = bench.serve(echoes(9, 10, 10), echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    assert_eq!((result.response.as_str(), result.turns), ("done", 10));
    assert_eq!(result.usage.input_tokens, (10..20).sum::<usize>());
    assert_eq!(result.messages.len(), 20);
    // The last execution began with an empty history.
    let history = String::from_utf8(run.history().await.unwrap()).unwrap();
    assert!(history.contains("\"continued_execution_run_id\":\""), "{history}");
    assert!(!history.contains("\"continued_execution_run_id\":\"\""), "it is the first one");
    assert!(history.matches("\"event_id\"").count() < 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_continues_although_queued_signals_leave_no_room() {
    let options = TemporalOptions::from(durable().continue_after(3).record_limit(20_000));
    let Some(bench) = TestContext::new("no-room", &options).await else { return };
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    for _ in 0..3 {
        run.signal("nobody", &"x".repeat(8_000)).await.unwrap();
    }
    let _worker = bench.serve(echoes(6, 10, 10), echo, Agent::new(echo), &options);
    let outcome = run.outcome().await.unwrap();
    let result = outcome.result.clone().unwrap();
    assert_eq!((result.turns, outcome.is_cut), (7, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_run_with_large_messages_fails_without_a_store() {
    let options = TemporalOptions::from(durable().continue_after(20));
    let Some(bench) = TestContext::new("long", &options).await else { return };
    // With up to 20 results of 100 KB, the state is longer than a payload may be.
    let worker = bench.serve(echoes(30, 10, 100_000), echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let failure = failed(&run).await;
    assert!(failure.text.contains("payload_store"), "{}", failure.text);
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_turns_with_large_messages_succeed_with_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = FilePayloadStore::new(directory.path().join("payloads"));
    let options = TemporalOptions::from(durable().continue_after(150)).payload_store(store);
    let Some(bench) = TestContext::new("store", &options).await else { return };
    let _worker = bench.serve(echoes(200, 500, 8_000), echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let begin = Instant::now();
    let outcome = run.outcome().await.unwrap();
    let result = outcome.result.clone().unwrap();
    println!("200 turns in {:?}", begin.elapsed());
    assert_eq!((result.turns, result.messages.len()), (201, 402));
    assert!(!outcome.is_cut);
    let stored: u64 = std::fs::read_dir(directory.path().join("payloads"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    // The store has the states of three executions and the result. It has no requests, which have 170 MB in total.
    assert!((3_000_000..8_000_000).contains(&stored), "{stored}");
}

/// A payload store whose first `put` and `get` operations fail.
struct Flaky {
    files: FilePayloadStore,
    failures: AtomicUsize,
}

impl Flaky {
    fn fails(&self) -> Result<(), BoxError> {
        let less = |left: usize| left.checked_sub(1);
        match self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err("the store is away".into()),
            Err(_) => Ok(()),
        }
    }
}

impl PayloadStore for Flaky {
    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: &'a [u8],
    ) -> WasmBoxedFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            self.fails()?;
            self.files.put(key, bytes).await
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>> {
        Box::pin(async move {
            self.fails()?;
            self.files.get(key).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn short_outage_of_the_store_repeats_no_model_call() {
    let directory = tempfile::tempdir().unwrap();
    let store = Flaky {
        files: FilePayloadStore::new(directory.path().join("payloads")),
        failures: AtomicUsize::new(4),
    };
    let options = options().payload_store(store);
    let Some(bench) = TestContext::new("flaky-store", &options).await else { return };
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(answer(turns(request), vec![text("y".repeat(200_000))]))
    });
    let _worker = bench.serve(model, echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    assert_eq!((result.response.len(), calls.load(Ordering::SeqCst)), (200_000, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_results_and_arguments_are_errors_that_name_the_tool() {
    let options = TemporalOptions::from(durable().record_limit(200_000)).environment(["LONG"]);
    let Some(bench) = TestContext::new("large", &options).await else { return };
    let model = Model::new(|request| {
        let turn = turns(request);
        let big = |bytes: usize| json!({"bytes": 10, "argument": "a".repeat(bytes)});
        Ok(answer(
            turn,
            match turn {
                0 => vec![call("result", "echo", json!({"bytes": 300_000}))],
                1 => vec![call("argument", "echo", big(199_000))],
                2 => vec![text("done")],
                _ => unreachable!(),
            },
        ))
    });
    let _worker = bench.serve(model, echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    assert_eq!(result.response, "done");
    let errors: Vec<_> = result
        .messages
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(|block| match block {
            ContentBlock::ToolResult { is_error: true, .. } => {
                Some(serde_json::to_string(block).unwrap())
            }
            _ => None,
        })
        .collect();
    // The second call just fits, because the working directory and the environment of its worker do not count.
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("the result of `echo` takes"), "{errors:?}");

    /// An agent that calls a tool directly, without a model response.
    fn calls(
        _: Start,
        durability: Durability<'_>,
    ) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            let (input, ctx) = (json!({"argument": "a".repeat(200_000)}), ToolContext::default());
            let called = durability.execute_tool("echo", input, &ctx, ActivityOptions::default());
            match called.await {
                Err(DurableError::Tool(error)) => said(error.to_string()),
                other => panic!("{other:?}"),
            }
        })
    }
    let bench = TestContext::new("large-call", &options).await.unwrap();
    let _worker = bench.serve(echoes(0, 0, 0), echo, calls, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    let told = result.response;
    assert!(told.contains("the call of `echo` takes"), "{told}");

    // A response that is too long ends the run, and the model is not called again.
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(answer(turns(request), vec![text("y".repeat(3 << 20))]))
    });
    let bench = TestContext::new("large-answer", &options).await.unwrap();
    let _worker = bench.serve(model, echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let failure = failed(&run).await;
    assert!(failure.text.contains("the model's answer takes"), "{}", failure.text);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// An agent that records two values, and responds with the result of the second one.
fn records(
    _: Start,
    context: Durability<'_>,
) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
    Box::pin(async move {
        let value = |bytes: usize| json!("v".repeat(bytes));
        assert_eq!(context.record("short", value(99_000)).await?, value(99_000));
        match context.record("plan", value(100_000)).await {
            Err(error) => said(error.to_string()),
            Ok(_) => said("recorded".into()),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_recorded_value_is_an_error_that_names_it() {
    let options = TemporalOptions::from(durable().record_limit(100_000));
    let Some(bench) = TestContext::new("large-value", &options).await else { return };
    let _worker = bench.serve(echoes(0, 0, 0), echo, records, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    let told = result.response;
    assert!(told.contains("the value/plan takes 100002 bytes"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_request_for_an_activity_suggests_local_calls() {
    let options =
        TemporalOptions::from(durable().record_limit(100_000)).model_calls(ModelCalls::Activity);
    let Some(bench) = TestContext::new("large-request", &options).await else { return };
    let _worker = bench.serve(echoes(9, 10, 30_000), echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let failure = failed(&run).await;
    assert!(failure.text.contains("ModelCalls::Local"), "{}", failure.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_with_megabytes_of_arguments_and_results_succeeds() {
    let options = options();
    let Some(bench) = TestContext::new("batch", &options).await else { return };
    let model = Model::new(|request| {
        let turn = turns(request);
        let big = |index: usize| {
            let input = json!({"bytes": 150_000, "argument": "a".repeat(90_000)});
            call(&format!("c{index}"), "echo", input)
        };
        Ok(answer(
            turn,
            match turn {
                0 => (0..10).map(big).collect(),
                _ => vec![text("done")],
            },
        ))
    });
    let _worker = bench.serve(model, echo, Agent::new(echo), &options);
    let outcome = bench.runs.start(&bench.queue, "go").await.unwrap().outcome().await.unwrap();
    let result = outcome.result.clone().unwrap();
    assert!(outcome.is_cut && result.messages.is_empty());
    assert_eq!((result.response.as_str(), result.turns), ("done", 2));
}

fn policy(attempts: u32) -> RetryPolicy {
    RetryPolicy {
        initial_interval: Duration::from_millis(20),
        backoff_coefficient: 2.0,
        maximum_attempts: attempts,
        maximum_interval: Duration::from_secs(2),
        non_retryable_errors: vec!["ServiceUnavailable".into()],
    }
}

/// Returns a model whose first `times` calls fail with `error`, and a counter of its calls.
fn failing(times: usize, error: fn() -> ProviderError) -> (Model, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| match counted.fetch_add(1, Ordering::SeqCst) < times {
        true => Err(error()),
        false => Ok(answer(turns(request), vec![text("done")])),
    });
    (model, calls)
}

async fn retries(model_calls: ModelCalls) {
    let options = options().model_calls(model_calls).model_retry(policy(3));
    let limited = || ProviderError::RateLimit { retry_after: Some(Duration::from_millis(1200)) };
    let unavailable = || ProviderError::ServiceUnavailable("closed".into());
    let network = || ProviderError::Network("cut".into());
    // Number of failures, the error, the expected result of the run, and the expected number of calls.
    type Case = (usize, fn() -> ProviderError, Result<(), &'static str>, usize);
    let cases: [Case; 4] = [
        (2, network, Ok(()), 3),
        (3, network, Err("cut"), 3),
        (1, limited, Ok(()), 2),
        (1, unavailable, Err("closed"), 1),
    ];
    for (times, error, expected, calls) in cases {
        let Some(bench) = TestContext::new("retries", &options).await else { return };
        let (model, counted) = failing(times, error);
        let _worker = bench.serve(model, echo, Agent::new(echo), &options);
        let begin = Instant::now();
        let outcome = bench.runs.start(&bench.queue, "go").await.unwrap().outcome().await.unwrap();
        match (outcome.into_result(), expected) {
            (Ok(result), Ok(())) => assert_eq!(result.response, "done"),
            (Err(failure), Err(text)) => {
                assert!(failure.kind == "Provider" && failure.text.contains(text));
            }
            (ended, expected) => panic!("{ended:?}, where {expected:?} was expected"),
        }
        assert_eq!(counted.load(Ordering::SeqCst), calls);
        if matches!(error(), ProviderError::RateLimit { .. }) {
            assert!(begin.elapsed() >= Duration::from_millis(1200));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_local_model_call_is_retried_by_the_policy() {
    retries(ModelCalls::Local).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_model_activity_is_retried_by_the_policy() {
    retries(ModelCalls::Activity).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_model_is_called_once() {
    for model_calls in [ModelCalls::Local, ModelCalls::Activity] {
        let options = options().model_calls(model_calls);
        let Some(bench) = TestContext::new("panicking", &options).await else { return };
        let (model, calls) = failing(1, || panic!("the secret"));
        let _worker = bench.serve(model, echo, Agent::new(echo), &options);
        let failure = failed(&bench.runs.start(&bench.queue, "go").await.unwrap()).await;
        assert_eq!((failure.kind.as_str(), calls.load(Ordering::SeqCst)), ("Provider", 1));
        assert!(failure.text.contains("the provider panicked"), "{}", failure.text);
    }
}

static RUNS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn flaky() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for (index, (name, effect)) in [
        ("idempotent", ToolEffect::Idempotent),
        ("once", ToolEffect::AtMostOnce),
        ("slow", ToolEffect::Pure),
    ]
    .into_iter()
    .enumerate()
    {
        tools.register_dyn(Does::new(name, effect, move |_, _| async move {
            let number = RUNS[index].fetch_add(1, Ordering::SeqCst);
            if name == "slow" {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            match number < 2 {
                true => Err(ToolError::ExecutionFailed(format!("{name} is broken").into())),
                false => Ok(ToolOutput::text(format!("{name} works"))),
            }
        }));
    }
    tools
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_retried_by_their_effect_and_time_out() {
    let options = options();
    let Some(bench) = TestContext::new("flaky", &options).await else { return };
    let mut agent = Agent::new(flaky);
    agent.config.tool_activity = ActivityOptions {
        start_to_close_timeout: Duration::from_millis(300),
        retry_policy: Some(policy(3)),
        ..ActivityOptions::default()
    };
    let calls = ["idempotent", "once", "slow"].map(|name| call(name, name, json!({})));
    let model = Model::script(vec![calls.to_vec(), vec![text("done")]]);
    let _worker = bench.serve(model, flaky, agent, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    let all = serde_json::to_string(&result.messages).unwrap();
    assert!(all.contains("idempotent works") && all.contains("once is broken"), "{all}");
    assert!(all.contains("exceeded its time limit"), "{all}");
    let runs: Vec<_> = RUNS.iter().map(|runs| runs.load(Ordering::SeqCst)).collect();
    assert_eq!(runs, [3, 1, 3]);
}
