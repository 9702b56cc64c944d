//! The trait through which a durable engine executes a run's side effects.

mod agent_tool;
mod durability;
mod durable_agent;
mod durable_provider;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    ActivityOptions, AgentResult, ApprovalDecisions, CallScope, CompletionRequest,
    CompletionResponse, DeltaSink, DurableError, KnownEffect, LoopError, PendingApproval,
    RequestRef, ToolCall, ToolContext, ToolDyn, ToolEffect, ToolOutput, WasmCompatSend,
    WasmCompatSync, message_events,
};

pub use agent_tool::{AgentPath, AgentTool, ToolFuture, ToolSet};
pub use durability::Durability;
pub use durable_agent::{DurableAgent, Start};
pub use durable_provider::DurableProvider;

/// Parses the value of a signal. Returns `None` if no signal arrived.
///
/// Implementations of [`DurableContext::wait_for_signal`] can use this function.
///
/// # Errors
///
/// [`DurableError::Other`] with a [`serde_json::Error`] if the value is not a `T`.
pub fn parse_signal<T: DeserializeOwned>(signal: Option<Value>) -> Result<Option<T>, DurableError> {
    let parsed = signal.map(serde_json::from_value).transpose();
    parsed.map_err(|error| DurableError::Other(Box::new(error)))
}

/// A tool call that [`DurableContext::execute_tools`] runs, with its context and the properties of its tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolInvocation {
    /// The tool call.
    pub call: ToolCall,
    /// The context of the call. Its call id, idempotency key and usage meter belong to this call only.
    pub ctx: ToolContext,
    /// The effect of running the tool twice, as declared by the tool.
    pub effect: ToolEffect,
    /// The key of the call's effect, from [`Tool::effect_key`](crate::Tool::effect_key). `None` if the call has no key.
    pub effect_key: Option<String>,
    /// Set if the tool is an [agent](crate::AgentTool). The engine then journals each model and tool call of the agent.
    pub is_agent: bool,
    /// The hook scopes of the call. A durable context that runs the tool in this process polls the tool inside them.
    pub scope: CallScope,
}

impl ToolInvocation {
    /// Creates an invocation of a tool that declares no properties. The effect is [`ToolEffect::AtMostOnce`], which is
    /// the safe default.
    #[must_use]
    pub fn new(call: ToolCall, ctx: ToolContext) -> Self {
        let (effect, scope) = (ToolEffect::AtMostOnce, CallScope::default());
        Self { call, ctx, effect, effect_key: None, is_agent: false, scope }
    }

    /// Sets `effect`, `effect_key` and `is_agent` as declared by the tool. `None` means that the tool is unknown, and
    /// changes nothing.
    #[must_use]
    pub fn of_tool(self, tool: Option<&dyn ToolDyn>) -> Self {
        let Some(tool) = tool else {
            return self;
        };
        let (effect, is_agent) = (tool.effect(), tool.agent().is_some());
        // Ignore a panic in `effect_key` here. The tool call evaluates `effect_key` again, panics too, and is reported.
        let effect_key = AssertUnwindSafe(|| tool.effect_key(&self.call.input));
        let effect_key = catch_unwind(effect_key).unwrap_or_default();
        Self { effect, effect_key, is_agent, ..self }
    }

    /// Sets the tool's declared effect.
    #[must_use]
    pub fn with_effect(self, effect: ToolEffect) -> Self {
        Self { effect, ..self }
    }

    /// Sets the scopes that hooks have opened around the call, for example tracing spans. The tool runs inside these
    /// scopes.
    #[must_use]
    pub fn with_scope(self, scope: CallScope) -> Self {
        Self { scope, ..self }
    }
}

