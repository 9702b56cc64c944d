//! Tests of the rule that a run has at most one driver.

use std::path::Path;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_durable_sqlite::{JournalError, SqliteRuns};
use neuron_types::{DurableError, LoopError};

use crate::support::{HANGING, Work, place};

/// Returns the error of a run that could not be driven.
#[track_caller]
fn refusal(result: Result<impl std::fmt::Debug, LoopError>) -> String {
    match result.unwrap_err() {
        LoopError::Durable(DurableError::Other(error)) => {
            assert!(error.downcast_ref::<JournalError>().is_some(), "{error:?}");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

const HELD: &str = "the run \"one\" is being driven by another context, in this process or another one: wait until \
                    that context has ended, or stop it";

#[tokio::test]
async fn second_context_in_a_process_cannot_drive_the_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(2, 10);
    let first = work.open(&runs, "one").await.unwrap();
    for runs in [&runs, &runs.clone(), &other] {
        assert_eq!(refusal(work.run(runs, "one").await), HELD);
        assert!(runs.inspect("one").await.unwrap().is_held);
    }
    // Other runs are free.
    work.run(&runs, "two").await.unwrap();
    assert_eq!(work.done(), (3, 2));
    drop(first);
    assert!(!runs.inspect("one").await.unwrap().is_held);
    work.run(&other, "one").await.unwrap();
}

/// Starts a child process that opens the run and holds it until the process is killed.
fn held_elsewhere(test: &str, path: &Path) -> ChildProcess {
    let mut child = ChildProcess::start(test, path.to_str().unwrap());
    assert_eq!(child.next_report(HANGING).as_deref(), Some("hangs"));
    child
}

/// The body of the child process, which holds the run until it is killed.
async fn hold(path: String) {
    let runs = SqliteRuns::open(path).await.unwrap();
    let work = Work::new(4, 10).hanging_at(2);
    let context = work.open(&runs, "one").await.unwrap();
    tokio::select! {
        ended = work.run_with(context.clone()) => panic!("it ended: {ended:?}"),
        () = work.counts.hangs.notified() => child_process::report("hangs"),
    }
    // The context is not dropped, so the process holds the run.
    std::future::pending().await
}

#[tokio::test]
async fn run_of_a_killed_process_is_free() {
    if let Some(path) = child_process::task() {
        return hold(path).await;
    }
    let (_folder, path) = place();
    let child = held_elsewhere("lock::run_of_a_killed_process_is_free", &path);
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(4, 10);
    assert_eq!(refusal(work.run(&runs, "one").await), HELD);
    assert_eq!(work.done(), (0, 0));
    assert!(runs.inspect("one").await.unwrap().is_held);
    drop(child.kill());
    assert!(!runs.inspect("one").await.unwrap().is_held);
    work.run(&runs, "one").await.unwrap();
    // Two responses and two calls were in the journal.
    assert_eq!(work.done(), (3, 2));
}

/// If the lock files are deleted, a second context can open the run. The first context must not write any more.
#[tokio::test]
async fn driver_with_a_deleted_lock_writes_nothing() {
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let first = Work::new(3, 10);
    let stale = first.open(&runs, "one").await.unwrap();
    std::fs::remove_dir_all(folder.path().join("runs.db.locks")).unwrap();

    let second = Work::new(3, 10);
    let messages = second.run(&other, "one").await.unwrap().messages;
    assert_eq!(second.done(), (4, 3));

    let text = refusal(first.run_with(stale).await);
    assert!(text.contains("was opened by another context since"), "{text}");
    // The first context made no model call and no tool call.
    assert_eq!(first.done(), (0, 0));
    let third = Work::new(3, 10);
    assert_eq!(third.run(&other, "one").await.unwrap().messages, messages);
    assert_eq!(third.done(), (0, 0));
}
