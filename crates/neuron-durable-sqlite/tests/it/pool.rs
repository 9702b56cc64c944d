//! Tests of pools that drive many runs, and few of them concurrently.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use neuron_durable_sqlite::{DurableOptions, JournalError, RunPool, RunStatus, SqliteRuns};
use neuron_loop::Conversation;
use neuron_testing::ScriptedProvider;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, CompletionRequest, CompletionResponse, Durability, DurableAgent,
    DurableContext as _, DurableError, LoopError, Provider, ProviderError, Start, StreamHandle,
    WasmBoxedFuture,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{HANGING, Work, place, until, whole};

/// An agent whose first message selects the work of the run. Clones share their counters.
#[derive(Clone)]
struct Worker {
    work: Work,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    driven: AtomicUsize,
    most: AtomicUsize,
    /// Number of times that each run was begun, by run id.
    begun: Mutex<BTreeMap<String, usize>>,
}

/// Guard that counts one driven run until the guard is dropped.
struct Driven(Arc<Counts>);

impl Driven {
    fn new(counts: &Arc<Counts>) -> Self {
        let driven = counts.driven.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most.fetch_max(driven, Ordering::SeqCst);
        Self(counts.clone())
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.driven.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Worker {
    fn new() -> Self {
        Self { work: Work::new(2, 10), counts: Arc::default() }
    }

    fn pool(&self, runs: &SqliteRuns) -> RunPool<Self, Self> {
        let tools: ToolRegistry = self.work.tools();
        runs.pool(Arc::new(self.clone()), Arc::new(tools), self.clone())
    }

    fn begun(&self, id: &str) -> usize {
        self.counts.begun.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    async fn agent(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let _driven = Driven::new(&self.counts);
        let id = durability.run_id().unwrap().to_owned();
        *self.counts.begun.lock().unwrap().entry(id.clone()).or_default() += 1;
        let text = match &start {
            Start::Message(message) => message.text(),
            _ => String::new(),
        };
        match text.as_str() {
            "wait" => drop(durability.wait_for_signal::<Value>("go", HANGING).await?),
            "sleep" => durability.sleep(Duration::from_millis(1500)).await,
            "fail" => return Err(LoopError::MaxTurns(7)),
            "hang" => std::future::pending().await,
            "panic" => panic!("it panics"),
            "cancel" => return Err(LoopError::Durable(DurableError::Cancelled)),
            "early" => {
                if self.begun(&id) > 1 {
                    let agent = neuron_loop::Agent::builder(ScriptedProvider::new(["early"]));
                    let result = agent.build().run(&mut Conversation::new(), start).await?;
                    return Ok(result.with_messages(&Conversation::new()));
                }
                durability.record("number", json!(1)).await?;
                std::future::pending().await
            }
            _ => {}
        }
        let agent = neuron_loop::Agent::builder(self.work.clone()).context(whole());
        let agent = agent.tools(self.work.tools()).build();
        let mut conversation = Conversation::new();
        let result = agent.run(&mut conversation, start).durable(durability).await?;
        Ok(result.with_messages(&conversation))
    }
}

impl DurableAgent for Worker {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(self.agent(start, durability))
    }
}

/// A model that responds after a few milliseconds, so that several runs are driven concurrently.
impl Provider for Worker {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.work.complete(request).await
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// Awaits `work` while a pool runs.
async fn beside<T>(pool: RunPool<Worker, Worker>, work: impl Future<Output = T>) -> T {
    tokio::select! {
        ended = pool.run() => panic!("{ended:?}"),
        done = work => done,
    }
}

fn epoch(path: &Path, id: &str) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT epoch FROM runs WHERE id = ?1", [id], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn pool_drives_at_most_three_of_twenty_runs_concurrently() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    let id = |number: usize| format!("run-{number}");
    for number in 0..10 {
        runs.run(&id(number)).submit("go").await.unwrap();
    }
    let pool = worker.pool(&runs).at_once(3).options(DurableOptions::new().continue_after(3));
    let work = async {
        // More runs are submitted while the pool runs, by this and another handle.
        let other = SqliteRuns::open(&path).await.unwrap();
        for number in 10..20 {
            let runs = if number % 2 == 0 { &runs } else { &other };
            runs.run(&id(number)).submit("go").await.unwrap();
        }
        for number in 0..20 {
            until(&runs, &id(number), RunStatus::Done).await;
        }
    };
    beside(pool, work).await;
    assert_eq!(worker.counts.most.load(Ordering::SeqCst), 3);
    assert_eq!(worker.work.done(), (20 * 3, 20 * 2));
    for run in runs.list().await.unwrap() {
        assert_eq!((run.steps, run.execution), (Some(5), Some(1)), "{run:?}");
    }
}

/// Regression test. Before the fix, a second message under the id of a known run was dropped without an error.
#[tokio::test]
async fn known_run_is_not_submitted_with_another_start() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    let check = async || {
        assert!(!runs.run("a").submit("go").await.unwrap(), "repeated");
        assert!(!runs.run("b").input(&1).submit("go").await.unwrap(), "repeated with its input");
        for (id, input, text) in [("a", None, "fail"), ("a", Some(1), "go"), ("b", Some(2), "go")] {
            let run = runs.run(id);
            let run = if let Some(input) = &input { run.input(input) } else { run };
            let error = run.submit(text).await.unwrap_err();
            assert!(
                matches!(&error, JournalError::OtherStart { id: other } if other == id),
                "{error}"
            );
        }
    };
    assert!(runs.run("a").submit("go").await.unwrap());
    assert!(runs.run("b").input(&1).submit("go").await.unwrap());
    check().await;
    // The keys of a map have another order in each call.
    for is_new in [true, false, false, false] {
        let keys = (0..9).map(|number: u8| (number.to_string(), number));
        let input: std::collections::HashMap<_, _> = keys.collect();
        assert_eq!(runs.run("c").input(&input).submit("go").await.unwrap(), is_new);
    }
    // A run that was opened and never started has no start and no input yet.
    let provider = Arc::new(ScriptedProvider::new(["unused"]));
    drop(runs.run("d").open(provider, Arc::default()).await.unwrap());
    assert!(runs.run("d").input(&1).submit("go").await.unwrap());
    assert_eq!(runs.input::<Value>("d").await.unwrap(), Some(json!(1)));
    // Each run continues as new, which replaces its stored start.
    let work = async {
        until(&runs, "a", RunStatus::Done).await;
        until(&runs, "b", RunStatus::Done).await;
    };
    let pool = worker.pool(&runs).options(DurableOptions::new().continue_after(3));
    beside(pool, work).await;
    assert_eq!(runs.inspect("a").await.unwrap().summary.execution, Some(1));
    check().await;
    assert_eq!(worker.begun("a"), 2, "two executions");
}

#[tokio::test]
async fn waiting_run_releases_its_place_and_continues_with_its_signal() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let other = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    for (id, text) in [("one", "wait"), ("two", "wait"), ("three", "sleep"), ("four", "go")] {
        runs.run(id).submit(text).await.unwrap();
    }
    let work = async {
        until(&runs, "four", RunStatus::Done).await;
        until(&runs, "three", RunStatus::Done).await;
        // A waiting run is not held, and the pool does not open it before its signal arrives.
        for id in ["one", "two"] {
            let details = runs.inspect(id).await.unwrap();
            assert_eq!((details.summary.status, details.is_held), (RunStatus::Waiting, false));
            assert_eq!(worker.begun(id), 1);
        }
        runs.signal("one", "go", 1).await.unwrap();
        until(&runs, "one", RunStatus::Done).await;
        other.signal("two", "go", 1).await.unwrap();
        until(&runs, "two", RunStatus::Done).await;
    };
    beside(worker.pool(&runs).at_once(1), work).await;
    assert_eq!(worker.counts.most.load(Ordering::SeqCst), 1);
    assert_eq!(["one", "two", "three", "four"].map(|id| worker.begun(id)), [2, 2, 2, 1]);
    assert_eq!(worker.work.done(), (4 * 3, 4 * 2));
}

