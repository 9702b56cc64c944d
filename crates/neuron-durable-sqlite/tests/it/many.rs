//! Tests of many concurrent runs in one database, while other tasks list, signal and prune runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_durable_sqlite::{RunStatus, SqliteOptions, SqliteRuns};
use neuron_types::DurableContext as _;
use serde_json::{Value, json};

use crate::support::{HANGING, Work, place};

const RUNS: usize = 64;
/// Opens a journal with a busy timeout of ten minutes. On a slow disk a writer may wait long, because SQLite does not
/// queue writers.
async fn patient(path: &Path) -> SqliteRuns {
    let options = SqliteOptions::new().busy_timeout(Duration::from_secs(600));
    SqliteRuns::open_with(path, options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_64_concurrent_runs_has_its_own_result() {
    let (_folder, path) = place();
    let runs = patient(&path).await;
    let is_over = Arc::new(AtomicBool::new(false));
    // A task that inspects all runs all the time, with a database handle of its own.
    let looking = tokio::spawn({
        let (runs, is_over) = (patient(&path).await, is_over.clone());
        async move {
            let mut looks = 0;
            while !is_over.load(Ordering::SeqCst) {
                for run in runs.list().await.unwrap() {
                    let details = runs.inspect(&run.id).await.unwrap();
                    assert!(details.steps.len() >= run.steps.unwrap(), "{details:?}");
                    assert!(details.steps.windows(2).all(|pair| pair[0].key != pair[1].key));
                }
                looks += 1;
            }
            looks
        }
    });
    let drive = |number: usize| {
        let runs = runs.clone();
        tokio::spawn(async move {
            // Each run has other messages.
            let work = Work::new(2 + number % 3, 100 + number);
            let result = work.run(&runs, &format!("run-{number}")).await.unwrap();
            assert_eq!(work.done(), (3 + number % 3, 2 + number % 3));
            (number, result.messages)
        })
    };
    let driven: Vec<_> = (0..RUNS).map(drive).collect();
    let mut ended = Vec::new();
    for run in driven {
        ended.push(run.await.unwrap());
    }
    is_over.store(true, Ordering::SeqCst);
    println!("all were looked at {} times meanwhile", looking.await.unwrap());

    for (number, messages) in ended {
        let work = Work::new(2 + number % 3, 100 + number);
        let replayed = work.run(&runs, &format!("run-{number}")).await.unwrap();
        assert!(replayed.messages == messages, "run {number}");
        assert_eq!(work.done(), (0, 0));
    }
    let listed = runs.list().await.unwrap();
    assert_eq!(listed.len(), RUNS);
    assert!(listed.iter().all(|run| run.status == RunStatus::Done));
}

#[tokio::test]
async fn signals_of_another_process_arrive_exactly_once() {
    const TEST: &str = "many::signals_of_another_process_arrive_exactly_once";
    if let Some(path) = child_process::task() {
        let runs = SqliteRuns::open(path).await.unwrap();
        for number in 0..20 {
            runs.signal("waits", "number", json!(number)).await.unwrap();
            child_process::report(&number.to_string());
        }
        return std::future::pending().await;
    }
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(1, 10);
    let context = work.open(&runs, "waits").await.unwrap();
    let mut child = ChildProcess::start(TEST, path.to_str().unwrap());
    for number in 0..20 {
        let received: Option<Value> = context.wait_for_signal("number", HANGING).await.unwrap();
        assert_eq!(received, Some(json!(number)));
    }
    // The child process reports each signal after it was sent.
    for number in 0..20 {
        assert_eq!(child.next_report(HANGING), Some(number.to_string()));
    }
    assert_eq!(child.kill().len(), 20);
    let none: Option<Value> = context.wait_for_signal("number", Duration::ZERO).await.unwrap();
    assert_eq!(none, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn prune_beside_active_runs_deletes_only_ended_runs() {
    let (_folder, path) = place();
    let runs = patient(&path).await;
    Work::new(3, 10).hanging_at(1).run_until_it_hangs(&runs, "interrupted").await;
    let is_over = Arc::new(AtomicBool::new(false));
    let tidying = tokio::spawn({
        let (runs, is_over) = (patient(&path).await, is_over.clone());
        async move {
            let mut pruned = 0;
            while !is_over.load(Ordering::SeqCst) {
                pruned += runs.prune(Duration::ZERO).await.unwrap();
            }
            pruned + runs.prune(Duration::ZERO).await.unwrap()
        }
    });
    for number in 0..30 {
        let work = Work::new(2, 10);
        work.run(&runs, &format!("run-{number}")).await.unwrap();
        assert_eq!(work.done(), (3, 2));
    }
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(tidying.await.unwrap(), 30);
    let left = runs.list().await.unwrap();
    let ids: Vec<_> = left.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(ids, ["interrupted"]);
}
