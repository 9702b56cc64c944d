//! A durable context that logs its calls ([`Observed`]). Crash tests can kill the process before and after each call.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DeltaSink, Durability, DurableContext, DurableError, KnownEffect, LoopError, PendingApproval,
    RequestRef, Start, ToolContext, ToolInvocation, ToolOutput, WasmCompatSend,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::boundary::boundary;
use crate::effects::{EffectKind, EffectLog};
use crate::scenario::Scenario;

/// Suffix of the logged names of signals and steps if the scenario simulates a change of the agent's code.
pub(crate) const WITH_CHANGED_CODE: &str = " (with changed code)";

/// Wraps the durable context of the engine, and logs its calls.
pub(crate) struct Observed<'d> {
    inner: Durability<'d>,
    log: EffectLog,
    /// Number of waits in this execution for each signal, by the name of the signal.
    waits: Mutex<BTreeMap<String, usize>>,
    /// Number of turns of the run before this execution. It distinguishes the steps of different executions in the log.
    execution: usize,
    /// Number of calls of the durable context since this execution of the agent began.
    steps: AtomicUsize,
    model_calls: AtomicUsize,
    /// Number of model calls after which the run continues as new. `None` if the scenario does not continue as new.
    continues_after: Option<usize>,
    /// [`WITH_CHANGED_CODE`] in a scenario with changed code, and empty otherwise.
    suffix: &'static str,
}

impl<'d> Observed<'d> {
    pub(crate) fn new(
        inner: Durability<'d>,
        scenario: &Scenario,
        start: &Start,
        log: EffectLog,
    ) -> Self {
        Self {
            inner,
            log,
            waits: Mutex::default(),
            execution: match start {
                Start::Snapshot(snapshot) => snapshot.turns,
                _ => 0,
            },
            steps: AtomicUsize::new(0),
            model_calls: AtomicUsize::new(0),
            continues_after: scenario.continues_after(),
            suffix: if scenario.is_changed { WITH_CHANGED_CODE } else { "" },
        }
    }

    /// Logs the time of the engine's clock under the name `name`, and then awaits `call`. `call` is a call of the
    /// engine's durable context.
    async fn step<T>(&self, name: &str, call: impl Future<Output = T>) -> T {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let (execution, suffix) = (self.execution, self.suffix);
        let what = format!("the time before step {number} after turn {execution}, {name}{suffix}");
        self.log.append(EffectKind::ClockRead { what, time: self.inner.now().to_string() });
        between_boundaries(name, call).await
    }

    /// Counts a model call, and then awaits it like any other call of the engine (see [`step`](Self::step)).
    async fn model_call<T>(&self, name: &str, call: impl Future<Output = T>) -> T {
        self.model_calls.fetch_add(1, Ordering::SeqCst);
        self.step(name, call).await
    }

    /// Logs a wait for a signal, and then awaits it like any other call of the engine (see [`step`](Self::step)).
    async fn wait<T>(&self, signal: &str, call: impl Future<Output = T>) -> T {
        let logged = async {
            let number = {
                let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
                let count = waits.entry(signal.to_owned()).or_default();
                std::mem::replace(count, *count + 1)
            };
            let signal = format!("{signal}{}", self.suffix);
            self.log.append(EffectKind::Waits { signal, number });
            call.await
        };
        self.step("a wait", logged).await
    }
}

/// Awaits a call of the engine between two boundaries, at which the process can be killed.
async fn between_boundaries<T>(name: &str, call: impl Future<Output = T>) -> T {
    boundary(&format!("engine: {name} begins"));
    let result = call.await;
    boundary(&format!("engine: {name} is over"));
    result
}

impl DurableContext for Observed<'_> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let call = self.inner.execute_llm_call(request, options);
        self.model_call("a call of the model", call).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.step("a tool call", self.inner.execute_tool(tool_name, input, ctx, options)).await
    }

    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.wait(signal_name, self.inner.wait_for_signal(signal_name, timeout)).await
    }

    fn should_continue_as_new(&self) -> bool {
        let is_due = |after| self.model_calls.load(Ordering::SeqCst) >= after;
        self.continues_after.is_some_and(is_due) || self.inner.should_continue_as_new()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.step("continuing as new", self.inner.continue_as_new(state)).await
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.inner.known_effects()
    }

    async fn sleep(&self, duration: Duration) {
        self.step("a sleep", self.inner.sleep(duration)).await;
    }

    fn now(&self) -> DateTime<Utc> {
        self.inner.now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let call = self.inner.execute_llm_call_ref(request, options);
        self.model_call("a call of the model", call).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.model_call("a stream", self.inner.execute_llm_stream(request, options, sink)).await
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        self.step("a batch", self.inner.execute_tools(batch, options)).await
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        let call = self.inner.wait_for_approval(pending, signal_name, timeout);
        self.wait(signal_name, call).await
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        between_boundaries("the end", self.inner.run_ended(result)).await;
    }

    fn is_replaying(&self) -> bool {
        self.inner.is_replaying()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.step("a value", self.inner.record(name, value)).await
    }

    fn run_id(&self) -> Option<&str> {
        self.inner.run_id()
    }
}