#[tokio::test]
async fn failed_and_stalled_runs_do_not_end_the_pool() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    for (id, text, version) in
        [("fails", "fail", "2"), ("other version", "go", "1"), ("goes", "go", "2")]
    {
        runs.run(id)
            .options(DurableOptions::new().agent_version(version))
            .submit(text)
            .await
            .unwrap();
    }
    // A run that another context holds, a run without a start and an input, and a run that begins with its input.
    let held = worker.work.open(&runs, "held").await.unwrap();
    held.start("go").await.unwrap();
    drop(worker.work.open(&runs, "unknown").await.unwrap());
    let input = runs.run("input").input(&"go");
    drop(input.open(Arc::new(worker.clone()), Arc::default()).await.unwrap());

    let work = async {
        until(&runs, "fails", RunStatus::Failed).await;
        until(&runs, "other version", RunStatus::Stalled).await;
        until(&runs, "goes", RunStatus::Done).await;
        until(&runs, "input", RunStatus::Done).await;
        // Long enough for the pool to read the database twice more.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!((worker.begun("fails"), worker.begun("other version")), (1, 0));
        assert_eq!((worker.begun("held"), worker.begun("unknown")), (0, 0));
        let reason = runs.inspect("fails").await.unwrap().summary.reason.unwrap();
        assert_eq!(reason, "max turns reached (7)");
        assert_eq!((epoch(&path, "fails"), epoch(&path, "other version")), (1, 0));

        runs.retry("fails").await.unwrap();
        drop(held);
        until(&runs, "held", RunStatus::Done).await;
        until(&runs, "fails", RunStatus::Failed).await;
        assert_eq!(worker.begun("fails"), 2);
    };
    beside(worker.pool(&runs).options(DurableOptions::new().agent_version("2")), work).await;
}

