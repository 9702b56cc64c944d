//! Tests of the order of steps, across crashes and executions.

use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use neuron_durable::DurableOptions;
use neuron_types::{
    ActivityOptions, DurableContext, DurableError, Message, RunSnapshot, Start, ToolEffect,
};
use serde_json::{Value, json};

use crate::test_support::{
    Echo, answering, edit_steps, invocation, look, no_tools, opened, place, request, run,
};
use crate::{JournalError, SqliteRuns};

fn options() -> ActivityOptions {
    ActivityOptions::default()
}

#[tokio::test]
async fn replay_with_another_order_of_steps_fails() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    {
        let (durable, _) = answering(&runs, "r", &["x"]).await;
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        durable.sleep(Duration::ZERO).await;
    }
    let (durable, provider) = answering(&runs, "r", &["y", "z"]).await;
    let expected = |error: DurableError, text: &str| {
        assert_eq!(error.to_string(), format!("replay differs from the journal: expected {text}"));
    };
    let batch = || vec![invocation("look", json!({}))];
    let mut ran = durable.execute_tools(batch(), options()).await;
    expected(ran.remove(0).unwrap_err(), "model/0, got tools/0/0");
    durable.execute_llm_call(request("a"), options()).await.unwrap();
    let error = durable.execute_llm_call(request("b"), options()).await.unwrap_err();
    expected(error, "sleep/0, got model/1");
    let state = serde_json::to_value(RunSnapshot::new("r", Vec::new())).unwrap();
    let error = durable.continue_as_new(state).await.unwrap_err();
    expected(error, "sleep/0, got a new execution");
    durable.sleep(Duration::ZERO).await;
    durable.execute_llm_call(request("b"), options()).await.unwrap();
    assert_eq!(provider.calls(), 1);
}

#[tokio::test]
async fn replay_with_another_batch_fails_and_runs_no_call() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tool = Echo::new("look", ToolEffect::Pure);
    let mut tools = neuron_tool::ToolRegistry::new();
    tools.register_dyn(std::sync::Arc::new(tool.clone()));
    let tools = std::sync::Arc::new(tools);
    let open =
        async || runs.run("r").open(crate::test_support::silent(), tools.clone()).await.unwrap();
    let call = |n: u32| invocation("look", json!({ "secret": n }));
    {
        let durable = open().await;
        durable.execute_tools(vec![call(1), call(2)], options()).await;
    }
    assert_eq!(tool.ran(), 2);
    let other = invocation("other", json!({"secret": 1}));
    for (batch, says) in [
        (
            vec![call(1), call(2), call(3)],
            "expected tools/0 with 2 calls, got tools/0 with 3 calls",
        ),
        (vec![call(1)], "expected tools/0 with 2 calls, got tools/0 with 1 calls"),
        (vec![call(1), call(3)], "expected tools/0/1 with arguments of `look`: digest "),
        (vec![other, call(2)], "expected tools/0/0 with tool name: `look`, got tool name: `other`"),
    ] {
        let durable = open().await;
        for result in durable.execute_tools(batch, options()).await {
            let text = result.unwrap_err().to_string();
            assert!(text.contains(says) && !text.contains("secret"), "{text}");
        }
    }
    // An unfinished call does not run again either if the batch differs.
    crate::test_support::forget(&path, &[0]);
    let ran = open().await.execute_tools(vec![call(1)], options()).await;
    assert!(matches!(&ran[..], [Err(DurableError::NonDeterminism { .. })]), "{ran:?}");
    assert_eq!(tool.ran(), 2);
}

#[tokio::test]
async fn start_of_a_stored_run_returns_the_stored_start() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let first = {
        let (durable, _) = answering(&runs, "r", &["x"]).await;
        let first = durable.start("first").await.unwrap();
        assert_eq!(first, Start::Message(Message::user("first")));
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        // A second call of `start` on the same context begins the replay again.
        assert_eq!(durable.start("second").await.unwrap(), first);
        assert!(durable.is_replaying());
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        first
    };
    let durable = opened(&runs, "r").await;
    assert_eq!(durable.start("third").await.unwrap(), first);
}

#[tokio::test]
async fn run_continues_after_a_dropped_step() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let provider = std::sync::Arc::new(neuron_testing::ScriptedProvider::new([
        neuron_testing::Reply::hang(),
        neuron_testing::Reply::text("x"),
        neuron_testing::Reply::text("y"),
    ]));
    let durable = runs.run("r").open(provider.clone(), no_tools()).await.unwrap();
    {
        let mut call = Box::pin(durable.execute_llm_call(request("a"), options()));
        while provider.calls() == 0 {
            let poll = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending()));
            assert!(poll.await);
            tokio::task::yield_now().await;
        }
        // No other step can be requested while this step is in progress.
        let error = durable.execute_llm_call(request("b"), options()).await.unwrap_err();
        assert!(error.to_string().contains("while another one is done"), "{error}");
        let error = durable.start("x").await.unwrap_err();
        assert!(error.to_string().contains("while another one is done"), "{error}");
    }
    let answer = durable.execute_llm_call(request("a"), options()).await.unwrap();
    assert_eq!(answer.message.text(), "x");
    durable.execute_llm_call(request("b"), options()).await.unwrap();
    assert_eq!(look(&path, "SELECT count(*) FROM steps WHERE key LIKE 'model/%'"), 2);
}

