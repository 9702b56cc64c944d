//! Tests of a process that stops or hangs while it drives a run. Another process takes the run over. The first process
//! must start no new step when it continues.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_conformance_durable::{EffectKind, EffectLog};
use neuron_durable_sqlite::{
    DurableOptions, JournalError, RunStatus, SqliteDurableContext, SqliteRuns,
};
use neuron_loop::{Agent, Conversation};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{Next, ToolRegistry, tool_middleware_fn};
use neuron_types::{
    AgentResult, CompletionRequest, CompletionResponse, Durability, DurableAgent,
    DurableContext as _, LoopError, Provider, ProviderError, Role, Start, StreamHandle, ToolCall,
    ToolContext, ToolOutput, WasmBoxedFuture,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{HANGING, add_tool, place};

const LEASE: Duration = Duration::from_secs(1);

/// The point at which a process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Point {
    Model,
    Signal,
    /// During a tool call that must not run twice.
    Tool,
    /// After the journal has stored that the tool call begins, and before the tool runs.
    BeforeTool,
}

/// Everything that a child process needs to drive the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    path: PathBuf,
    log: EffectLog,
    /// The point at which this process waits until the file `gate` exists. `None` if the process never waits.
    stops_at: Option<Point>,
    waits: bool,
    gate: PathBuf,
}

impl Job {
    async fn open(&self, runs: &SqliteRuns) -> Result<SqliteDurableContext<Model>, JournalError> {
        let (model, tools) = (Arc::new(Model(self.clone())), Arc::new(self.tools()));
        runs.run("r").options(DurableOptions::new().lease(LEASE)).open(model, tools).await
    }

    /// Reports that the process has reached a point. At the point `stops_at`, waits until the file `gate` exists.
    async fn reach(&self, point: Point) {
        if self.stops_at != Some(point) {
            return;
        }
        child_process::report("here");
        while !self.gate.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // The process may have been stopped during a poll, which then continues without a new check of the
        // lease. Yielding ends this poll.
        tokio::task::yield_now().await;
    }

    fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        let job = self.clone();
        add_tool(&mut tools, "pay", move |_, ctx| {
            let job = job.clone();
            async move {
                let (tool, call_id) = ("pay".to_owned(), ctx.call_id.clone());
                let key = ctx.idempotency_key.clone();
                job.log.append(EffectKind::ToolStarted {
                    tool: tool.clone(),
                    call_id: call_id.clone(),
                    key,
                });
                job.reach(Point::Tool).await;
                job.log.append(EffectKind::ToolEnded { tool, call_id });
                ToolOutput::text("paid")
            }
        });
        let job = self.clone();
        tools.add_middleware(tool_middleware_fn(
            move |call: &ToolCall, ctx: &ToolContext, next: Next<'_>| {
                let job = job.clone();
                Box::pin(async move {
                    job.reach(Point::BeforeTool).await;
                    next.run(call, ctx).await
                })
            },
        ));
        tools
    }

    async fn agent(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        if self.waits {
            let _: Option<Value> = durability.wait_for_signal("go", HANGING).await?;
        }
        let agent = Agent::builder(Model(self.clone())).tools(self.tools()).build();
        let mut conversation = Conversation::new();
        let result = agent.run(&mut conversation, start).durable(durability).await?;
        Ok(result.with_messages(&conversation))
    }
}

impl DurableAgent for Job {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(self.agent(start, durability))
    }
}