#[tokio::test]
async fn cancelled_pool_frees_its_runs_for_another_pool() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    runs.run("hangs").submit("hang").await.unwrap();
    let token = CancellationToken::new();
    let pool = worker.pool(&runs).cancelled_with(&token);
    let cancel = async {
        while worker.begun("hangs") == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(runs.inspect("hangs").await.unwrap().is_held);
        token.cancel();
    };
    let (ended, ()) = tokio::join!(pool.run(), cancel);
    ended.unwrap();
    let details = runs.inspect("hangs").await.unwrap();
    assert_eq!((details.summary.status, details.is_held), (RunStatus::Running, false));

    let work = async {
        while worker.begun("hangs") == 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // A cancelled run releases its place, and is not opened again.
        runs.cancel("hangs").await.unwrap();
        runs.run("next").submit("go").await.unwrap();
        until(&runs, "next", RunStatus::Done).await;
    };
    beside(
        worker
            .pool(&runs)
            .at_once(1)
            .options(DurableOptions::new().lease(Duration::from_millis(600))),
        work,
    )
    .await;
    assert_eq!(worker.begun("hangs"), 2);
    let error = worker.work.open(&runs, "hangs").await.unwrap_err();
    assert!(matches!(error, JournalError::Cancelled { .. }), "{error:?}");
}

#[tokio::test]
async fn runs_that_panic_or_do_not_end_are_opened_with_growing_pauses() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    for id in ["early", "cancel", "panic"] {
        runs.run(id).submit(id).await.unwrap();
    }
    let interrupt = async {
        while runs.inspect("early").await.unwrap().steps.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    beside(worker.pool(&runs), interrupt).await;
    let work = async {
        runs.run("goes").submit("go").await.unwrap();
        until(&runs, "goes", RunStatus::Done).await;
        until(&runs, "panic", RunStatus::Stalled).await;
        while worker.begun("early") < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begin = Instant::now();
    beside(worker.pool(&runs), work).await;
    // Opened immediately, and again after a second.
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    assert!(worker.begun("cancel") <= 4 && worker.begun("panic") <= 2);
    let details = runs.inspect("panic").await.unwrap();
    assert_eq!(details.summary.reason.unwrap(), "durable execution: the agent panicked");
    assert_eq!(runs.inspect("early").await.unwrap().summary.status, RunStatus::Running);
}

#[tokio::test]
async fn retried_run_is_driven_immediately() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let worker = Worker::new();
    runs.run("fails").submit("fail").await.unwrap();
    let work = async {
        for times in 1..5 {
            until(&runs, "fails", RunStatus::Failed).await;
            assert_eq!(worker.begun("fails"), times);
            runs.retry("fails").await.unwrap();
        }
    };
    let begin = Instant::now();
    beside(worker.pool(&runs), work).await;
    // With doubling pauses the runs would take 7 seconds.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn stalled_waiting_run_continues_with_its_signal() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let worker = Worker::new();
    runs.run("waits")
        .options(DurableOptions::new().agent_version("1"))
        .submit("wait")
        .await
        .unwrap();
    beside(worker.pool(&runs), until(&runs, "waits", RunStatus::Waiting)).await;
    let other = runs.run("waits").options(DurableOptions::new().agent_version("2"));
    other.open(Arc::new(worker.clone()), Arc::default()).await.unwrap_err();
    assert_eq!(runs.inspect("waits").await.unwrap().summary.status, RunStatus::Stalled);
    let work = async {
        until(&runs, "waits", RunStatus::Waiting).await;
        runs.signal("waits", "go", 1).await.unwrap();
        until(&runs, "waits", RunStatus::Done).await;
    };
    beside(worker.pool(&runs).options(DurableOptions::new().agent_version("1")), work).await;
}
