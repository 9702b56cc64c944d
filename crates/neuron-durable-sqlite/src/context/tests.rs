//! Tests of whole runs with a journal, such as runs that are dropped at every poll, several executions, and approvals.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use neuron_durable::DurableOptions;
use neuron_loop::{ApprovalSignal, Conversation, LoopConfig};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, Durability, DurableAgent, LoopError, Message,
    PermissionDecision, PermissionPolicy, Start, ToolContext, ToolEffect, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::test_support::{Echo, place};
use crate::{RunStatus, SqliteOptions, SqliteRuns, Synchronous, WaitEvent};

/// An agent that calls the tools `look` and `pay` for some turns.
#[derive(Clone)]
struct Agent {
    model: Arc<ScriptedProvider>,
    tools: [Echo; 2],
    asks: bool,
    ctx: ToolContext,
}

const TURNS: usize = 5;

impl Agent {
    fn new() -> Self {
        let calls = |turn: usize| {
            Reply::tool_calls([
                (format!("look-{turn}"), "look", json!({ "turn": turn })),
                (format!("pay-{turn}"), "pay", json!({ "turn": turn })),
            ])
        };
        let replies = (0..TURNS).map(calls).chain([Reply::text("done")]);
        Self {
            model: Arc::new(ScriptedProvider::new(replies)),
            tools: [Echo::new("look", ToolEffect::Pure), Echo::new("pay", ToolEffect::AtMostOnce)],
            asks: false,
            ctx: ToolContext { run_id: "r".into(), ..Default::default() },
        }
    }

    fn registry(&self) -> ToolRegistry {
        let mut registry = ToolRegistry::new();
        for tool in &self.tools {
            registry.register_dyn(Arc::new(tool.clone()));
        }
        registry
    }

    async fn run_in(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let agent = neuron_loop::Agent::builder(self.model.clone())
            .tools(self.registry())
            .permission_policy(Policy(self.asks))
            .config(|config| {
                let (name, timeout) = ("decide".into(), Duration::from_secs(3600));
                *config = LoopConfig::default();
                config.approval_signal = Some(ApprovalSignal { name, timeout });
                config.parallel_tool_execution = true;
            })
            .build();
        let mut conversation = Conversation::new();
        let run = agent.run(&mut conversation, start).context(&self.ctx).durable(durability);
        let result = run.await?;
        Ok(result.with_messages(&conversation))
    }

    /// Opens the run and drives it to its end. The run continues as new after every `every` steps.
    async fn drive(&self, runs: &SqliteRuns, every: usize) -> Result<AgentResult, LoopError> {
        let tools = Arc::new(self.registry());
        let run = runs.run("r").options(DurableOptions::new().continue_after(every));
        let durable = run.open(self.model.clone(), tools).await?;
        durable.drive("go", self).await
    }
}

impl DurableAgent for Agent {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(self.run_in(start, durability))
    }
}

struct Policy(bool);

