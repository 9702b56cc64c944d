//! A durable context that journals in memory and logs all its calls.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DurableContext, DurableError, ErrorRecord, LoopError, PendingApproval, Provider, TokenUsage,
    ToolContext, ToolInvocation, ToolOutput,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::*;

/// The journal of a durable run. It contains each finished operation with its input and result, and survives the
/// process.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<(String, Value)>>>);

impl Journal {
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns the first `steps` steps of the journal, as if the process had ended after them.
    pub(crate) fn cut(&self, steps: usize) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap()[..steps].to_vec())))
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(asked, _)| asked.starts_with(kind)).count()
    }
}

/// The model, the tools, and the sender of signals, which the durable context calls.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) provider: ScriptedProvider,
    pub(crate) tools: ToolRegistry,
    /// Results of the waits for signals. `None` means that the wait timed out. After the last result, waits never end.
    pub(crate) signals: Arc<Mutex<VecDeque<Option<Value>>>>,
    /// Set if every pending call is approved immediately.
    pub(crate) approves: bool,
    /// The pending calls of each wait for an approval.
    pub(crate) asked: Arc<Mutex<Vec<PendingApproval>>>,
}

impl World {
    pub(crate) fn new(
        replies: impl IntoIterator<Item = Reply>,
        tools: ToolRegistry,
        signals: impl IntoIterator<Item = Option<Value>>,
    ) -> Self {
        let signals = Arc::new(Mutex::new(signals.into_iter().collect()));
        let provider = ScriptedProvider::new(replies);
        Self { provider, tools, signals, approves: false, asked: Arc::default() }
    }
}

/// A durable context for one execution of a run.
#[derive(Clone)]
pub(crate) struct Journaled {
    pub(crate) world: World,
    pub(crate) journal: Journal,
    /// Index of the next step in the journal.
    next: Arc<AtomicUsize>,
    /// All calls of the context with their arguments.
    pub(crate) calls: Log,
    /// Number of times that the loop asked whether to continue as a new execution. `continue_at` contains the indices,
    /// from zero, of the questions that are answered with yes.
    asked: Arc<AtomicUsize>,
    continue_at: Arc<BTreeSet<usize>>,
    /// The next times of the clock, in seconds. After the last one, the time is zero.
    pub(crate) clock: Arc<Mutex<VecDeque<i64>>>,
    /// The state that the run passed to the context to continue as a new execution.
    pub(crate) state: Arc<Mutex<Option<Value>>>,
}

impl Journaled {
    pub(crate) fn new(world: &World, journal: &Journal) -> Self {
        Self {
            world: world.clone(),
            journal: journal.clone(),
            next: Arc::default(),
            calls: Log::default(),
            asked: Arc::default(),
            continue_at: Arc::default(),
            clock: Arc::default(),
            state: Arc::default(),
        }
    }

    /// Sets the questions whether to continue as new that the context answers with yes. `asked` has their numbers,
    /// counted from zero.
    pub(crate) fn continuing_at(self, asked: impl IntoIterator<Item = usize>) -> Self {
        Self { continue_at: Arc::new(asked.into_iter().collect()), ..self }
    }