/// Executes the model and tool calls of a run, so that a durable engine can journal and replay them.
///
/// A run with a durable context makes its model and tool calls through the context, and not through the provider and
/// the tools directly.
///
/// # Contract
///
/// - The loop calls the context in a deterministic order. The context can therefore number the model calls, the tool
///   batches and the calls in a batch, and use these numbers as keys of journal entries. The loop never runs several
///   [`execute_tool`](Self::execute_tool) futures concurrently.
/// - Journal an error of the provider or of a tool as an [`ErrorRecord`](crate::ErrorRecord). On replay, return it as
///   the same [`DurableError::Provider`] or [`DurableError::Tool`].
/// - Run tools through the tool registry of the executing process. The registry runs the middleware, knows the effects
///   of the tools, and turns a panic into an error. Without the registry, a panic of a tool may unwind through the run.
///   The results of the other calls in its batch are then lost, but the history stays valid.
/// - Journal the tokens that each tool call used, which are the [`total`](crate::UsageMeter::total) of
///   [`ToolContext::usage`], also for a failed call. On replay, [add](crate::UsageMeter::add) these tokens to the meter
///   in the context of the call. Do the same after a call in another process, where the tool has a separate meter.
/// - A tool call may be executed again after a crash if the tool's [`ToolEffect`](crate::ToolEffect) allows it. Every
///   attempt must have the same idempotency key.
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
    /// [`DurableError::Provider`] for an error of the provider. Any other error ends the run.
    fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend;

    /// Calls a tool as an activity.
    ///
    /// # Errors
    ///
    /// [`DurableError::Tool`] for an error of the tool. Any other error ends the run.
    fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<ToolOutput, DurableError>> + WasmCompatSend;

    /// Waits for an external signal. Returns `None` if no signal arrives before the timeout.
    ///
    /// # Errors
    ///
    /// Errors of the engine. [`DurableError::Other`] with a [`serde_json::Error`] if the value of the signal is not a
    /// `T`, in which case the signal is consumed nevertheless.
    fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<T>, DurableError>> + WasmCompatSend;

    /// Returns `true` if the run should continue as a new execution, because the engine's history has become long. The
    /// loop calls this method at the start of each turn.
    fn should_continue_as_new(&self) -> bool;

    /// Ends the current execution of the run, and starts a new execution that continues from `state`.
    ///
    /// # Errors
    ///
    /// Engines return [`DurableError::ContinueAsNew`] to end the current execution.
    fn continue_as_new(
        &self,
        state: Value,
    ) -> impl Future<Output = Result<(), DurableError>> + WasmCompatSend;

    /// Returns the keys and results of the run's tool calls that have an [effect key](crate::Tool::effect_key). The
    /// default returns none.
    ///
    /// The loop stores them in the run's state when the run continues in another execution of the engine. The next
    /// execution then does not repeat the effects.
    fn known_effects(&self) -> Vec<KnownEffect> {
        Vec::new()
    }

    /// Waits for `duration`, measured by the engine's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + WasmCompatSend;

    /// Returns the current time of the engine's clock. A replay returns the same time again.
    fn now(&self) -> DateTime<Utc>;

    /// Calls the model as an activity of the engine, with a borrowed request. The default copies the request and calls
    /// [`execute_llm_call`](Self::execute_llm_call).
    ///
    /// # Errors
    ///
    /// The errors of [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
        self.execute_llm_call(request.to_request(), options)
    }

    /// Calls the model as an activity of the engine, and sends the response's deltas to `sink` as they arrive.
    ///
    /// Only the complete response is journaled. The default does not stream, and sends one delta for each block of the
    /// complete response.
    ///
    /// The loop does not retry failed calls. An implementation retries them itself, as the retry policy in `options`
    /// allows. It must send [`StreamEvent::Reset`](crate::StreamEvent::Reset) before the deltas of another attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
        let response = self.execute_llm_call_ref(request, options);
        async move {
            let response = response.await?;
            // On replay, the reader has already received the deltas from the earlier execution.
            if !self.is_replaying() {
                let deltas: Vec<_> = message_events(&response.message).collect();
                for delta in deltas {
                    sink.send(delta).await;
                }
            }
            Ok(response)
        }
    }

    /// Runs a batch of tool calls from one response and returns one result for each call, in the same order.
    ///
    /// The default runs the calls one after another. An engine can override this method to run the calls concurrently
    /// if its replay stays deterministic. A context that runs the tools in this process polls each tool inside the
    /// [`scope`](ToolInvocation::scope) of the call.
    fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> impl Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend {
        async move {
            let mut results = Vec::with_capacity(batch.len());
            for ToolInvocation { call, ctx, scope, .. } in batch {
                // Check before the call, because the replay may end with this call.
                let is_replay = self.is_replaying();
                let work = self.execute_tool(&call.name, call.input, &ctx, options.clone());
                results.push(match is_replay {
                    true => work.await,
                    false => scope.run(work).await,
                });
            }
            results
        }
    }

    /// Waits for a person's decisions on the pending calls of a run. Returns `None` if no decisions arrive before the
    /// timeout.
    ///
    /// The default waits for the signal `signal_name`. An engine that supports queries can answer them with `pending`
    /// while it waits. The loop checks the decisions, and calls this method again if they do not match the pending
    /// calls.
    ///
    /// # Errors
    ///
    /// The errors of [`wait_for_signal`](Self::wait_for_signal). After the error for a signal that is not an
    /// [`ApprovalDecisions`], the loop calls this method again.
    fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<ApprovalDecisions>, DurableError>> + WasmCompatSend
    {
        let _ = pending;
        async move {
            // Take the signal as any JSON, so that an invalid signal is consumed and the next wait does not return it.
            let signal: Option<Value> = self.wait_for_signal(signal_name, timeout).await?;
            parse_signal(signal)
        }
    }

    /// Called when the run ends, and again on each replay. The default does nothing.
    ///
    /// The loop does not call this method if the run is dropped. The method returns no error. If it fails to store
    /// something, it can try again on the next replay.
    fn run_ended(
        &self,
        result: Result<&AgentResult, &LoopError>,
    ) -> impl Future<Output = ()> + WasmCompatSend {
        let _ = result;
        async {}
    }

    /// Returns `true` while the engine answers the run's calls from the journal of an earlier execution. The default
    /// returns `false`.
    fn is_replaying(&self) -> bool {
        false
    }

    /// Journals `value` and returns it. On replay, returns the journaled value instead of `value`.
    ///
    /// The loop uses this method for values that may differ on replay. `name` is unique in the run. The default only
    /// returns `value`, which is correct for contexts that never replay.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    fn record(
        &self,
        name: &str,
        value: Value,
    ) -> impl Future<Output = Result<Value, DurableError>> + WasmCompatSend {
        let _ = name;
        async move { Ok(value) }
    }

    /// Returns the engine's id of the run. The default returns `None`, for an engine without run ids.
    fn run_id(&self) -> Option<&str> {
        None
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
macro_rules! forward_through_pointer {
    ($($pointer:ty),*) => {$(
        impl<D: DurableContext + ?Sized> DurableContext for $pointer {
            fn execute_llm_call(
                &self,
                request: CompletionRequest,
                options: ActivityOptions,
            ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
                (**self).execute_llm_call(request, options)
            }

            fn execute_tool(
                &self,
                tool_name: &str,
                input: Value,
                ctx: &ToolContext,
                options: ActivityOptions,
            ) -> impl Future<Output = Result<ToolOutput, DurableError>> + WasmCompatSend {
                (**self).execute_tool(tool_name, input, ctx, options)
            }

            fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
                &self,
                signal_name: &str,
                timeout: Duration,
            ) -> impl Future<Output = Result<Option<T>, DurableError>> + WasmCompatSend {
                (**self).wait_for_signal(signal_name, timeout)
            }

            fn should_continue_as_new(&self) -> bool {
                (**self).should_continue_as_new()
            }

            fn continue_as_new(
                &self,
                state: Value,
            ) -> impl Future<Output = Result<(), DurableError>> + WasmCompatSend {
                (**self).continue_as_new(state)
            }

            fn known_effects(&self) -> Vec<KnownEffect> {
                (**self).known_effects()
            }

            fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + WasmCompatSend {
                (**self).sleep(duration)
            }

            fn now(&self) -> DateTime<Utc> {
                (**self).now()
            }

            fn execute_llm_call_ref(
                &self,
                request: RequestRef<'_>,
                options: ActivityOptions,
            ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
                (**self).execute_llm_call_ref(request, options)
            }

            fn execute_llm_stream(
                &self,
                request: RequestRef<'_>,
                options: ActivityOptions,
                sink: &dyn DeltaSink,
            ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
                (**self).execute_llm_stream(request, options, sink)
            }

            fn execute_tools(
                &self,
                batch: Vec<ToolInvocation>,
                options: ActivityOptions,
            ) -> impl Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend {
                (**self).execute_tools(batch, options)
            }

            fn wait_for_approval(
                &self,
                pending: &PendingApproval,
                signal_name: &str,
                timeout: Duration,
            ) -> impl Future<Output = Result<Option<ApprovalDecisions>, DurableError>> + WasmCompatSend
            {
                (**self).wait_for_approval(pending, signal_name, timeout)
            }

            fn run_ended(
                &self,
                result: Result<&AgentResult, &LoopError>,
            ) -> impl Future<Output = ()> + WasmCompatSend {
                (**self).run_ended(result)
            }

            fn is_replaying(&self) -> bool {
                (**self).is_replaying()
            }

            fn record(
                &self,
                name: &str,
                value: Value,
            ) -> impl Future<Output = Result<Value, DurableError>> + WasmCompatSend {
                (**self).record(name, value)
            }

            fn run_id(&self) -> Option<&str> {
                (**self).run_id()
            }
        }
    )*};
}

forward_through_pointer!(&D, Arc<D>);