impl PermissionPolicy for Policy {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        match tool_name {
            "pay" if self.0 => PermissionDecision::Ask("may it pay?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// Returns the result of an undisturbed run.
async fn undisturbed() -> AgentResult {
    let agent = Agent::new();
    let local =
        neuron_durable::LocalDurableContext::new(agent.model.clone(), Arc::new(agent.registry()));
    agent.run_in("go".into(), Durability::new(local)).await.unwrap()
}

/// Polls a future at most `times` times, and drops it. Returns `None` if it did not end.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

#[tokio::test]
async fn run_dropped_at_every_poll_has_the_same_result() {
    let expected = undisturbed().await;
    for every in [usize::MAX, 4] {
        // The number of polls until a step is done depends on the writer threads, so the number of rounds varies.
        let mut dropped = 0;
        for times in (1..60).step_by(2) {
            let (_folder, path) = place();
            let options = SqliteOptions::new().synchronous(Synchronous::Normal);
            let runs = SqliteRuns::open_with(&path, options).await.unwrap();
            let agent = Agent::new();
            let first = polled(agent.drive(&runs, every), times).await;
            dropped += usize::from(first.is_none());
            let result = match first {
                Some(result) => result.unwrap(),
                // A response that was dropped before it was stored is lost, and the script cannot repeat it. Such a
                // round is skipped.
                None => match agent.model.remaining() + calls_stored(&runs).await {
                    all if all == TURNS + 1 => agent.drive(&runs, every).await.unwrap(),
                    _ => continue,
                },
            };
            assert!(agent.tools[1].ran() <= TURNS, "a call was made twice");
            assert_eq!(result.turns, expected.turns);
            let told = |message: &Message| format!("{message:?}").contains("is unknown");
            if !result.messages.iter().any(told) {
                assert_eq!(result.messages, expected.messages);
                assert_eq!(result.usage, expected.usage);
                assert_eq!(agent.tools[1].ran(), TURNS);
            }
            let summary = runs.inspect("r").await.unwrap().summary;
            assert_eq!((summary.status, summary.steps), (RunStatus::Done, Some(3 * TURNS + 1)));
            assert_eq!(summary.execution.unwrap() > 0, every == 4);
        }
        assert!(dropped > 0, "it was not dropped anywhere");
    }
}

/// Returns the number of model responses that were stored in the journal.
async fn calls_stored(runs: &SqliteRuns) -> usize {
    let Ok(details) = runs.inspect("r").await else {
        return 0;
    };
    let earlier = (details.summary.steps.unwrap() - details.steps.len()).div_ceil(3);
    let is_model = |step: &&crate::StepInfo| step.kind == crate::StepKind::Model;
    earlier + details.steps.iter().filter(is_model).count()
}

#[tokio::test]
async fn ended_run_returns_its_result_again_without_calls() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let agent = Agent::new();
    let first = agent.drive(&runs, usize::MAX).await.unwrap();
    assert_eq!(first, undisturbed().await);
    let before = runs.inspect("r").await.unwrap();
    let silent = Agent { model: crate::test_support::silent(), ..agent.clone() };
    assert_eq!(silent.drive(&runs, usize::MAX).await.unwrap(), first);
    assert_eq!(runs.inspect("r").await.unwrap(), before);
    assert_eq!(agent.tools[1].ran(), TURNS);
}

#[tokio::test(start_paused = true)]
async fn waiting_run_receives_the_decision_of_another_process() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let agent = Agent { asks: true, ..Agent::new() };
    let decide = async {
        let office = SqliteRuns::open(&path).await.unwrap();
        let mut decided = 0;
        while decided < TURNS {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let Ok(details) = office.inspect("r").await else { continue };
            let event = details.summary.waits_for.map(|waits_for| waits_for.event);
            if let Some(WaitEvent::Approval { signal: Some(name), pending: Some(pending) }) = event
            {
                assert_eq!(details.summary.status, RunStatus::Waiting);
                assert_eq!(pending.calls[0].call.input, json!({ "turn": decided }));
                let decisions = ApprovalDecisions::approve_all(&pending);
                office.signal("r", &name, decisions).await.unwrap();
                decided += 1;
            }
        }
    };
    let (result, ()) = tokio::join!(agent.drive(&runs, usize::MAX), decide);
    assert_eq!(result.unwrap().messages, undisturbed().await.messages);
    assert_eq!(agent.tools[1].ran(), TURNS);
}

#[tokio::test]
async fn run_cancelled_by_a_token_has_not_ended_and_continues() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let agent = Agent::new();
    let cancelled = Agent { ctx: ToolContext::default(), ..agent.clone() };
    cancelled.ctx.cancellation_token.cancel();
    let error = cancelled.drive(&runs, usize::MAX).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled), "{error:?}");
    assert_eq!(runs.unfinished().await.unwrap(), ["r"]);
    assert_eq!(agent.drive(&runs, usize::MAX).await.unwrap(), undisturbed().await);
}

