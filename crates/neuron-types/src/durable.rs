//! The trait through which a durable engine takes over a run's side effects, and its erased form.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CompletionRequest, CompletionResponse, DurableError, StreamEvent, ToolCall, ToolContext,
    ToolEffect, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync, message_events,
};

/// How an engine treats one activity: a call of the model or of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityOptions {
    /// How long one attempt may take.
    pub start_to_close_timeout: Duration,
    /// How long an attempt may be silent; `None`: no heartbeat is expected.
    pub heartbeat_timeout: Option<Duration>,
    /// When the engine tries again; `None`: the engine's default.
    pub retry_policy: Option<RetryPolicy>,
}

/// Ten minutes an attempt, no heartbeat, the engine's retries.
impl Default for ActivityOptions {
    fn default() -> Self {
        Self {
            start_to_close_timeout: Duration::from_secs(600),
            heartbeat_timeout: None,
            retry_policy: None,
        }
    }
}

/// When an engine tries an activity again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The wait before the second attempt.
    pub initial_interval: Duration,
    /// By how much each wait is longer than the one before.
    pub backoff_coefficient: f64,
    /// The most attempts, the first included; zero means no limit.
    pub maximum_attempts: u32,
    /// The longest wait.
    pub maximum_interval: Duration,
    /// Kinds of errors that are never tried again, by the names of
    /// [`ProviderError::kind`](crate::ProviderError::kind) and
    /// [`ToolError::kind`](crate::ToolError::kind).
    pub non_retryable_errors: Vec<String>,
}

/// One call of a batch, with the context that it shall see.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolInvocation {
    /// The call.
    pub call: ToolCall,
    /// Its context: call id and idempotency key are set.
    pub ctx: ToolContext,
    /// What running the tool twice would do, as the tool declares it.
    pub effect: ToolEffect,
}

impl ToolInvocation {
    /// Puts a call and its context together. The effect is the careful one,
    /// [`ToolEffect::AtMostOnce`].
    #[must_use]
    pub fn new(call: ToolCall, ctx: ToolContext) -> Self {
        Self { call, ctx, effect: ToolEffect::AtMostOnce }
    }

    /// Sets what the tool declares about running twice.
    #[must_use]
    pub fn with_effect(self, effect: ToolEffect) -> Self {
        Self { effect, ..self }
    }
}

/// Where a durable context sends the deltas of a streamed answer.
pub trait DeltaSink: WasmCompatSend + WasmCompatSync {
    /// Sends one event; waits while the reader is slow.
    fn send(&self, event: StreamEvent) -> WasmBoxedFuture<'_, ()>;
}

