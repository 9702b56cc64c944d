//! Tests of signals, approvals, timers and cancellation.

use std::time::Duration;

use neuron_durable_temporal::TemporalError;
use neuron_loop::ApprovalSignal;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, Durability, DurableContext, LoopError, PermissionDecision,
    Start, ToolEffect, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use temporalio_client::{UntypedSignal, UntypedWorkflow, WorkflowSignalOptions};
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::common::v1::Payload;

use crate::host::{Agent, Does, Model, TestContext, call, connect, done, options, said, text};

fn no_tools() -> ToolRegistry {
    ToolRegistry::new()
}

/// An agent that waits for signals and timers, and responds with the results.
fn waits(_: Start, context: Durability<'_>) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
    Box::pin(async move {
        let long = Duration::from_secs(60);
        let begin = context.now();
        let none: Option<Value> =
            context.wait_for_signal("never", Duration::from_millis(200)).await?;
        let waited = (context.now() - begin).num_milliseconds() >= 200;
        let nothing: Option<u32> = context.wait_for_signal("never", Duration::ZERO).await?;
        let first: Option<u32> = context.wait_for_signal("a", long).await?;
        let second: Option<u32> = context.wait_for_signal("a", long).await?;
        let wrong = context.wait_for_signal::<u32>("b", long).await;
        let right: Option<String> = context.wait_for_signal("b", Duration::MAX).await?;
        context.sleep(Duration::from_millis(50)).await;
        let wrong = wrong.is_err();
        said(format!("{none:?} {waited} {nothing:?} {first:?} {second:?} {wrong} {right:?}"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_queued_by_name_and_waits_time_out() {
    let options = options();
    let Some(bench) = TestContext::new("signals", &options).await else { return };
    let _worker = bench.serve(Model::script(Vec::new()), no_tools, waits, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    run.signal("b", &json!({"not": "a number"})).await.unwrap();
    run.signal("a", &1).await.unwrap();
    run.signal("b", &"late").await.unwrap();
    run.signal("a", &2).await.unwrap();
    let result = done(&run).await;
    assert_eq!(result.response, "None true None Some(1) Some(2) true Some(\"late\")");
    // A run that has ended does not accept signals.
    let late = run.signal("a", &3).await.unwrap_err();
    assert!(
        matches!(&late, TemporalError::AlreadyEnded { id, .. } if *id == bench.queue),
        "{late}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_signals_are_dropped() {
    let options = options();
    let Some(bench) = TestContext::new("malformed", &options).await else { return };
    let client = connect(&bench.address).await;
    let _worker = bench.serve(Model::script(Vec::new()), no_tools, waits, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let payload = |encoding: &str, data: &str| Payload {
        metadata: [("encoding".to_owned(), encoding.into())].into(),
        data: data.into(),
        ..Payload::default()
    };
    let good = payload("json/plain", r#"{"name": "a", "value": 9}"#);
    let malformed = [
        vec![],
        vec![good.clone(), good.clone()],
        vec![payload("binary/plain", "a")],
        vec![payload("json/plain", r#"{"name": "a""#)],
        vec![payload("json/plain", r#"{"value": 9}"#)],
        vec![Payload::default()],
    ];
    let handle = client.get_workflow_handle::<UntypedWorkflow>(&bench.queue);
    for payloads in malformed {
        let (signal, input) = (UntypedSignal::new("neuron_signal"), RawValue::new(payloads));
        handle.signal(signal, input, WorkflowSignalOptions::default()).await.unwrap();
    }
    for (name, value) in [("a", json!(1)), ("a", json!(2)), ("b", json!({})), ("b", json!("late"))]
    {
        run.signal(name, &value).await.unwrap();
    }
    let result = done(&run).await;
    assert_eq!(result.response, "None true None Some(1) Some(2) true Some(\"late\")");
    assert!(!String::from_utf8(run.history().await.unwrap()).unwrap().contains("TaskFailed"));
}

fn wire() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("wire", ToolEffect::AtMostOnce, |input, _| async move {
        Ok(ToolOutput::text(format!("wired {input}")))
    }));
    tools
}

fn asks() -> Agent {
    let mut agent = Agent::new(wire);
    agent.policy = Some(|_, _| PermissionDecision::Ask("may it be wired?".into()));
    agent.config.pause_for_approval = true;
    agent
}

fn wires() -> Model {
    Model::script(vec![vec![call("w", "wire", json!({"amount": 7}))], vec![text("done")]])
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_calls_are_shown_until_the_decision() {
    let options = options();
    let Some(bench) = TestContext::new("approval", &options).await else { return };
    let mut agent = asks();
    agent.config.approval_signal =
        Some(ApprovalSignal { name: "approve".into(), timeout: Duration::from_secs(600) });
    let worker = bench.serve(wires(), wire, agent.clone(), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let pending = loop {
        if let Some(pending) = run.pending().await.unwrap() {
            break pending;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(pending.messages.is_empty());
    assert_eq!(pending.calls[0].call.input, json!({"amount": 7}));
    assert_eq!(pending.calls[0].reason, "may it be wired?");
    // Another worker returns the same calls.
    drop(worker);
    let _worker = bench.serve(wires(), wire, agent, &options);
    assert_eq!(run.pending().await.unwrap().unwrap().calls, pending.calls);
    run.signal("approve", &ApprovalDecisions::new().approve("w")).await.unwrap();
    let result = done(&run).await;
    let all = serde_json::to_string(&result.messages).unwrap();
    assert!(all.contains("wired {\\\"amount\\\":7}"), "{all}");
    assert_eq!(run.pending().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_without_an_approval_signal_ends_with_its_state() {
    let options = options();
    let Some(bench) = TestContext::new("ends", &options).await else { return };
    let _worker = bench.serve(wires(), wire, asks(), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.error.unwrap().kind, "ApprovalRequired");
    let pending = outcome.pending.unwrap();
    assert!(pending.calls[0].call.id == "w" && !pending.messages.is_empty());
}

fn stuck() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("wire", ToolEffect::AtMostOnce, |_, ctx| async move {
        CANCELLED.0.send(()).unwrap();
        ctx.cancellation_token.cancelled().await;
        CANCELLED.0.send(()).unwrap();
        Ok(ToolOutput::text("too late"))
    }));
    tools
}

type Channel = (std::sync::mpsc::Sender<()>, std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

static CANCELLED: std::sync::LazyLock<Channel> = std::sync::LazyLock::new(|| {
    let (sender, receiver) = std::sync::mpsc::channel();
    (sender, std::sync::Mutex::new(receiver))
});

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_ends_and_cancels_its_tool() {
    let options = options();
    let Some(bench) = TestContext::new("cancel", &options).await else { return };
    let _worker = bench.serve(wires(), stuck, Agent::new(stuck), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let hears = || CANCELLED.1.lock().unwrap().recv_timeout(Duration::from_secs(30)).unwrap();
    tokio::task::block_in_place(hears);
    run.cancel().await.unwrap();
    assert!(matches!(run.outcome().await, Err(TemporalError::Cancelled)));
    tokio::task::block_in_place(hears);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_ends_its_wait_and_sleep() {
    let options = options();
    let Some(bench) = TestContext::new("cancel-wait", &options).await else { return };
    fn sleeps(
        _: Start,
        context: Durability<'_>,
    ) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            context.sleep(Duration::from_secs(3600)).await;
            let signal: Option<Value> =
                context.wait_for_signal("a", Duration::from_secs(3600)).await?;
            said(format!("{signal:?}"))
        })
    }
    let _worker = bench.serve(Model::script(Vec::new()), no_tools, sleeps, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    // Waits until the timer has started, so that the cancellation ends it.
    while !String::from_utf8_lossy(&run.history().await.unwrap()).contains("TimerStarted") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    run.cancel().await.unwrap();
    assert!(matches!(run.outcome().await, Err(TemporalError::Cancelled)));
}