    /// Returns the context of the next execution of the run. It has an empty journal. The count of questions whether to
    /// continue as new is kept.
    pub(crate) fn next_execution(&self) -> Self {
        Self {
            journal: Journal::default(),
            next: Arc::default(),
            state: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the number of times that the loop asked whether to continue as new.
    pub(crate) fn asked_so_far(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns a context that replays this execution from its journal, like another process. `asked` is the number of
    /// times that earlier executions asked whether to continue as new.
    pub(crate) fn replay(&self, asked: usize) -> Self {
        Self {
            next: Arc::default(),
            calls: Log::default(),
            asked: Arc::new(AtomicUsize::new(asked)),
            state: Arc::default(),
            ..self.clone()
        }
    }

    async fn step(&self, asked: String, work: impl Future<Output = Value>) -> Value {
        self.calls.push(&*asked);
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let known = self.journal.0.lock().unwrap().get(at).cloned();
        if let Some((known, value)) = known {
            assert_eq!(known, asked, "step {at} differs on replay");
            return value;
        }
        let value = work.await;
        self.journal.0.lock().unwrap().push((asked, value.clone()));
        value
    }
}

fn options_text(options: &ActivityOptions) -> String {
    serde_json::to_string(options).unwrap()
}

impl DurableContext for Journaled {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let request_text = serde_json::to_string(&request).unwrap();
        let asked = format!("llm {} {request_text}", options_text(&options));
        let work = async {
            match self.world.provider.complete(request).await {
                Ok(response) => json!({ "ok": response }),
                Err(error) => json!({ "error": ErrorRecord::from(&error) }),
            }
        };
        let mut value = self.step(asked, work).await;
        match value.get_mut("error").map(Value::take) {
            None => Ok(serde_json::from_value(value["ok"].take()).unwrap()),
            Some(error) => {
                let record: ErrorRecord = serde_json::from_value(error).unwrap();
                Err(DurableError::Provider(record.into_provider_error()))
            }
        }
    }

    async fn execute_tool(
        &self,
        _: &str,
        _: Value,
        _: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        unreachable!("the loop hands batches over")
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let mut asked = format!("tools {}", options_text(&options));
        for ToolInvocation { call, ctx, effect, .. } in &batch {
            let call_text = serde_json::to_string(call).unwrap();
            asked += &format!(" [{call_text} {effect:?} {}]", ctx.idempotency_key);
        }
        let work = async {
            let calls = batch.iter().map(|ToolInvocation { call, ctx, scope, .. }| async {
                let ran = scope.run(self.world.tools.execute_call(call, ctx)).await;
                let usage = ctx.usage.take();
                match ran {
                    Ok(output) => json!({ "ok": output, "usage": usage }),
                    Err(error) => json!({ "error": ErrorRecord::from(&error), "usage": usage }),
                }
            });
            Value::Array(join_all(calls).await)
        };
        let Value::Array(values) = self.step(asked, work).await else { unreachable!() };
        let read = |(mut value, invocation): (Value, &ToolInvocation)| {
            let usage: TokenUsage = serde_json::from_value(value["usage"].take()).unwrap();
            invocation.ctx.usage.add(&usage);
            match value.get_mut("error").map(Value::take) {
                None => Ok(serde_json::from_value(value["ok"].take()).unwrap()),
                Some(error) => {
                    let record: ErrorRecord = serde_json::from_value(error).unwrap();
                    Err(DurableError::Tool(record.into_tool_error()))
                }
            }
        };
        values.into_iter().zip(&batch).map(read).collect()
    }

    async fn wait_for_signal<T: DeserializeOwned>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        let work = async {
            let signal = self.world.signals.lock().unwrap().pop_front();
            match signal {
                Some(signal) => json!({ "signal": signal }),
                None => std::future::pending().await,
            }
        };
        let asked = format!("signal {signal_name} {}", timeout.as_secs());
        match self.step(asked, work).await["signal"].take() {
            Value::Null => Ok(None),
            signal => serde_json::from_value(signal)
                .map(Some)
                .map_err(|error| DurableError::Other(Box::new(error))),
        }
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.calls.push(format!("approval {}", serde_json::to_string(pending).unwrap()));
        self.world.asked.lock().unwrap().push(pending.clone());
        if self.world.approves {
            let all = ApprovalDecisions::approve_all(pending);
            let signal = Some(serde_json::to_value(all).unwrap());
            *self.world.signals.lock().unwrap() = VecDeque::from([signal]);
        }
        self.wait_for_signal(signal_name, timeout).await
    }

    fn should_continue_as_new(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.calls.push(format!("continue? {asked}"));
        self.continue_at.contains(&asked)
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.calls.push(format!("continue {state}"));
        *self.state.lock().unwrap() = Some(state);
        Err(DurableError::ContinueAsNew("next".into()))
    }

    async fn sleep(&self, duration: Duration) {
        self.step(format!("sleep {}", duration.as_secs()), async { Value::Null }).await;
    }

    fn now(&self) -> DateTime<Utc> {
        self.calls.push("now");
        let seconds = self.clock.lock().unwrap().pop_front().unwrap_or_default();
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        self.calls.push(match result {
            Ok(result) => format!("ended {}", serde_json::to_string(result).unwrap()),
            Err(error) => format!("ended {error}"),
        });
    }

    fn is_replaying(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.journal.len()
    }

    fn run_id(&self) -> Option<&str> {
        Some("run-7")
    }
}
