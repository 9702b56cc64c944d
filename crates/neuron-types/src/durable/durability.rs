//! A boxed durable context.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DeltaSink, DurableContext, DurableError, KnownEffect, LoopError, PendingApproval, RequestRef,
    ToolContext, ToolInvocation, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
    parse_signal,
};

/// A boxed durable context of any type. Clones of the box share the context.
///
/// `'d` is the lifetime of data that the context borrows. An engine may create such a context for a single invocation.
#[derive(Clone)]
pub struct Durability<'d>(Arc<dyn DurableDyn + 'd>);

impl<'d> Durability<'d> {
    /// Creates a box for a durable context of any type.
    pub fn new(context: impl DurableContext + 'd) -> Self {
        Self(Arc::new(context))
    }
}

impl fmt::Debug for Durability<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durability").field("run_id", &self.0.run_id_dyn()).finish_non_exhaustive()
    }
}

// Forward every method, because a default method would bypass an override of the inner context.
impl DurableContext for Durability<'_> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.llm_call_dyn(request, options).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.0.tool_dyn(tool_name, input, ctx, options).await
    }

    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        parse_signal(self.0.signal_dyn(signal_name, timeout).await?)
    }

    fn should_continue_as_new(&self) -> bool {
        self.0.should_continue_as_new_dyn()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.0.continue_as_new_dyn(state).await
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.0.known_effects_dyn()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep_dyn(duration).await;
    }

    fn now(&self) -> DateTime<Utc> {
        self.0.now_dyn()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.llm_call_ref_dyn(request, options).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.llm_stream_dyn(request, options, sink).await
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        self.0.tools_dyn(batch, options).await
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.0.approval_dyn(pending, signal_name, timeout).await
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        self.0.run_ended_dyn(result).await;
    }

    fn is_replaying(&self) -> bool {
        self.0.is_replaying_dyn()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.0.record_dyn(name, value).await
    }

    fn run_id(&self) -> Option<&str> {
        self.0.run_id_dyn()
    }
}

/// The boxed future of a result from the engine.
type Done<'a, T> = WasmBoxedFuture<'a, Result<T, DurableError>>;

/// Object-safe form of [`DurableContext`].
trait DurableDyn: WasmCompatSend + WasmCompatSync {
    fn llm_call_dyn(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Done<'_, CompletionResponse>;
    fn llm_call_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        options: ActivityOptions,
    ) -> Done<'a, CompletionResponse>;
    fn llm_stream_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        options: ActivityOptions,
        sink: &'a dyn DeltaSink,
    ) -> Done<'a, CompletionResponse>;
    fn tool_dyn<'a>(
        &'a self,
        tool_name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        options: ActivityOptions,
    ) -> Done<'a, ToolOutput>;
    fn tools_dyn(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> WasmBoxedFuture<'_, Vec<Result<ToolOutput, DurableError>>>;
    // A generic method is not object-safe. Therefore this method returns JSON, and `Durability` parses it.
    fn signal_dyn<'a>(&'a self, signal_name: &'a str, timeout: Duration)
    -> Done<'a, Option<Value>>;
    fn approval_dyn<'a>(
        &'a self,
        pending: &'a PendingApproval,
        signal_name: &'a str,
        timeout: Duration,
    ) -> Done<'a, Option<ApprovalDecisions>>;
    fn run_ended_dyn<'a>(
        &'a self,
        result: Result<&'a AgentResult, &'a LoopError>,
    ) -> WasmBoxedFuture<'a, ()>;
    fn should_continue_as_new_dyn(&self) -> bool;
    fn continue_as_new_dyn(&self, state: Value) -> Done<'_, ()>;
    fn known_effects_dyn(&self) -> Vec<KnownEffect>;
    fn sleep_dyn(&self, duration: Duration) -> WasmBoxedFuture<'_, ()>;
    fn now_dyn(&self) -> DateTime<Utc>;
    fn is_replaying_dyn(&self) -> bool;
    fn record_dyn<'a>(&'a self, name: &'a str, value: Value) -> Done<'a, Value>;
    fn run_id_dyn(&self) -> Option<&str>;
}

impl<D: DurableContext> DurableDyn for D {
    fn llm_call_dyn(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Done<'_, CompletionResponse> {
        Box::pin(self.execute_llm_call(request, options))
    }

    fn llm_call_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        options: ActivityOptions,
    ) -> Done<'a, CompletionResponse> {
        Box::pin(self.execute_llm_call_ref(request, options))
    }

    fn llm_stream_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
        options: ActivityOptions,
        sink: &'a dyn DeltaSink,
    ) -> Done<'a, CompletionResponse> {
        Box::pin(self.execute_llm_stream(request, options, sink))
    }

    fn tool_dyn<'a>(
        &'a self,
        tool_name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        options: ActivityOptions,
    ) -> Done<'a, ToolOutput> {
        Box::pin(self.execute_tool(tool_name, input, ctx, options))
    }

    fn tools_dyn(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> WasmBoxedFuture<'_, Vec<Result<ToolOutput, DurableError>>> {
        Box::pin(self.execute_tools(batch, options))
    }

    fn signal_dyn<'a>(
        &'a self,
        signal_name: &'a str,
        timeout: Duration,
    ) -> Done<'a, Option<Value>> {
        Box::pin(self.wait_for_signal::<Value>(signal_name, timeout))
    }

    fn approval_dyn<'a>(
        &'a self,
        pending: &'a PendingApproval,
        signal_name: &'a str,
        timeout: Duration,
    ) -> Done<'a, Option<ApprovalDecisions>> {
        Box::pin(self.wait_for_approval(pending, signal_name, timeout))
    }

    fn run_ended_dyn<'a>(
        &'a self,
        result: Result<&'a AgentResult, &'a LoopError>,
    ) -> WasmBoxedFuture<'a, ()> {
        Box::pin(self.run_ended(result))
    }

    fn should_continue_as_new_dyn(&self) -> bool {
        self.should_continue_as_new()
    }

    fn continue_as_new_dyn(&self, state: Value) -> Done<'_, ()> {
        Box::pin(self.continue_as_new(state))
    }

    fn known_effects_dyn(&self) -> Vec<KnownEffect> {
        self.known_effects()
    }

    fn sleep_dyn(&self, duration: Duration) -> WasmBoxedFuture<'_, ()> {
        Box::pin(self.sleep(duration))
    }

    fn now_dyn(&self) -> DateTime<Utc> {
        self.now()
    }

    fn is_replaying_dyn(&self) -> bool {
        self.is_replaying()
    }

    fn record_dyn<'a>(&'a self, name: &'a str, value: Value) -> Done<'a, Value> {
        Box::pin(self.record(name, value))
    }

    fn run_id_dyn(&self) -> Option<&str> {
        self.run_id()
    }
}
