//! The trait through which a durable engine executes a run's side effects.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentResult, ApprovalDecisions, CallScope, CompletionRequest, CompletionResponse, DeltaSink,
    DurableError, KnownEffect, LoopError, PendingApproval, RequestRef, ToolCall, ToolContext,
    ToolDyn, ToolEffect, ToolOutput, WasmCompatSend, WasmCompatSync, message_events,
};

/// Parses the value of a signal. For implementations of [`DurableContext::wait_for_signal`].
///
/// # Errors
///
/// [`DurableError::Other`] with a [`serde_json::Error`] if the value is not a `T`.
pub fn parse_signal<T: DeserializeOwned>(signal: Option<Value>) -> Result<Option<T>, DurableError> {
    let parsed = signal.map(serde_json::from_value).transpose();
    parsed.map_err(|error| DurableError::Other(Box::new(error)))
}

/// Options for an activity, which is a call of the model or of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityOptions {
    /// Timeout of one attempt.
    pub start_to_close_timeout: Duration,
    /// Maximum time between heartbeats. `None` if no heartbeat is expected.
    pub heartbeat_timeout: Option<Duration>,
    /// Retry policy. `None` means the engine's default.
    pub retry_policy: Option<RetryPolicy>,
}

/// Ten minutes per attempt, no heartbeat, and the engine's retry policy.
impl Default for ActivityOptions {
    fn default() -> Self {
        Self {
            start_to_close_timeout: Duration::from_secs(600),
            heartbeat_timeout: None,
            retry_policy: None,
        }
    }
}

/// The retry policy of an activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Delay before the second attempt.
    pub initial_interval: Duration,
    /// Factor by which each delay exceeds the previous one.
    pub backoff_coefficient: f64,
    /// Maximum number of attempts, including the first. Zero means no limit.
    pub maximum_attempts: u32,
    /// Maximum delay.
    pub maximum_interval: Duration,
    /// Names of errors that are never retried, from [`ProviderError::kind`](crate::ProviderError::kind) and
    /// [`ToolError::kind`](crate::ToolError::kind).
    pub non_retryable_errors: Vec<String>,
}

/// A tool call of a batch, with its context.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolInvocation {
    /// The call.
    pub call: ToolCall,
    /// The context of the call, with call id, idempotency key and a usage meter of its own.
    pub ctx: ToolContext,
    /// The effect of running the tool twice, as declared by the tool.
    pub effect: ToolEffect,
    /// The key of the call's effect, from [`Tool::effect_key`](crate::Tool::effect_key).
    pub effect_key: Option<String>,
    /// Set if the tool is an [agent](crate::AgentTool), whose steps are journaled one by one.
    pub is_agent: bool,
    /// The scope in which a context that runs the tool in this process polls it.
    pub scope: CallScope,
}

impl ToolInvocation {
    /// Creates an invocation. The effect is [`ToolEffect::AtMostOnce`], which is the safe default.
    #[must_use]
    pub fn new(call: ToolCall, ctx: ToolContext) -> Self {
        let (effect, scope) = (ToolEffect::AtMostOnce, CallScope::default());
        Self { call, ctx, effect, effect_key: None, is_agent: false, scope }
    }

    /// Copies the declarations of the tool. `None` changes nothing.
    #[must_use]
    pub fn of_tool(self, tool: Option<&dyn ToolDyn>) -> Self {
        let Some(tool) = tool else {
            return self;
        };
        let (effect, is_agent) = (tool.effect(), tool.agent().is_some());
        // A panic in `effect_key` is ignored here. The call itself then panics too and reports it.
        let effect_key = AssertUnwindSafe(|| tool.effect_key(&self.call.input));
        let effect_key = catch_unwind(effect_key).unwrap_or_default();
        Self { effect, effect_key, is_agent, ..self }
    }

    /// Sets the tool's declared effect.
    #[must_use]
    pub fn with_effect(self, effect: ToolEffect) -> Self {
        Self { effect, ..self }
    }

    /// Sets the scope in which the tool runs.
    #[must_use]
    pub fn with_scope(self, scope: CallScope) -> Self {
        Self { scope, ..self }
    }
}