/// Takes over a run's side effects, so that an engine can journal and replay them.
///
/// With a durable context the loop calls it instead of the provider and the tools.
///
/// # Contract
///
/// - The loop asks in one deterministic order: a context derives its step keys by counting model
///   calls, batches and positions. It never joins [`execute_tool`](Self::execute_tool) futures
///   itself.
/// - A failure that the model or the loop should see is a value: journal it, and return
///   [`DurableError::Provider`] or [`DurableError::Tool`] again on replay
///   ([`ErrorRecord`](crate::ErrorRecord) is their stored form).
/// - Tools are run by the registry of the executing side: it runs their middleware, knows their
///   effects, and makes an error of a panic. A tool that is called past it may panic through the run,
///   which leaves a valid history, but no result of the other calls.
/// - Execution is at least once, as the tool's [`ToolEffect`](crate::ToolEffect) allows; every
///   attempt sees the same idempotency key.
///
/// # Example: a context that journals nothing
///
/// ```
/// use std::time::Duration;
/// use chrono::{DateTime, Utc};
/// use neuron_types::*;
/// use serde_json::Value;
///
/// struct PassThrough<P> {
///     provider: P,
///     tool: Box<dyn ToolDyn>,
/// }
///
/// impl<P: Provider> DurableContext for PassThrough<P> {
///     async fn execute_llm_call(
///         &self,
///         request: CompletionRequest,
///         _options: ActivityOptions,
///     ) -> Result<CompletionResponse, DurableError> {
///         self.provider.complete(request).await.map_err(DurableError::Provider)
///     }
///
///     async fn execute_tool(
///         &self,
///         tool_name: &str,
///         input: Value,
///         ctx: &ToolContext,
///         _options: ActivityOptions,
///     ) -> Result<ToolOutput, DurableError> {
///         if tool_name != self.tool.name() {
///             return Err(DurableError::Tool(ToolError::NotFound(tool_name.into())));
///         }
///         self.tool.call_dyn(input, ctx).await.map_err(DurableError::Tool)
///     }
///
///     async fn wait_for_signal<T: serde::de::DeserializeOwned>(
///         &self,
///         _signal_name: &str,
///         _timeout: Duration,
///     ) -> Result<Option<T>, DurableError> {
///         Ok(None)
///     }
///
///     fn should_continue_as_new(&self) -> bool {
///         false
///     }
///
///     async fn continue_as_new(&self, _state: Value) -> Result<(), DurableError> {
///         Ok(())
///     }
///
///     async fn sleep(&self, _duration: Duration) {}
///
///     fn now(&self) -> DateTime<Utc> {
///         Utc::now()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a durable context",
    note = "implement `DurableContext`, or use an adapter crate's context"
)]
pub trait DurableContext: WasmCompatSend + WasmCompatSync {
    /// Calls the model as an activity.
    ///
    /// # Errors
    ///
    /// [`DurableError::Provider`] for the provider's own error; others end the run.
    fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend;

    /// Calls a tool as an activity.
    ///
    /// # Errors
    ///
    /// [`DurableError::Tool`] for the tool's own error; others end the run.
    fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<ToolOutput, DurableError>> + WasmCompatSend;

    /// Waits for a signal from outside; `None` when none came in time.
    ///
    /// # Errors
    ///
    /// The engine's, or [`DurableError::Other`] when the signal is not a `T`.
    fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<T>, DurableError>> + WasmCompatSend;

    /// Whether the history in the engine has grown so long that the run should continue as a new
    /// execution. Asked at the top of each turn.
    fn should_continue_as_new(&self) -> bool;

    /// Continues as a new execution that starts from `state`.
    ///
    /// # Errors
    ///
    /// Engines end the current execution with [`DurableError::ContinueAsNew`].
    fn continue_as_new(
        &self,
        state: Value,
    ) -> impl Future<Output = Result<(), DurableError>> + WasmCompatSend;

    /// Waits by the engine's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + WasmCompatSend;

    /// The time by the engine's clock, the same on replay.
    fn now(&self) -> DateTime<Utc>;

    /// [`execute_llm_call`](Self::execute_llm_call) with a borrowed request. Provided: clones it.
    ///
    /// # Errors
    ///
    /// As [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_call_ref(
        &self,
        request: &CompletionRequest,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
        self.execute_llm_call(request.clone(), options)
    }

    /// Calls the model as an activity and sends the answer's deltas to `sink` as they come. Only
    /// the final answer is journaled. Provided: one delta a block, once the answer is there.
    ///
    /// Before the deltas of another attempt it sends [`StreamEvent::Reset`]. The loop itself tries
    /// nothing again that a context does.
    ///
    /// # Errors
    ///
    /// As [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_stream(
        &self,
        request: &CompletionRequest,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
        let response = self.execute_llm_call_ref(request, options);
        async move {
            let response = response.await?;
            if !self.is_replaying() {
                let deltas: Vec<_> = message_events(&response.message).collect();
                for delta in deltas {
                    sink.send(delta).await;
                }
            }
            Ok(response)
        }
    }

    /// Calls the tools of one batch. Provided: one after another, in call order. An engine
    /// overrides it with the concurrent form that is safe for its replay.
    ///
    /// The results are in call order, one for each invocation.
    fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> impl Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend {
        async move {
            let mut results = Vec::with_capacity(batch.len());
            for ToolInvocation { call, ctx, .. } in batch {
                let options = options.clone();
                results.push(self.execute_tool(&call.name, call.input, &ctx, options).await);
            }
            results
        }
    }

    /// Whether what happens now repeats what an earlier attempt did. Provided: no.
    fn is_replaying(&self) -> bool {
        false
    }

    /// The engine's id of the run. Provided: none.
    fn run_id(&self) -> Option<&str> {
        None
    }
}

