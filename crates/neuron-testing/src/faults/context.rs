//! A durable context with injected crashes.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DeltaSink, DurableContext, DurableError, KnownEffect, LoopError, PendingApproval, RequestRef,
    ToolContext, ToolInvocation, ToolOutput, WasmCompatSend,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::trial::Execution;

/// A durable context with injected simulated crashes. A crash can happen before and after each step of the durable
/// engine, such as a model call or a sleep.
///
/// [`Trial::context`](super::Trial::context) creates this type.
pub struct FaultyContext<C> {
    context: C,
    execution: Execution,
}

impl<C: DurableContext> FaultyContext<C> {
    pub(super) fn new(context: C, execution: Execution) -> Self {
        Self { context, execution }
    }

    /// Awaits `step`, an operation of the durable engine, and may inject a simulated crash before or after it. `name`
    /// describes the step in error reports of the test.
    async fn step<T>(&self, name: &str, step: impl Future<Output = T>) -> T {
        self.execution.boundary(&format!("the start of the step `{name}`")).await;
        let result = self.execution.alive(step).await;
        self.execution.boundary(&format!("the end of the step `{name}`")).await;
        result
    }
}

// Forward every method, because a default method would bypass an override of the inner context.
impl<C: DurableContext> DurableContext for FaultyContext<C> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.execution.check_request(request.view(), self.context.is_replaying());
        self.step("model call", self.context.execute_llm_call(request, options)).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let batch = self.execution.start_batch([tool_name].into_iter());
        let call = self.context.execute_tool(tool_name, input, ctx, options);
        let result = self.step("tool call", call).await;
        batch.end();
        result
    }

    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.step("wait for a signal", self.context.wait_for_signal(signal_name, timeout)).await
    }

    fn should_continue_as_new(&self) -> bool {
        self.context.should_continue_as_new()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.step("continue as new", self.context.continue_as_new(state)).await
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.context.known_effects()
    }

    async fn sleep(&self, duration: Duration) {
        self.step("sleep", self.context.sleep(duration)).await;
    }

    fn now(&self) -> DateTime<Utc> {
        self.context.now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.execution.check_request(request, self.context.is_replaying());
        self.step("model call", self.context.execute_llm_call_ref(request, options)).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.execution.check_request(request, self.context.is_replaying());
        self.step("stream", self.context.execute_llm_stream(request, options, sink)).await
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let guard = self.execution.start_batch(batch.iter().map(|call| call.call.name.as_str()));
        let results = self.step("tool calls", self.context.execute_tools(batch, options)).await;
        guard.end();
        results
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        let wait = self.context.wait_for_approval(pending, signal_name, timeout);
        self.step("wait for an approval", wait).await
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        self.step("end", self.context.run_ended(result)).await;
    }

    fn is_replaying(&self) -> bool {
        self.context.is_replaying()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.step("value", self.context.record(name, value)).await
    }

    fn run_id(&self) -> Option<&str> {
        self.context.run_id()
    }
}

impl<C> fmt::Debug for FaultyContext<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyContext").finish_non_exhaustive()
    }
}