/// Executes a run's side effects, so that an engine can journal and replay them.
///
/// With a durable context, the loop calls it instead of the provider and the tools.
///
/// # Contract
///
/// - The loop makes its calls in a deterministic order. A context derives its step keys by counting model calls,
///   batches and positions. The loop never joins [`execute_tool`](Self::execute_tool) futures itself.
/// - A failure that the model or the loop must see is a value. Journal it as an [`ErrorRecord`](crate::ErrorRecord),
///   and return [`DurableError::Provider`] or [`DurableError::Tool`] again on replay.
/// - The registry of the executing process runs the tools. It runs their middleware, knows their effects, and turns a
///   panic into an error. A panic of a tool that is called without the registry may unwind through the run. The history
///   is then still valid, but the results of the other calls are lost.
/// - The tokens that a tool call used belong to its result. Journal the [`total`](crate::UsageMeter::total) of
///   [`ToolContext::usage`] with the result, also with an error. On replay, [add](crate::UsageMeter::add) it to the
///   meter of the call's context. A tool that runs in another process has a separate meter there.
/// - Execution is at least once, as far as the tool's [`ToolEffect`](crate::ToolEffect) allows. Every attempt has the
///   same idempotency key.
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

    /// Waits for an external signal. Returns `None` after the timeout.
    ///
    /// # Errors
    ///
    /// Errors of the engine. [`DurableError::Other`] with a [`serde_json::Error`] if the signal is not a `T`. Such a
    /// signal is consumed.
    fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<T>, DurableError>> + WasmCompatSend;

    /// Returns `true` if the engine's history is so long that the run should continue as a new execution. The loop
    /// calls it at the start of each turn.
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

    /// Returns the run's effects so far that have [keys](crate::Tool::effect_key). The loop stores them with a state
    /// that leaves the engine, so that the next execution knows them.
    ///
    /// The default returns none.
    fn known_effects(&self) -> Vec<KnownEffect> {
        Vec::new()
    }

    /// Sleeps by the engine's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + WasmCompatSend;

    /// Returns the time of the engine's clock. It is the same on replay.
    fn now(&self) -> DateTime<Utc>;

    /// Like [`execute_llm_call`](Self::execute_llm_call), with a borrowed request. The default copies the request.
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

    /// Calls the model as an activity and sends the response's deltas to `sink` as they arrive. Only the final response
    /// is journaled. The default sends one delta for each block when the response is complete.
    ///
    /// Before the deltas of another attempt, the context sends [`StreamEvent::Reset`](crate::StreamEvent::Reset). The
    /// loop does not retry calls of a durable context.
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
            // The reader received the deltas in the earlier attempt.
            if !self.is_replaying() {
                let deltas: Vec<_> = message_events(&response.message).collect();
                for delta in deltas {
                    sink.send(delta).await;
                }
            }
            Ok(response)
        }
    }

    /// Calls the tools of one batch. The default calls them one after another in call order. An engine overrides it
    /// with concurrent execution that is safe for its replay.
    ///
    /// The results are in call order, one for each invocation. A context that runs the tools in this process polls each
    /// inside its [`ToolInvocation::scope`].
    fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> impl Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend {
        async move {
            let mut results = Vec::with_capacity(batch.len());
            for ToolInvocation { call, ctx, scope, .. } in batch {
                // Ask before the call, because the call may be the one that ends the replay.
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

    /// Waits for a person's decisions on the calls of a run. Returns `None` after the timeout.
    ///
    /// The default waits for the signal. An engine that supports queries makes `pending` available while it waits.
    ///
    /// The loop checks the decisions, and waits again if they do not match the pending calls.
    ///
    /// # Errors
    ///
    /// The errors of [`wait_for_signal`](Self::wait_for_signal). If the signal is not an [`ApprovalDecisions`], the
    /// loop waits again.
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
    /// It is not called if the run is dropped. It cannot fail the run. State that it could not store is stored on the
    /// next replay.
    fn run_ended(
        &self,
        result: Result<&AgentResult, &LoopError>,
    ) -> impl Future<Output = ()> + WasmCompatSend {
        let _ = result;
        async {}
    }

    /// Returns `true` while the run repeats work of an earlier attempt. The default is `false`.
    fn is_replaying(&self) -> bool {
        false
    }

    /// Journals a value from outside of the run and returns it. On replay it returns the journaled value instead.
    /// `name` is unique in the run. The default returns the value, for contexts that never replay.
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

    /// Returns the engine's id of the run. The default has none.
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
