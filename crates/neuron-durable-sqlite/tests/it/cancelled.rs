//! Tests of runs that are cancelled by other processes, and of `DurableRuns`, the common interface of all durable
//! engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use neuron_durable_sqlite::{
    DurableOptions, DurableRuns, JournalError, RunStatus, RunsError, SqliteRuns, WaitEvent,
};
use neuron_types::{
    AgentResult, ApprovalDecisions, Durability, DurableAgent, DurableContext as _, DurableError,
    LoopError, Start, StopReason, TokenUsage, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::{HANGING, Work, place};

fn is_cancelled<T>(ended: &Result<T, LoopError>) -> bool {
    matches!(ended, Err(LoopError::Durable(DurableError::Cancelled)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_run_ends_in_each_process_and_continues_after_retry() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    // Like another process, this value shares only the file.
    let other = SqliteRuns::open(&path).await.unwrap();
    // This process cancels the run immediately. Another process notices when the lease is renewed.
    for (id, office, lease) in
        [("here", &runs, HANGING), ("there", &other, Duration::from_millis(300))]
    {
        let work = Work::new(2, 10).hanging_at(1);
        let (model, tools) = (Arc::new(work.clone()), Arc::new(work.tools()));
        let context = runs
            .run(id)
            .options(DurableOptions::new().lease(lease))
            .open(model, tools)
            .await
            .unwrap();
        let begin = Instant::now();
        let cancel = async {
            work.counts.hangs.notified().await;
            office.cancel(id).await.unwrap();
        };
        let (ended, ()) = tokio::join!(work.run_with(context), cancel);
        assert!(is_cancelled(&ended), "{ended:?}");
        assert!(begin.elapsed() < HANGING / 3);
        assert_eq!(work.done(), (2, 1));

        let details = office.inspect(id).await.unwrap();
        assert_eq!(details.summary.status, RunStatus::Cancelled);
        assert!(details.summary.status.is_end() && !details.is_held);
        assert_eq!(details.summary.reason.unwrap(), "the run was cancelled");
        let error = work.open(&runs, id).await.unwrap_err();
        assert!(matches!(error, JournalError::Cancelled { .. }), "{error:?}");
        let error = office.signal(id, "go", 1).await.unwrap_err();
        assert!(matches!(error, JournalError::Runs(RunsError::Ended { .. })), "{error:?}");
        assert!(error.to_string().contains("it was cancelled at "), "{error}");
        let error = office.cancel(id).await.unwrap_err();
        assert!(matches!(error, JournalError::Runs(RunsError::Ended { .. })), "{error:?}");
        assert!(!runs.unfinished().await.unwrap().contains(&id.to_owned()));

        office.retry(id).await.unwrap();
        let again = work.again();
        let result = again.run(&runs, id).await.unwrap();
        assert_eq!(again.done(), (2, 1), "the first answer and the first call are in the journal");
        assert_eq!(result.messages.len(), 6);
    }
}

#[tokio::test]
async fn cancelled_run_that_waits_or_sleeps_ends() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(0, 10);
    let context = work.open(&runs, "waits").await.unwrap();
    let cancel = async {
        while runs.inspect("waits").await.unwrap().summary.waits_for.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The waiting run checks for signals about every second, and notices the cancellation then.
        other.cancel("waits").await.unwrap();
    };
    let (ended, ()) = tokio::join!(context.wait_for_signal::<Value>("go", HANGING), cancel);
    assert!(matches!(ended, Err(DurableError::Cancelled)), "{ended:?}");

    let context = work.open(&runs, "sleeps").await.unwrap();
    let cancel = async {
        while runs.inspect("sleeps").await.unwrap().summary.waits_for.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        runs.cancel("sleeps").await.unwrap();
    };
    let begin = Instant::now();
    tokio::join!(context.sleep(HANGING), cancel);
    assert!(begin.elapsed() < HANGING / 2);
    let ended = work.run_with(context).await;
    assert!(is_cancelled(&ended), "{ended:?}");
    assert_eq!(work.done(), (0, 0));
}

/// An agent that waits forever outside of any step.
fn idles(_: Start, _: Durability<'_>) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
    Box::pin(std::future::pending())
}

#[tokio::test]
async fn cancelled_run_ends_between_its_steps() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let context = Work::new(0, 10).open(&runs, "r").await.unwrap();
    let begin = Instant::now();
    let cancel = async {
        while look_for_start(&path) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Cancelled through the same handle, because a cancellation by another handle is noticed only after a third of
        // the lease.
        runs.cancel("r").await.unwrap();
    };
    let (ended, ()) = tokio::join!(context.drive("go", &idles), cancel);
    assert!(is_cancelled(&ended), "{ended:?}");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

fn look_for_start(path: &std::path::Path) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("SELECT count(start) FROM runs", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn cancel_works_for_a_run_without_a_driver() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let work = Work::new(1, 10);
    drop(work.open(&runs, "r").await.unwrap());
    runs.cancel("r").await.unwrap();
    assert!(is_cancelled(&work.run(&runs, "r").await));
    assert_eq!(work.done(), (0, 0));
    let error = runs.cancel("missing").await.unwrap_err();
    assert!(matches!(error, JournalError::NotFound { .. }), "{error:?}");
    // A run that has ended cannot be cancelled any more.
    work.run(&runs, "done").await.unwrap();
    let error = runs.cancel("done").await.unwrap_err();
    assert!(error.to_string().contains("it ended with a result at "), "{error}");
    assert_eq!(runs.prune(Duration::ZERO).await.unwrap(), 2);
}

/// Returns one line for each run, with its id, its status and the signal for which it waits. Reads the runs only
/// through [`DurableRuns`].
async fn page(runs: &impl DurableRuns) -> Vec<String> {
    let mut lines = Vec::new();
    for run in runs.list().await.unwrap() {
        assert_eq!(runs.inspect(&run.id).await.unwrap(), run);
        let waits_for = run.waits_for.map(|waits_for| waits_for.event);
        lines.push(match waits_for {
            Some(WaitEvent::Signal { name }) => format!("{} {} for {name}", run.id, run.status),
            _ => format!("{} {}", run.id, run.status),
        });
    }
    lines
}

#[tokio::test]
async fn durable_runs_interface_lists_signals_and_cancels() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let work = Work::new(0, 10);
    work.run(&runs, "done").await.unwrap();
    let waits = work.open(&runs, "waits").await.unwrap();
    let received = AtomicUsize::new(0);
    let wait = async {
        let signal = waits.wait_for_signal::<Value>("go", HANGING).await.unwrap();
        received.store(signal.unwrap().as_u64().unwrap() as usize, Ordering::SeqCst);
    };
    let operate = async {
        while page(&runs).await != ["done done", "waits waiting for go"] {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        DurableRuns::signal(&runs, "waits", "go", json!(7)).await.unwrap();
    };
    tokio::join!(wait, operate);
    assert_eq!(received.load(Ordering::SeqCst), 7);
    DurableRuns::cancel(&runs, "waits").await.unwrap();
    assert_eq!(page(&runs).await, ["done done", "waits cancelled"]);

    let error = DurableRuns::signal(&runs, "done", "go", Value::Null).await.unwrap_err();
    assert!(matches!(error, RunsError::Ended { .. }), "{error:?}");
    let error = DurableRuns::cancel(&runs, "done").await.unwrap_err();
    assert!(matches!(error, RunsError::Ended { .. }), "{error:?}");
    let error = DurableRuns::inspect(&runs, "missing").await.unwrap_err();
    assert!(matches!(error, RunsError::NotFound { .. }), "{error:?}");
    let error = DurableRuns::revive(&runs, "done", ApprovalDecisions::new()).await.unwrap_err();
    assert!(matches!(error, RunsError::NotRevivable { .. }), "{error:?}");
}

/// An agent whose run is cancelled by another process when its last step ends.
struct CancelledAtTheEnd(SqliteRuns);

impl DurableAgent for CancelledAtTheEnd {
    fn run<'d>(
        &'d self,
        _: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            durability.record("last", json!(1)).await?;
            self.0.cancel("r").await?;
            Ok(AgentResult {
                response: "done".into(),
                messages: Vec::new(),
                usage: TokenUsage::default(),
                turns: 1,
                stop_reason: StopReason::EndTurn,
                limit_reached: None,
            })
        })
    }
}

#[tokio::test]
async fn run_cancelled_before_its_end_is_stored_has_no_result() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let agent = CancelledAtTheEnd(SqliteRuns::open(&path).await.unwrap());
    let work = Work::new(0, 10);
    let ended = work.open(&runs, "r").await.unwrap().drive("go", &agent).await;
    assert!(is_cancelled(&ended), "{ended:?}");
    assert_eq!(runs.inspect("r").await.unwrap().summary.status, RunStatus::Cancelled);
}