struct Model(Job);

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let is_answer = |message: &&neuron_types::Message| message.role == Role::Assistant;
        let turn = request.messages.iter().filter(is_answer).count();
        self.0.log.append(EffectKind::ModelCalled { step: format!("answer {turn}") });
        self.0.reach(Point::Model).await;
        let reply = match turn {
            0 => Reply::tool_call("call-0", "pay", json!({})),
            _ => Reply::text("done"),
        };
        ScriptedProvider::new([reply]).complete(request).await
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// Sends a signal of the operating system to a child process of this test.
fn send(signal: &str, process: &str) {
    let sent = Command::new("sh").args(["-c", r#"kill "$@""#, "kill", signal, process]).status();
    assert!(sent.unwrap().success(), "{signal} to {process}");
}

/// Stops a process at a point, takes its run over, and resumes the process.
async fn stopped(point: Point, test: &str) {
    if let Some(task) = child_process::task() {
        let job: Job = serde_json::from_str(&task).unwrap();
        child_process::report(&std::process::id().to_string());
        let runs = SqliteRuns::open(&job.path).await.unwrap();
        let ended = job.open(&runs).await.unwrap().drive("go", &job).await;
        child_process::report(&format!("ended: {}", ended.unwrap_err()));
        return;
    }
    let (folder, path) = place();
    let gate = folder.path().join("gate");
    let log = EffectLog::new(folder.path().join("log"));
    let waits = point == Point::Signal;
    let job = Job { path: path.clone(), log, stops_at: Some(point), waits, gate: gate.clone() };
    let runs = SqliteRuns::open(&path).await.unwrap();
    let mut child = ChildProcess::start(test, &serde_json::to_string(&job).unwrap());
    let process = child.next_report(HANGING).unwrap();
    let job = Job { stops_at: None, ..job };
    match point {
        Point::Signal => {
            while !matches!(runs.inspect("r").await, Ok(run) if run.summary.status == RunStatus::Waiting)
            {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        _ => assert_eq!(child.next_report(HANGING).as_deref(), Some("here")),
    }
    let begin = Instant::now();
    // The process works for longer than its lease, and still holds the run.
    while begin.elapsed() < LEASE * 2 {
        let held = job.open(&runs).await.unwrap_err();
        assert!(matches!(held, JournalError::Held { .. }), "{held:?}");
        assert!(runs.inspect("r").await.unwrap().is_held);
        tokio::time::sleep(LEASE / 10).await;
    }

    send("-STOP", &process);
    let stopped = Instant::now();
    while runs.inspect("r").await.unwrap().is_held {
        assert!(stopped.elapsed() < LEASE + Duration::from_secs(5), "the lease does not expire");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let context = job.open(&runs).await.unwrap();
    if waits {
        runs.signal("r", "go", 1).await.unwrap();
    }
    let result = context.drive("go", &job).await.unwrap();
    assert_eq!(result.response, "done");
    drop(context);
    let before = job.log.effects();

    std::fs::write(&gate, "").unwrap();
    send("-CONT", &process);
    let ended = child.next_report(HANGING).unwrap();
    assert!(ended.contains("was opened by another context since"), "{ended}");
    assert_eq!(job.log.effects(), before, "it began something");
    let by_holder = |kind: fn(&EffectKind) -> bool| {
        let is_holders = |effect: &&neuron_conformance_durable::Effect| {
            effect.process.to_string() == process && kind(&effect.kind)
        };
        before.iter().filter(is_holders).count()
    };
    let calls = by_holder(|kind| matches!(kind, EffectKind::ModelCalled { .. }));
    let starts = by_holder(|kind| matches!(kind, EffectKind::ToolStarted { .. }));
    let (expected, in_all) = match point {
        Point::Model => ((1, 0), (3, 1)),
        Point::Signal => ((0, 0), (2, 1)),
        Point::Tool => ((1, 1), (2, 1)),
        Point::BeforeTool => ((1, 0), (2, 0)),
    };
    assert_eq!((calls, starts), expected);
    assert_eq!((job.log.model_calls(), job.log.starts_of("pay")), in_all);
    let details = runs.inspect("r").await.unwrap();
    assert_eq!((details.summary.status, details.is_held), (RunStatus::Done, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_stopped_in_a_model_call_starts_no_step_after_takeover() {
    stopped(Point::Model, "lease::holder_stopped_in_a_model_call_starts_no_step_after_takeover")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_stopped_in_a_wait_starts_no_step_after_takeover() {
    stopped(Point::Signal, "lease::holder_stopped_in_a_wait_starts_no_step_after_takeover").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_stopped_in_a_tool_starts_no_step_after_takeover() {
    stopped(Point::Tool, "lease::holder_stopped_in_a_tool_starts_no_step_after_takeover").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_stopped_before_a_tool_starts_no_step_after_takeover() {
    let test = "lease::holder_stopped_before_a_tool_starts_no_step_after_takeover";
    stopped(Point::BeforeTool, test).await;
}

async fn drive_blocking(
    runs: &SqliteRuns,
    ran: &Arc<AtomicUsize>,
    replies: impl IntoIterator<Item = Reply>,
) -> Result<AgentResult, LoopError> {
    let mut tools = ToolRegistry::new();
    let ran = ran.clone();
    // A tool that blocks its thread, like a process that hangs.
    add_tool(&mut tools, "block", move |_, _| {
        let ran = ran.clone();
        async move {
            if ran.fetch_add(1, Ordering::SeqCst) == 0 {
                std::thread::sleep(LEASE * 3);
            }
            ToolOutput::text("done")
        }
    });
    let model = Arc::new(ScriptedProvider::new(replies));
    let context = runs
        .run("r")
        .options(DurableOptions::new().lease(LEASE))
        .open(model.clone(), Arc::new(tools.clone()))
        .await?;
    context.drive("go", &Agent::builder(model).tools(tools).build()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_a_hung_context_is_taken_over_by_the_same_process() {
    let (_folder, path) = place();
    let memory = SqliteRuns::open(":memory:").await.unwrap();
    let file = SqliteRuns::open(&path).await.unwrap();
    // Through the same connections, and through another handle.
    let other = SqliteRuns::open(&path).await.unwrap();
    for (runs, other) in [(memory.clone(), memory), (file.clone(), file.clone()), (file, other)] {
        if runs.inspect("r").await.is_ok() {
            runs.delete("r").await.unwrap();
        }
        let ran = Arc::new(AtomicUsize::new(0));
        let hung = tokio::spawn({
            let (runs, ran) = (runs.clone(), ran.clone());
            let replies = [Reply::tool_call("c", "block", json!({})), Reply::text("never")];
            async move { drive_blocking(&runs, &ran, replies).await }
        });
        let result = loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if ran.load(Ordering::SeqCst) == 0 {
                continue;
            }
            match drive_blocking(&other, &ran, [Reply::text("done")]).await {
                Err(LoopError::Durable(neuron_types::DurableError::Other(error))) => {
                    let error = error.downcast_ref::<JournalError>();
                    assert!(matches!(error, Some(JournalError::Held { .. })), "{error:?}");
                    assert!(!hung.is_finished());
                }
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(result.response, "done");
        let error = hung.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("was opened by another context since"), "{error}");
        assert_eq!(ran.load(Ordering::SeqCst), 1, "it ran twice");
        assert_eq!(other.inspect("r").await.unwrap().summary.status, RunStatus::Done);
    }
}
