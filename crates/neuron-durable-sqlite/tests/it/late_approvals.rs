//! Tests of decisions that arrive after the deadline of the wait.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_durable::DurableRuns;
use neuron_durable_sqlite::{
    DurableOptions, JournalError, RunDetails, RunStatus, RunSummary, RunsError, SqliteRuns,
    WaitEvent,
};
use neuron_loop::{Agent, ApprovalSignal};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, ApprovalError, LoopError, PermissionDecision, PermissionPolicy,
    ToolOutput,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{add_tool, place, until};

const TIMEOUT: Duration = Duration::from_millis(400);

/// An agent that needs an approval before it pays.
#[derive(Clone)]
struct Payer {
    model: Arc<ScriptedProvider>,
    paid: Arc<AtomicUsize>,
    /// Maximum wait for a decision. If it is `None`, the agent does not wait, and its run ends with the pending calls.
    timeout: Option<Duration>,
}

impl Payer {
    fn new(timeout: Option<Duration>) -> Self {
        let replies = [Reply::tool_call("c", "pay", json!({ "sum": 3 })), Reply::text("done")];
        Self { model: Arc::new(ScriptedProvider::new(replies)), paid: Arc::default(), timeout }
    }

    fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        let paid = self.paid.clone();
        add_tool(&mut tools, "pay", move |_, _| {
            paid.fetch_add(1, Ordering::SeqCst);
            ready(ToolOutput::text("paid"))
        });
        tools
    }

    async fn drive(&self, runs: &SqliteRuns) -> Result<AgentResult, LoopError> {
        let tools = Arc::new(self.tools());
        let context = runs.run("r").open(self.model.clone(), tools).await?;
        context.drive("Pay.", &self.agent()).await
    }

    fn agent(&self) -> Agent {
        let agent = Agent::builder(self.model.clone()).tools(self.tools());
        let agent = agent.permission_policy(Asks).config(|config| {
            let signal = |timeout| ApprovalSignal { name: "decide".into(), timeout };
            config.approval_signal = self.timeout.map(signal);
            config.pause_for_approval = true;
        });
        agent.build()
    }

    fn paid(&self) -> usize {
        self.paid.load(Ordering::SeqCst)
    }
}

struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("may it pay?".into())
    }
}

async fn details(runs: &SqliteRuns) -> RunDetails {
    let details = runs.inspect("r").await.unwrap();
    assert_eq!(runs.list().await.unwrap(), std::slice::from_ref(&details.summary));
    details
}

async fn summary(runs: &SqliteRuns) -> RunSummary {
    details(runs).await.summary
}

fn approved() -> ApprovalDecisions {
    ApprovalDecisions::new().approve("c")
}

