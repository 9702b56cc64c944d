//! A durable context that tells what is asked of it: around each call of the engine's is a moment at which
//! a process can be killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DeltaSink, Durability, DurableContext, DurableError, LoopError, PendingApproval, RunStart,
    ToolContext, ToolInvocation, ToolOutput, WasmCompatSend,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::boundary::boundary;
use crate::effects::{EffectKind, EffectLog};
use crate::scenario::Scenario;

/// What follows the name of a signal in the log of a scenario whose code was changed.
pub(crate) const WITH_CHANGED_CODE: &str = " (with changed code)";

/// The engine's context, watched.
pub(crate) struct Observed<'d> {
    inner: Durability<'d>,
    log: EffectLog,
    /// How often each signal was waited for.
    waits: Mutex<BTreeMap<String, usize>>,
    /// Which execution of the run this is, by the turns before it.
    execution: usize,
    steps: AtomicUsize,
    calls: AtomicUsize,
    /// After how many calls of the model the run continues as new.
    continues_after: Option<usize>,
    is_changed: bool,
}

impl<'d> Observed<'d> {
    pub(crate) fn new(
        inner: Durability<'d>,
        scenario: &Scenario,
        start: &RunStart,
        log: EffectLog,
    ) -> Self {
        let execution = match start {
            RunStart::Snapshot(snapshot) => snapshot.turns,
            _ => 0,
        };
        Self {
            inner,
            log,
            waits: Mutex::default(),
            execution,
            steps: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            continues_after: scenario.continues_after(),
            is_changed: scenario.is_changed(),
        }
    }

    /// Begins a step of the engine's.
    fn step(&self, what: &str) {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let code = if self.is_changed { WITH_CHANGED_CODE } else { "" };
        let what =
            format!("the time before step {number} after turn {}, {what}{code}", self.execution);
        self.log.append(EffectKind::Told { what, value: self.inner.now().to_string() });
    }

    fn waits_for(&self, signal: &str) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waits.entry(signal.to_owned()).or_default();
        let suffix = if self.is_changed { WITH_CHANGED_CODE } else { "" };
        let (signal, number) = (format!("{signal}{suffix}"), *count);
        *count += 1;
        self.log.append(EffectKind::Waits { signal, number });
    }
}

impl DurableContext for Observed<'_> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.step("a call of the model");
        boundary("engine: a call of the model begins");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = self.inner.execute_llm_call(request, options).await;
        boundary("engine: a call of the model is over");
        result
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.step("a tool call");
        boundary("engine: a tool call begins");
        let result = self.inner.execute_tool(tool_name, input, ctx, options).await;
        boundary("engine: a tool call is over");
        result
    }

    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.step("a wait");
        boundary("engine: a wait begins");
        self.waits_for(signal_name);
        let result = self.inner.wait_for_signal(signal_name, timeout).await;
        boundary("engine: a wait is over");
        result
    }

    fn should_continue_as_new(&self) -> bool {
        let is_due = |after| self.calls.load(Ordering::SeqCst) >= after;
        self.continues_after.is_some_and(is_due) || self.inner.should_continue_as_new()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.step("continuing as new");
        boundary("engine: continuing as new begins");
        let result = self.inner.continue_as_new(state).await;
        boundary("engine: continuing as new is over");
        result
    }

    async fn sleep(&self, duration: Duration) {
        self.step("a sleep");
        boundary("engine: a sleep begins");
        self.inner.sleep(duration).await;
        boundary("engine: a sleep is over");
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: &CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.step("a call of the model");
        boundary("engine: a call of the model begins");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = self.inner.execute_llm_call_ref(request, options).await;
        boundary("engine: a call of the model is over");
        result
    }

    async fn execute_llm_stream(
        &self,
        request: &CompletionRequest,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.step("a stream");
        boundary("engine: a stream begins");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = self.inner.execute_llm_stream(request, options, sink).await;
        boundary("engine: a stream is over");
        result
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        self.step("a batch");
        boundary("engine: a batch begins");
        let results = self.inner.execute_tools(batch, options).await;
        boundary("engine: a batch is over");
        results
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.step("a wait");
        boundary("engine: a wait begins");
        self.waits_for(signal_name);
        let result = self.inner.wait_for_approval(pending, signal_name, timeout).await;
        boundary("engine: a wait is over");
        result
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        boundary("engine: the end begins");
        self.inner.run_ended(result).await;
        boundary("engine: the end is over");
    }

    fn is_replaying(&self) -> bool {
        self.inner.is_replaying()
    }

    fn run_id(&self) -> Option<&str> {
        self.inner.run_id()
    }
}
