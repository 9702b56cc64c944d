//! Tests of the operations on runs, such as lists, late decisions and revivals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus, RunSummary, RunsError, WaitEvent};
use neuron_durable_temporal::{
    FilePayloadStore, PayloadStore, TemporalError, TemporalOptions, TemporalRuns,
};
use neuron_loop::ApprovalSignal;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, BoxError, Durability, DurableAgent, DurableContext, LoopError,
    PendingApproval, PermissionDecision, ProviderError, Start, ToolEffect, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::{Value, json};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest;
use temporalio_common::protos::temporal::api::common::v1::WorkflowType;
use temporalio_common::protos::temporal::api::enums::v1::WorkflowIdReusePolicy;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::StartWorkflowExecutionRequest;
use tokio::sync::Semaphore;

use crate::host::{
    Agent, Does, Model, TestContext, answer, call, connect, done, durable, failed, options, said,
    text, turns,
};

/// Inspects a run repeatedly until its summary satisfies `is_it`, and returns the summary. Panics after 20 seconds.
pub(crate) async fn inspected(
    bench: &TestContext,
    id: &str,
    is_it: impl Fn(&RunSummary) -> bool,
) -> RunSummary {
    let mut last = None;
    let wanted = async {
        loop {
            let summary = bench.runs.inspect(id).await.unwrap();
            if is_it(&summary) {
                return summary;
            }
            last = Some(summary);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let inspected = tokio::time::timeout(Duration::from_secs(20), wanted).await;
    inspected.unwrap_or_else(|_| panic!("{last:?}"))
}

fn declared() -> ToolRegistry {
    wires(&Wired::default())
}

/// List of all tool calls, each with its arguments and its idempotency key.
type Wired = Arc<Mutex<Vec<(Value, String)>>>;

fn wires(wired: &Wired) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in ["wire", "settle"] {
        let wired = wired.clone();
        tools.register_dyn(Does::new(name, ToolEffect::AtMostOnce, move |input, ctx| {
            wired.lock().unwrap().push((input, ctx.idempotency_key));
            async { Ok(ToolOutput::text("wired")) }
        }));
    }
    tools
}

/// Returns an agent that needs an approval for each call of the tool `wire`. Its run fails if no approval arrives
/// within `timeout`.
fn asks(timeout: Duration) -> Agent {
    let mut agent = Agent::new(declared);
    agent.policy = Some(|tool, _| match tool {
        "wire" => PermissionDecision::Ask("may it be wired?".into()),
        _ => PermissionDecision::Allow,
    });
    agent.config.approval_signal = Some(ApprovalSignal { name: "approve".into(), timeout });
    agent
}

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_with_their_states() {
    let options = options();
    let Some(bench) = TestContext::new("listed", &options).await else { return };
    let model = Model::new(|request| match request.messages[0].text().as_str() {
        "fail" => Err(ProviderError::Authentication("no key".into())),
        "wait" | "cancel" => Ok(answer(0, vec![call("w", "wire", json!({"amount": 7}))])),
        _ => Ok(answer(0, vec![text("done")])),
    });
    let wired = Wired::default();
    let worker = bench.serve_with(model, wires(&wired).into(), asks(LONG), &options);
    let id = |name: &str| format!("{}-{name}", bench.queue);
    let is_waiting = |summary: &RunSummary| summary.waits_for.is_some();
    for name in ["finish", "fail", "cancel", "wait"] {
        bench.runs.start(id(name), name).await.unwrap();
    }
    inspected(&bench, &id("cancel"), is_waiting).await;
    bench.runs.cancel(&id("cancel")).await.unwrap();

    let done = inspected(&bench, &id("finish"), |run| run.status == RunStatus::Done).await;
    assert_eq!(done.usage.unwrap().input_tokens, 10);
    assert!(done.created_at.unwrap() <= done.changed_at.unwrap());
    let failed = inspected(&bench, &id("fail"), |run| run.status == RunStatus::Failed).await;
    assert!(failed.reason.unwrap().contains("no key"));
    inspected(&bench, &id("cancel"), |run| run.status == RunStatus::Cancelled).await;
    let waits = inspected(&bench, &id("wait"), is_waiting).await;
    assert_eq!(waits.status, RunStatus::Waiting);
    let waits_for = waits.waits_for.clone().unwrap();
    let WaitEvent::Approval { signal, pending: Some(pending) } = &waits_for.event else {
        panic!("{waits_for:?}")
    };
    assert_eq!(
        (signal.as_deref(), &pending.calls[0].call.input),
        (Some("approve"), &json!({"amount": 7}))
    );
    let time = waits_for.deadline.unwrap() - waits_for.since.unwrap();
    assert_eq!(time.num_seconds(), 600);

    let expected = [
        (id("finish"), RunStatus::Done),
        (id("fail"), RunStatus::Failed),
        (id("cancel"), RunStatus::Cancelled),
        (id("wait"), RunStatus::Waiting),
    ];
    let states = async |bench: &TestContext| -> Vec<_> {
        let listed = bench.runs.list().await.unwrap();
        listed.into_iter().map(|run| (run.id, run.status)).collect()
    };
    let listed = async {
        while states(&bench).await != expected {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), listed).await.expect("all are listed in time");
    let listed = bench.runs.list().await.unwrap().pop().unwrap();
    assert_eq!((listed.waits_for, listed.created_at), (Some(waits_for), waits.created_at));

    // The list has the same states without a worker, although only a worker can report the wait.
    tokio::task::block_in_place(|| drop(worker));
    assert_eq!(states(&bench).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_an_unknown_run_return_not_found() {
    let Some(bench) = TestContext::new("no-run", &options()).await else { return };
    let is_not_found = |error| matches!(error, RunsError::NotFound { id } if id == "nobody");
    assert!(is_not_found(bench.runs.inspect("nobody").await.unwrap_err()));
    assert!(is_not_found(bench.runs.signal("nobody", "a", json!(1)).await.unwrap_err()));
    assert!(is_not_found(bench.runs.cancel("nobody").await.unwrap_err()));
    let decisions = ApprovalDecisions::new();
    assert!(is_not_found(bench.runs.revive("nobody", decisions).await.unwrap_err()));
    assert_eq!(bench.runs.list().await.unwrap(), []);
}

/// An agent that misses a signal `first` and the decisions `approve`, because both waits end at their deadlines. It
/// then waits for a signal `second`, and again for `first`.
fn misses(
    _: Start,
    context: Durability<'_>,
) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
    Box::pin(async move {
        let first: Option<Value> = context.wait_for_signal("first", SHORT).await?;
        let pending = PendingApproval::new("r", Vec::new());
        let decided = context.wait_for_approval(&pending, "approve", SHORT).await?;
        let second: Option<Value> = context.wait_for_signal("second", LONG).await?;
        let again: Option<Value> = context.wait_for_signal("first", LONG).await?;
        said(format!("{first:?} {decided:?} {second:?} {again:?}"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn late_decisions_are_refused_and_other_signals_are_queued() {
    let options = options();
    let Some(bench) = TestContext::new("missed", &options).await else { return };
    let none = ToolRegistry::new;
    let _worker = bench.serve(Model::script(Vec::new()), none, misses, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let waits_for = |name: &str| {
        let event = WaitEvent::Signal { name: name.to_owned() };
        move |run: &RunSummary| run.waits_for.as_ref().is_some_and(|wait| wait.event == event)
    };
    inspected(&bench, &bench.queue, waits_for("second")).await;
    let late = bench.runs.signal(&bench.queue, "approve", json!({})).await.unwrap_err();
    let RunsError::Ended { reason, .. } = late else { panic!("{late}") };
    assert!(reason.contains("\"approve\"") && reason.contains("deadline"), "{reason}");
    // The run has continued, and may wait for this signal again.
    bench.runs.signal(&bench.queue, "first", json!(1)).await.unwrap();
    bench.runs.signal(&bench.queue, "second", json!(2)).await.unwrap();
    let response = done(&run).await.response;
    assert_eq!(response, "None None Some(Number(2)) Some(Number(1))");
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_refused_after_a_deadline_without_a_worker() {
    let options = options();
    let Some(bench) = TestContext::new("nobody", &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let wired = Wired::default();
    let wire = || Model::script(vec![vec![call("w", "wire", json!({}))], vec![text("done")]]);
    let serve = || {
        let agent = asks(Duration::from_secs(3));
        bench.serve_with(wire(), wires(&wired).into(), agent, &options)
    };
    let worker = serve();
    let run = runs.start(id, "go").await.unwrap();
    let waits = inspected(&bench, id, |run| run.waits_for.is_some()).await.waits_for.unwrap();
    tokio::task::block_in_place(|| drop(worker));
    // Other signals are queued, before and after the deadline.
    runs.signal(id, "other", json!(1)).await.unwrap();
    let decisions = json!(ApprovalDecisions::new().approve("w"));
    // The server's timer may fire up to a second after the deadline.
    let end = waits.deadline.unwrap() + chrono::TimeDelta::seconds(2);
    while chrono::Utc::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    runs.signal(id, "other", json!(2)).await.unwrap();
    let late = runs.signal(id, "approve", decisions).await.unwrap_err();
    let RunsError::Ended { reason, .. } = late else { panic!("{late}") };
    assert!(reason.contains("\"approve\"") && reason.contains("deadline"), "{reason}");
    let _worker = serve();
    failed(&run).await;
    assert!(wired.lock().unwrap().is_empty());
}

/// Returns a model that calls the tools `settle`, `wire` and again `settle`. The second call of `settle` must not run,
/// because it has the effect key of the first call.
fn plans() -> Model {
    Model::script(vec![
        vec![call("s", "settle", json!({"key": 17}))],
        vec![call("w", "wire", json!({"amount": 7}))],
        vec![call("t", "settle", json!({"key": 17}))],
        vec![text("done")],
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn late_decisions_are_refused_and_revive_the_run_once() {
    let options = TemporalOptions::from(durable().agent_version("1"));
    let Some(bench) = TestContext::new("late", &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let wired = Wired::default();
    let _worker = bench.serve_with(plans(), wires(&wired).into(), asks(SHORT), &options);
    let run = runs.start(id, "go").await.unwrap();
    let pending = run.outcome().await.unwrap().pending.unwrap();

    let decisions = ApprovalDecisions::new().approve("w");
    let late = runs.signal(id, "approve", json!(decisions)).await.unwrap_err();
    let RunsError::Ended { reason, .. } = late else { panic!("{late}") };
    assert!(reason.contains("failed at 2") && reason.contains("revive"), "{reason}");
    let late = run.signal("approve", &decisions).await.unwrap_err();
    assert!(matches!(&late, TemporalError::AlreadyEnded { .. }), "{late}");
    assert!(late.to_string().contains("revive"), "{late}");
    let shown = runs.inspect(id).await.unwrap();
    let Some(WaitEvent::Approval { signal: None, pending: Some(shown) }) =
        shown.waits_for.map(|wait| wait.event)
    else {
        panic!("the calls are shown")
    };
    assert_eq!(shown.calls, pending.calls);

    let unfit = runs.revive(id, ApprovalDecisions::new().approve("x")).await.unwrap_err();
    assert!(matches!(unfit, RunsError::Approval(_)), "{unfit}");
    // Two concurrent revivals.
    let (first, second) =
        tokio::join!(runs.revive(id, decisions.clone()), runs.revive(id, decisions.clone()));
    assert!([&first, &second].into_iter().any(Result::is_ok), "{first:?} {second:?}");
    for revived in [first, second] {
        assert!(
            matches!(&revived, Ok(revived) if revived == id)
                || matches!(&revived, Err(RunsError::NotRevivable { .. })),
            "{revived:?}"
        );
    }
    let result = done(&run).await;
    assert_eq!((result.response.as_str(), result.turns), ("done", 4));
    assert_eq!(runs.inspect(id).await.unwrap().agent_version.as_deref(), Some("1"));
    let again = runs.revive(id, decisions).await.unwrap_err();
    assert!(matches!(&again, RunsError::NotRevivable { reason, .. } if reason.contains("done")));
    let wired = wired.lock().unwrap();
    let arguments: Vec<_> = wired.iter().map(|(arguments, _)| arguments.clone()).collect();
    assert_eq!(arguments, [json!({"key": 17}), json!({"amount": 7})]);
    assert!(wired[1].1.starts_with(&pending.run_id), "{wired:?}");
}

/// An agent that needs an approval for `wire`. After the decisions it waits for the signal `other` and runs no tool.
struct AsksAndWaits;

impl DurableAgent for AsksAndWaits {
    fn run<'d>(
        &'d self,
        start: Start,
        context: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            match start {
                Start::Resume { .. } => {
                    let other: Option<Value> = context.wait_for_signal("other", LONG).await?;
                    said(format!("{other:?}"))
                }
                start => asks(SHORT).run(start, context).await,
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revived_run_keeps_its_queued_signals() {
    let options = options();
    let Some(bench) = TestContext::new("untaken", &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let run = runs.start(id, "go").await.unwrap();
    run.signal("other", &"secret").await.unwrap();
    let tools = wires(&Wired::default());
    let _worker = bench.serve_with(plans(), tools.into(), AsksAndWaits, &options);
    let failure = failed(&run).await;
    assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    runs.revive(id, ApprovalDecisions::new().approve("w")).await.unwrap();
    assert_eq!(done(&run).await.response, "Some(String(\"secret\"))");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_revival_of_a_run_that_failed_again_starts_nothing() {
    let options = options();
    let Some(bench) = TestContext::new("again", &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let model = Model::new(|request| {
        let turn = turns(request);
        Ok(answer(turn, vec![call(&format!("w{turn}"), "wire", json!({"amount": turn}))]))
    });
    let wired = Wired::default();
    let _worker = bench.serve_with(model, wires(&wired).into(), asks(SHORT), &options);
    let run = runs.start(id, "go").await.unwrap();
    let first = failed(&run).await;
    let first_end = run_id_of(&bench, id).await;
    runs.revive(id, ApprovalDecisions::new().approve("w0")).await.unwrap();
    let second = failed(&run).await;
    assert_eq!(
        (first.kind.as_str(), second.kind.as_str()),
        ("ApprovalRequired", "ApprovalRequired")
    );
    let second_end = run_id_of(&bench, id).await;

    // As if another process had read the first end, and sends its request only now. The server knows the id of this
    // request.
    let mut client = connect(&bench.address).await;
    let request = StartWorkflowExecutionRequest {
        namespace: "default".into(),
        workflow_id: id.into(),
        workflow_type: Some(WorkflowType { name: "neuron_agent".into() }),
        task_queue: Some(TaskQueue { name: bench.queue.clone(), ..Default::default() }),
        request_id: format!("neuron-revive-{first_end}"),
        workflow_id_reuse_policy: WorkflowIdReusePolicy::AllowDuplicateFailedOnly.into(),
        ..Default::default()
    };
    let started = client.start_workflow_execution(request.into_request()).await.unwrap();
    assert_eq!(started.into_inner().run_id, second_end);

    let stale = runs.revive(id, ApprovalDecisions::new().approve("w0")).await.unwrap_err();
    assert!(matches!(stale, RunsError::Approval(_)), "{stale}");
    runs.revive(id, ApprovalDecisions::new().approve("w1")).await.unwrap();
    failed(&run).await;
    let wired = wired.lock().unwrap();
    let amounts: Vec<_> = wired.iter().map(|(arguments, _)| arguments["amount"].clone()).collect();
    assert_eq!(amounts, [0, 1]);
}

/// A payload store whose `put` waits until the test adds a permit to `may_go_on`.
struct Gate {
    files: FilePayloadStore,
    reached: Arc<Semaphore>,
    may_go_on: Arc<Semaphore>,
}

impl PayloadStore for Gate {
    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: &'a [u8],
    ) -> WasmBoxedFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            self.reached.add_permits(1);
            let _permit = self.may_go_on.acquire().await?;
            self.files.put(key, bytes).await
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>> {
        self.files.get(key)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revival_overtaken_by_two_newer_revivals_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = || FilePayloadStore::new(folder.path());
    let options = options().payload_store(files());
    let Some(bench) = TestContext::new("overtaken", &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let model = Model::new(|request| {
        let turn = turns(request);
        let wire = call(&format!("w{turn}"), "wire", json!({"amount": turn}));
        Ok(answer(turn, vec![text("y".repeat(150_000)), wire]))
    });
    let wired = Wired::default();
    let _worker = bench.serve_with(model, wires(&wired).into(), asks(SHORT), &options);
    let run = runs.start(id, "go").await.unwrap();
    failed(&run).await;
    let decisions = |turn: usize| ApprovalDecisions::new().approve(&format!("w{turn}"));

    let (reached, may_go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gate = Gate { files: files(), reached: reached.clone(), may_go_on: may_go_on.clone() };
    let slow = TemporalRuns::new(connect(&bench.address).await, id);
    let slow = slow.options(TemporalOptions::new().payload_store(gate));
    let stale = async {
        let stale = slow.revive(id, decisions(0)).await;
        assert!(matches!(&stale, Err(RunsError::NotRevivable { .. })), "{stale:?}");
    };
    let newer = async {
        reached.acquire().await.unwrap().forget();
        for turn in 0..2 {
            runs.revive(id, decisions(turn)).await.unwrap();
            failed(&run).await;
        }
        may_go_on.add_permits(100);
    };
    tokio::join!(stale, newer);
    let wired = wired.lock().unwrap();
    let amounts: Vec<_> = wired.iter().map(|(arguments, _)| arguments["amount"].clone()).collect();
    assert_eq!(amounts, [0, 1]);
}

async fn run_id_of(bench: &TestContext, id: &str) -> String {
    let client = connect(&bench.address).await;
    let handle = client.get_workflow_handle::<temporalio_client::UntypedWorkflow>(id);
    handle.describe(Default::default()).await.unwrap().run_id().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_a_long_state_is_revived_only_with_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = FilePayloadStore::new(folder.path());
    let options = TemporalOptions::from(durable().record_limit(200_000));
    revive_long("no-store", options.clone(), false).await;
    revive_long("store", options.payload_store(store), true).await;
}

async fn revive_long(name: &str, options: TemporalOptions, is_kept: bool) {
    let Some(bench) = TestContext::new(name, &options).await else { return };
    let (runs, id) = (&bench.runs, &*bench.queue);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        let turn = turns(request);
        let long = text("y".repeat(150_000));
        Ok(answer(
            turn,
            match turn {
                0 => vec![long, call("s", "settle", json!({}))],
                1 => vec![long, call("w", "wire", json!({}))],
                _ => vec![text("done")],
            },
        ))
    });
    let wired = Wired::default();
    let _worker = bench.serve_with(model, wires(&wired).into(), asks(SHORT), &options);
    let run = runs.start(id, "go").await.unwrap();
    failed(&run).await;
    let revived = runs.revive(id, ApprovalDecisions::new().approve("w")).await;
    if is_kept {
        revived.unwrap();
        assert_eq!(done(&run).await.response, "done");
        assert_eq!((wired.lock().unwrap().len(), calls.load(Ordering::SeqCst)), (2, 3));
    } else {
        let error = revived.unwrap_err();
        assert!(matches!(&error, RunsError::NotRevivable { .. }), "{error}");
        assert!(error.to_string().contains("payload_store"), "{error}");
    }
}