/// Waits until the deadline of the run's wait has passed.
async fn pass_deadline(runs: &SqliteRuns) {
    while runs.inspect("r").await.unwrap().summary.waits_for.is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Drives a run until it waits for a decision, and drops the future of the run during the wait.
async fn interrupted(payer: &Payer, runs: &SqliteRuns) {
    let waits = async {
        while !matches!(runs.inspect("r").await, Ok(run) if run.summary.waits_for.is_some()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        ended = payer.drive(runs) => panic!("it ended: {ended:?}"),
        () = waits => {}
    }
}

/// Continues a run with decisions that arrive after the deadline, and checks that the run pays exactly once.
async fn revives(payer: &Payer, runs: &SqliteRuns) {
    let before = details(runs).await;
    for (decisions, expected) in [
        (ApprovalDecisions::new(), ApprovalError::Undecided { ids: vec!["c".into()] }),
        (approved().approve("x"), ApprovalError::UnknownCall { id: "x".into() }),
    ] {
        match runs.revive("r", decisions).await.unwrap_err() {
            JournalError::Runs(RunsError::Approval(error)) => assert_eq!(error, expected),
            error => panic!("{error:?}"),
        }
        assert_eq!(details(runs).await, before, "decisions that do not fit changed something");
    }
    runs.revive("r", approved()).await.unwrap();
    let revived = details(runs).await;
    assert_eq!((revived.summary.status, revived.outcome), (RunStatus::Running, None));
    let error = runs.revive("r", approved()).await.unwrap_err();
    assert!(matches!(error, JournalError::Runs(RunsError::NotRevivable { .. })), "{error:?}");
    assert_eq!(payer.paid(), 0);

    assert_eq!(payer.drive(runs).await.unwrap().response, "done");
    assert_eq!((payer.paid(), payer.model.calls()), (1, 2));
    let error = runs.revive("r", approved()).await.unwrap_err();
    assert!(error.to_string().contains("it ended with a result at "), "{error}");
    assert_eq!(payer.drive(runs).await.unwrap().response, "done");
    assert_eq!((payer.paid(), payer.model.calls()), (1, 2));
}

#[tokio::test]
async fn run_that_ended_without_a_decision_is_revived_once() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT));
    let error = payer.drive(&runs).await.unwrap_err();
    assert!(matches!(error, LoopError::ApprovalRequired(_)), "{error:?}");

    let ended = summary(&runs).await;
    assert_eq!((ended.status, ended.waits_for), (RunStatus::Failed, None));
    let reason = ended.reason.unwrap();
    assert!(reason.starts_with("nobody decided on its calls before the deadline, 20"), "{reason}");
    assert!(runs.unfinished().await.unwrap().is_empty());
    let error = runs.signal("r", "decide", approved()).await.unwrap_err();
    assert!(matches!(error, JournalError::Runs(RunsError::Ended { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("nobody decided on its calls before the deadline, 20"), "{text}");
    assert!(text.contains("`revive`"), "{text}");
    assert!(details(&runs).await.signals.is_empty());
    revives(&payer, &runs).await;
}

#[tokio::test]
async fn run_whose_deadline_passed_without_a_driver_is_revived_once() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT));
    interrupted(&payer, &runs).await;
    pass_deadline(&runs).await;
    let over = summary(&runs).await;
    assert_eq!((over.status, over.waits_for), (RunStatus::Running, None));
    let error = runs.signal("r", "decide", approved()).await.unwrap_err();
    assert!(matches!(error, JournalError::Runs(RunsError::Ended { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("its wait for decisions ended at its deadline, 20"), "{text}");
    assert!(text.contains("`revive`"), "{text}");
    // A signal with another name stays in the queue.
    runs.signal("r", "other", 1).await.unwrap();
    revives(&payer, &runs).await;
}

#[tokio::test]
async fn waiting_run_receives_decisions_and_is_not_revived() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(Duration::from_secs(3600)));
    interrupted(&payer, &runs).await;
    let waits_for = summary(&runs).await.waits_for.unwrap();
    assert!(waits_for.deadline.unwrap() > waits_for.since.unwrap());
    let WaitEvent::Approval { signal, pending } = waits_for.event else {
        panic!("{waits_for:?}");
    };
    assert_eq!(signal.as_deref(), Some("decide"));
    assert_eq!(pending.unwrap().calls[0].call.input, json!({ "sum": 3 }));
    let error = runs.revive("r", approved()).await.unwrap_err();
    assert!(error.to_string().contains("it still waits for decisions"), "{error}");
    runs.signal("r", "decide", approved()).await.unwrap();
    assert_eq!(payer.drive(&runs).await.unwrap().response, "done");
    assert_eq!(payer.paid(), 1);
}

#[tokio::test]
async fn run_without_an_approval_signal_is_not_revived() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(None);
    payer.drive(&runs).await.unwrap_err();
    let waits = summary(&runs).await;
    assert_eq!(waits.status, RunStatus::Waiting);
    let event = waits.waits_for.unwrap().event;
    assert!(matches!(event, WaitEvent::Approval { signal: None, pending: Some(_) }), "{event:?}");
    let error = runs.revive("r", approved()).await.unwrap_err();
    assert!(matches!(error, JournalError::Runs(RunsError::NotRevivable { .. })), "{error:?}");
}