#[tokio::test]
async fn journal_has_at_most_twice_the_size_of_the_messages() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let text = |turn: usize| format!("{turn:04} {}", "words ".repeat(4091 / 6));
    let calls =
        |turn: usize| Reply::tool_call(format!("c{turn}"), "look", json!({ "text": text(turn) }));
    let replies = (0..200).map(calls).chain([Reply::text("done")]);
    let model = Arc::new(ScriptedProvider::new(replies));
    let agent = Agent { model, ..Agent::new() };
    let result = agent.drive(&runs, usize::MAX).await.unwrap();
    let messages = serde_json::to_vec(&result.messages).unwrap().len() as u64;
    assert!(messages > 1_600_000, "{messages}");
    let size = |ending: &str| {
        let file = format!("{}{ending}", path.display());
        std::fs::metadata(file).map_or(0, |metadata| metadata.len())
    };
    let stored = size("") + size("-wal");
    assert!(stored <= 2 * messages, "{stored} for {messages}");
}

/// An agent that runs two loops. If `may_pass` is `false`, the agent never begins the second loop.
struct TwoLoops {
    model: Arc<ScriptedProvider>,
    between: Arc<Notify>,
    may_pass: bool,
}

impl TwoLoops {
    async fn run_in(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let agent = neuron_loop::Agent::builder(self.model.clone()).build();
        let first = agent.run(&mut Conversation::new(), start).durable(durability.clone()).await?;
        self.between.notify_one();
        if !self.may_pass {
            std::future::pending::<()>().await;
        }
        let mut conversation = Conversation::new();
        let second = agent.run(&mut conversation, first.response).durable(durability).await?;
        Ok(second.with_messages(&conversation))
    }
}

impl DurableAgent for TwoLoops {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(self.run_in(start, durability))
    }
}

#[tokio::test]
async fn run_dropped_between_two_loops_of_its_agent_has_not_ended() {
    let runs = SqliteRuns::open(":memory:").await.unwrap();
    let model = Arc::new(ScriptedProvider::new(["one", "two"]));
    let between = Arc::new(Notify::new());
    let drive = async |may_pass| {
        let context = runs.run("r").open(model.clone(), Arc::default()).await.unwrap();
        let agent = TwoLoops { model: model.clone(), between: between.clone(), may_pass };
        context.drive("go", &agent).await
    };
    tokio::select! {
        ended = drive(false) => panic!("{ended:?}"),
        () = between.notified() => {}
    }
    assert_eq!(runs.unfinished().await.unwrap(), ["r"]);
    assert_eq!(drive(true).await.unwrap().response, "two");
    let details = runs.inspect("r").await.unwrap();
    assert_eq!(details.summary.status, RunStatus::Done);
    assert_eq!(
        (details.outcome.unwrap().result.unwrap().response, model.calls()),
        ("two".into(), 2)
    );
}

#[tokio::test]
async fn run_is_free_as_soon_as_drive_has_stored_its_end() {
    let (_folder, path) = place();
    let file = SqliteRuns::open(&path).await.unwrap();
    let memory = SqliteRuns::open(":memory:").await.unwrap();
    for (runs, other) in [(file, SqliteRuns::open(&path).await.unwrap()), (memory.clone(), memory)]
    {
        let agent = Agent::new();
        let open = || runs.run("r").open(agent.model.clone(), Arc::new(agent.registry()));
        let context = open().await.unwrap();
        let result = context.drive("go", &agent).await.unwrap();
        assert!(!other.inspect("r").await.unwrap().is_held);
        // The same context can continue the run, until another context opens it.
        assert_eq!(context.drive("go", &agent).await.unwrap(), result);
        let taken = other.run("r").open(agent.model.clone(), Arc::new(agent.registry()));
        let taken = taken.await.unwrap();
        let error = context.drive("go", &agent).await.unwrap_err().to_string();
        assert!(error.contains("was opened by another context since"), "{error}");
        drop(context);
        assert!(other.inspect("r").await.unwrap().is_held);
        assert_eq!(taken.drive("go", &agent).await.unwrap(), result);
    }
}