#[tokio::test]
async fn new_execution_starts_from_the_state_without_steps() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let open = async |replies: &[&str]| {
        let provider =
            std::sync::Arc::new(neuron_testing::ScriptedProvider::new(replies.iter().copied()));
        runs.run("r")
            .options(DurableOptions::new().continue_after(2))
            .open(provider, no_tools())
            .await
            .unwrap()
    };
    let snapshot = RunSnapshot::new("r", vec![Message::user("so far")]);
    {
        let durable = open(&["x", "y"]).await;
        durable.start("first").await.unwrap();
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        assert!(!durable.should_continue_as_new());
        durable.execute_llm_call(request("b"), options()).await.unwrap();
        assert!(durable.should_continue_as_new());
        for state in [json!("no state"), json!({"version": 99, "messages": []})] {
            let error = durable.continue_as_new(state).await.unwrap_err();
            assert!(matches!(error, DurableError::Other(_)), "{error:?}");
        }
        assert_eq!(look(&path, "SELECT count(*) FROM steps"), 2);
    }
    // A replay continues as new at the same step, and not earlier.
    let durable = open(&["z"]).await;
    durable.start("first").await.unwrap();
    for text in ["a", "b"] {
        assert!(!durable.should_continue_as_new());
        durable.execute_llm_call(request(text), options()).await.unwrap();
    }
    assert!(durable.should_continue_as_new());
    let state = serde_json::to_value(&snapshot).unwrap();
    let error = durable.continue_as_new(state).await.unwrap_err();
    let text = "continue as new: execution 1 of the run \"r\"";
    assert_eq!(error.to_string(), text);
    assert_eq!(look(&path, "SELECT count(*) FROM steps"), 0);

    // Without a call of `start`, a step fails in this context and in the next one.
    let again = Start::from(snapshot);
    let error = durable.execute_llm_call(request("c"), options()).await.unwrap_err().to_string();
    assert!(error.contains("continues from a stored state"), "{error}");
    assert_eq!(durable.start("first").await.unwrap(), again);
    assert!(!durable.should_continue_as_new());
    durable.execute_llm_call(request("c"), options()).await.unwrap();
    drop(durable);
    let durable = open(&[]).await;
    let error = durable.execute_llm_call(request("c"), options()).await.unwrap_err().to_string();
    assert!(error.contains("continues from a stored state"), "{error}");
    assert_eq!(durable.start("first").await.unwrap(), again);
    durable.execute_llm_call(request("c"), options()).await.unwrap();
    let summary = runs.inspect("r").await.unwrap().summary;
    assert_eq!((summary.steps, summary.execution), (Some(3), Some(1)));
}

/// Regression test. If the future of `continue_as_new` is dropped after its commit, each step must fail until `start`
/// is called. Otherwise the positions of the new steps would not begin at 0, and the journal could not be read.
#[tokio::test]
async fn execution_dropped_while_continuing_as_new_has_ended() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let (durable, _) = answering(&runs, "r", &["x", "y"]).await;
    durable.start("first").await.unwrap();
    durable.execute_llm_call(request("a"), options()).await.unwrap();
    let snapshot = RunSnapshot::new("r", vec![Message::user("so far")]);
    {
        let state = serde_json::to_value(&snapshot).unwrap();
        let mut end = Box::pin(durable.continue_as_new(state));
        let polled = std::future::poll_fn(|cx| Poll::Ready(end.as_mut().poll(cx).is_pending()));
        polled.await;
        while look(&path, "SELECT execution FROM runs") == 0 {
            std::thread::yield_now();
        }
    }
    let error = durable.execute_llm_call(request("b"), options()).await.unwrap_err().to_string();
    assert!(error.contains("continues from a stored state"), "{error}");
    assert_eq!(durable.start("first").await.unwrap(), Start::from(snapshot.clone()));
    durable.execute_llm_call(request("b"), options()).await.unwrap();
    drop(durable);
    assert_eq!(opened(&runs, "r").await.start("x").await.unwrap(), Start::from(snapshot));
}