#[tokio::test]
async fn signal_is_refused_after_its_deadline_and_queued_before_its_wait() {
    use neuron_types::DurableContext as _;

    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(None);
    let open = async || runs.run("r").open(payer.model.clone(), Arc::default()).await.unwrap();
    let context = open().await;
    runs.signal("r", "early", 1).await.unwrap();
    {
        let wait = context.wait_for_signal::<Value>("go", TIMEOUT);
        tokio::time::timeout(TIMEOUT / 4, wait).await.unwrap_err();
    }
    drop(context);
    pass_deadline(&runs).await;
    let error = runs.signal("r", "go", 1).await.unwrap_err().to_string();
    assert!(error.contains("its wait for the signal `go` ended at its deadline, 20"), "{error}");
    let context = open().await;
    assert_eq!(context.wait_for_signal::<Value>("go", TIMEOUT).await.unwrap(), None);
    let early = context.wait_for_signal::<Value>("early", TIMEOUT).await.unwrap();
    assert_eq!(early, Some(json!(1)));
    // The run has continued, and may wait for this signal again.
    runs.signal("r", "go", 2).await.unwrap();
    let go = context.wait_for_signal::<Value>("go", TIMEOUT).await.unwrap();
    assert_eq!(go, Some(json!(2)));
}

#[tokio::test]
async fn revived_run_is_driven_by_a_pool() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT));
    runs.run("r").submit("Pay.").await.unwrap();
    let pool = runs.pool(payer.model.clone(), Arc::new(payer.tools()), payer.agent());
    let work = async {
        // The run releases its place while it waits, and ends at the deadline.
        until(&runs, "r", RunStatus::Failed).await;
        SqliteRuns::open(&path).await.unwrap().revive("r", approved()).await.unwrap();
        until(&runs, "r", RunStatus::Done).await;
    };
    tokio::select! {
        ended = pool.run() => panic!("{ended:?}"),
        () = work => {}
    }
    assert_eq!((payer.paid(), payer.model.calls()), (1, 2));
}

/// Checks that the run cannot be opened with another version of the agent.
async fn open_with_another_version(payer: &Payer, runs: &SqliteRuns) {
    let run = runs.run("r").options(DurableOptions::new().agent_version("2"));
    let error = run.open(payer.model.clone(), Arc::default()).await.unwrap_err();
    assert!(matches!(error, JournalError::OtherVersion { .. }), "{error:?}");
}

#[tokio::test]
async fn stalled_run_with_an_expired_wait_is_listed_and_revived() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT * 4));
    runs.run("r").options(DurableOptions::new().agent_version("1")).submit("Pay.").await.unwrap();
    interrupted(&payer, &runs).await;
    open_with_another_version(&payer, &runs).await;
    let stalled = summary(&runs).await;
    assert_eq!(stalled.status, RunStatus::Stalled);
    let event = stalled.waits_for.unwrap().event;
    assert!(matches!(event, WaitEvent::Approval { signal: Some(_), pending: Some(_) }));
    assert!(stalled.reason.unwrap().contains("pinned to the agent version \"1\""));
    pass_deadline(&runs).await;
    let error = runs.signal("r", "decide", approved()).await.unwrap_err();
    assert!(matches!(error, JournalError::Runs(RunsError::Ended { .. })), "{error:?}");
    revives(&payer, &runs).await;
}

#[tokio::test]
async fn waiting_run_keeps_its_calls_if_opened_with_another_version() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(None);
    runs.run("r").options(DurableOptions::new().agent_version("1")).submit("Pay.").await.unwrap();
    payer.drive(&runs).await.unwrap_err();
    let waits = details(&runs).await;
    assert_eq!(waits.summary.status, RunStatus::Waiting);
    open_with_another_version(&payer, &runs).await;
    assert_eq!(details(&runs).await, waits);
}

#[tokio::test]
async fn run_with_timely_decisions_continues_and_is_not_revived() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT * 2));
    interrupted(&payer, &runs).await;
    let denied = ApprovalDecisions::new().deny("c", "no");
    runs.signal("r", "decide", denied).await.unwrap();
    pass_deadline(&runs).await;
    let error = runs.revive("r", approved()).await.unwrap_err().to_string();
    assert!(error.contains("decisions came in time"), "{error}");
    assert_eq!(payer.drive(&runs).await.unwrap().response, "done");
    assert_eq!(payer.paid(), 0);
}