/// A durable context behind a pointer. It may borrow the engine's context for one invocation.
/// Clones share it.
#[derive(Clone)]
pub struct Durability<'d>(Arc<dyn DurableDyn + 'd>);

impl<'d> Durability<'d> {
    /// Puts a durable context behind a pointer.
    pub fn new(context: impl DurableContext + 'd) -> Self {
        Self(Arc::new(context))
    }
}

impl fmt::Debug for Durability<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durability").field("run_id", &self.0.run_id_dyn()).finish_non_exhaustive()
    }
}

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
        let Some(signal) = self.0.signal_dyn(signal_name, timeout).await? else {
            return Ok(None);
        };
        serde_json::from_value(signal)
            .map(Some)
            .map_err(|error| DurableError::Other(Box::new(error)))
    }

    fn should_continue_as_new(&self) -> bool {
        self.0.should_continue_as_new_dyn()
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.0.continue_as_new_dyn(state).await
    }

    async fn sleep(&self, duration: Duration) {
        self.0.sleep_dyn(duration).await;
    }

    fn now(&self) -> DateTime<Utc> {
        self.0.now_dyn()
    }

    async fn execute_llm_call_ref(
        &self,
        request: &CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.llm_call_ref_dyn(request, options).await
    }

    async fn execute_llm_stream(
        &self,
        request: &CompletionRequest,
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

    fn is_replaying(&self) -> bool {
        self.0.is_replaying_dyn()
    }

    fn run_id(&self) -> Option<&str> {
        self.0.run_id_dyn()
    }
}

type Done<'a, T> = WasmBoxedFuture<'a, Result<T, DurableError>>;

/// The object-safe twin; private, see `ProviderDyn`.
trait DurableDyn: WasmCompatSend + WasmCompatSync {
    fn llm_call_dyn(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Done<'_, CompletionResponse>;
    fn llm_call_ref_dyn<'a>(
        &'a self,
        request: &'a CompletionRequest,
        options: ActivityOptions,
    ) -> Done<'a, CompletionResponse>;
    fn llm_stream_dyn<'a>(
        &'a self,
        request: &'a CompletionRequest,
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
    fn signal_dyn<'a>(&'a self, signal_name: &'a str, timeout: Duration)
    -> Done<'a, Option<Value>>;
    fn should_continue_as_new_dyn(&self) -> bool;
    fn continue_as_new_dyn(&self, state: Value) -> Done<'_, ()>;
    fn sleep_dyn(&self, duration: Duration) -> WasmBoxedFuture<'_, ()>;
    fn now_dyn(&self) -> DateTime<Utc>;
    fn is_replaying_dyn(&self) -> bool;
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
        request: &'a CompletionRequest,
        options: ActivityOptions,
    ) -> Done<'a, CompletionResponse> {
        Box::pin(self.execute_llm_call_ref(request, options))
    }

    fn llm_stream_dyn<'a>(
        &'a self,
        request: &'a CompletionRequest,
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

    fn should_continue_as_new_dyn(&self) -> bool {
        self.should_continue_as_new()
    }

    fn continue_as_new_dyn(&self, state: Value) -> Done<'_, ()> {
        Box::pin(self.continue_as_new(state))
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

    fn run_id_dyn(&self) -> Option<&str> {
        self.run_id()
    }
}