#[tokio::test]
async fn clock_returns_times_of_the_journal() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let times = async |replies: &[&str]| {
        let (durable, _) = answering(&runs, "r", replies).await;
        let mut times = vec![durable.now()];
        durable.execute_llm_call(request("a"), options()).await.unwrap();
        times.push(durable.now());
        durable.wait_for_signal::<Value>("go", Duration::ZERO).await.unwrap();
        times.push(durable.now());
        times
    };
    let first = times(&["x"]).await;
    assert!(first.is_sorted());
    assert_eq!(times(&[]).await, first);
    // The clock of the journal does not go back if the system clock does.
    edit_steps(&path, &[1], |step| {
        let later = step.ended_at.unwrap() + 3_600_000;
        step.ended_at = Some(later);
    });
    let (durable, _) = answering(&runs, "r", &["y"]).await;
    durable.execute_llm_call(request("a"), options()).await.unwrap();
    durable.wait_for_signal::<Value>("go", Duration::ZERO).await.unwrap();
    let before = durable.now();
    durable.execute_llm_call(request("b"), options()).await.unwrap();
    assert_eq!(durable.now(), before);
    let steps = runs.inspect("r").await.unwrap().steps;
    assert!(steps.is_sorted_by_key(|step| step.ended_at));
}

#[tokio::test]
async fn changed_rows_are_refused_and_left_unchanged() {
    let damages = [
        (
            "UPDATE steps SET record = replace(record, 'xxxx', 'yyyy')",
            "its step 0 is not as written",
        ),
        ("UPDATE steps SET record = NULL", "its step 0 is not as written"),
        ("UPDATE steps SET digest = '00'", "its step 0 is not as written"),
        ("UPDATE steps SET position = 3 WHERE position = 1", "its step 3 is not as written"),
        ("UPDATE steps SET effect = 'odd'", "its step 0 has an unknown effect"),
        ("DELETE FROM steps WHERE position = 0", "its step 0 is missing"),
        ("UPDATE runs SET execution = 3", "its row is not as written"),
        ("UPDATE runs SET start = '{}'", "its row is not as written"),
        ("UPDATE runs SET status = 'odd'", "its status is \"odd\""),
    ];
    for (damage, says) in damages {
        let (_folder, path) = place();
        let runs = SqliteRuns::open(&path).await.unwrap();
        {
            let (durable, _) = answering(&runs, "r", &["xxxx", "y"]).await;
            durable.execute_llm_call(request("a"), options()).await.unwrap();
            durable.execute_llm_call(request("b"), options()).await.unwrap();
        }
        run(&path, damage);
        let epoch = || look(&path, "SELECT epoch FROM runs");
        let before = epoch();
        let opened = runs.run("r").open(crate::test_support::silent(), no_tools()).await;
        let error = opened.unwrap_err();
        assert!(matches!(error, JournalError::Corrupt { .. }), "{damage}: {error:?}");
        assert_eq!(error.to_string(), format!("the run \"r\" is damaged: {says}"), "{damage}");
        assert_eq!(epoch(), before, "{damage}");
        // A damaged run can be deleted, because it is not held.
        runs.delete("r").await.unwrap();
    }
}

#[tokio::test]
async fn step_of_a_newer_version_is_refused_and_kept() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    {
        let (durable, _) = answering(&runs, "r", &["x"]).await;
        durable.execute_llm_call(request("a"), options()).await.unwrap();
    }
    edit_steps(&path, &[0], |step| {
        let record = step.record.take().unwrap();
        step.record = Some(record.replace("\"version\":1", "\"version\":2"));
    });
    for _ in 0..2 {
        let (durable, provider) = answering(&runs, "r", &["y"]).await;
        let error = durable.execute_llm_call(request("a"), options()).await.unwrap_err();
        assert!(error.to_string().contains("has version 2"), "{error}");
        assert_eq!(provider.calls(), 0);
    }
}

#[tokio::test]
async fn failed_write_ends_the_run_and_stores_no_wrong_step() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let tool = Echo::new("pay", ToolEffect::AtMostOnce);
    let mut tools = neuron_tool::ToolRegistry::new();
    tools.register_dyn(std::sync::Arc::new(tool.clone()));
    let tools = std::sync::Arc::new(tools);
    let provider = std::sync::Arc::new(neuron_testing::ScriptedProvider::new(["x", "y"]));
    let durable = runs.run("r").open(provider, tools).await.unwrap();
    let batch = || vec![invocation("pay", json!({})).with_effect(ToolEffect::AtMostOnce)];

    run(&path, "CREATE TRIGGER full BEFORE INSERT ON steps BEGIN SELECT RAISE(ABORT, 'full'); END");
    let error = durable.execute_llm_call(request("a"), options()).await.unwrap_err();
    assert!(matches!(error, DurableError::Other(_)), "{error:?}");
    durable.execute_tools(batch(), options()).await.remove(0).unwrap_err();
    assert_eq!(tool.ran(), 0, "it ran without an intent");
    assert_eq!(look(&path, "SELECT count(*) FROM steps"), 0);

    run(&path, "DROP TRIGGER full");
    run(&path, "CREATE TRIGGER full BEFORE UPDATE ON steps BEGIN SELECT RAISE(ABORT, 'full'); END");
    durable.execute_tools(batch(), options()).await.remove(0).unwrap_err();
    assert_eq!(tool.ran(), 1);
    run(&path, "DROP TRIGGER full");
    let output = durable.execute_tools(batch(), options()).await.remove(0).unwrap();
    assert!(output.is_error, "it ran, and nobody knows");
    assert_eq!(tool.ran(), 1);
}