#[tokio::test]
async fn revived_run_ignores_decisions_sent_after_its_deadline() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let payer = Payer::new(Some(TIMEOUT / 10));
    payer.drive(&runs).await.unwrap_err();
    // Stores the signal as `signal` would, between the end of the wait and the end of the run.
    let connection = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT key, changed_at FROM runs";
    let (run, sent_at): (i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut sum = Sha256::new();
    for number in [run, sent_at] {
        sum.update([1]);
        sum.update(number.to_le_bytes());
    }
    for text in ["decide", "{}"] {
        sum.update([1]);
        sum.update((text.len() as u64).to_le_bytes());
        sum.update(text);
    }
    let sum = &sum.finalize()[..16];
    let sql =
        "INSERT INTO signals (run, name, sent_at, value, sum) VALUES (?1, 'decide', ?2, '{}', ?3)";
    connection.execute(sql, (run, sent_at, sum)).unwrap();
    assert_eq!(details(&runs).await.signals.len(), 1);
    runs.revive("r", approved()).await.unwrap();
    assert!(details(&runs).await.signals.is_empty());
    assert_eq!(payer.drive(&runs).await.unwrap().response, "done");
    assert_eq!(payer.paid(), 1);
}

/// Polls until `found` returns a value.
async fn soon<T>(found: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(value) = found().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.expect("it comes")
}

/// Regression test. The model uses the same id and the same arguments for two payments. Before the fix, the decision of
/// a second click approved the second payment, which nobody had seen.
#[tokio::test]
async fn decision_is_on_one_call_of_a_model_that_repeats_its_ids() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let mut payer = Payer::new(Some(Duration::from_secs(3600)));
    let call = || Reply::tool_call("c", "pay", json!({ "sum": 3 }));
    payer.model = Arc::new(ScriptedProvider::new([call(), call(), Reply::text("done")]));
    let waits = async || {
        let waits = soon(async || runs.inspect("r").await.ok()?.summary.waits_for).await;
        let WaitEvent::Approval { pending: Some(pending), .. } = waits.event else { panic!() };
        *pending
    };
    let people = async {
        let nothing = DurableRuns::decide(&runs, "r", ApprovalDecisions::new()).await.unwrap_err();
        let is_early = matches!(
            nothing,
            RunsError::NotFound { .. } | RunsError::Approval(ApprovalError::NothingPending)
        );
        assert!(is_early, "{nothing}");
        let first = waits().await;
        let decisions = ApprovalDecisions::approve_all(&first);
        DurableRuns::decide(&runs, "r", decisions.clone()).await.unwrap();
        let second =
            soon(async || Some(waits().await).filter(|pending| pending.calls != first.calls)).await;
        assert_eq!(second.calls[0].call, first.calls[0].call);
        for late in
            [decisions.clone(), ApprovalDecisions::new().deny(&first.calls[0].approval_id, "")]
        {
            let refused = DurableRuns::decide(&runs, "r", late).await.unwrap_err();
            let is_late = matches!(refused, RunsError::Approval(ApprovalError::NotPending { .. }));
            assert!(is_late, "{refused}");
        }
        // A signal that is not compared before is refused by the run, which keeps waiting.
        runs.signal("r", "decide", decisions).await.unwrap();
        let by_id = ApprovalDecisions::new().approve("c");
        runs.signal("r", "decide", by_id).await.unwrap();
        soon(async || runs.inspect("r").await.unwrap().signals.is_empty().then_some(())).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(payer.paid(), 1);
        DurableRuns::decide(&runs, "r", ApprovalDecisions::approve_all(&second)).await.unwrap();
    };
    let (ended, ()) = tokio::join!(payer.drive(&runs), people);
    assert_eq!((ended.unwrap().response.as_str(), payer.paid()), ("done", 2));
}
