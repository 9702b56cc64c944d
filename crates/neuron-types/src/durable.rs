//! The trait through which a durable engine takes over a run's side effects.

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

/// Parses the value of a signal, for implementations of [`DurableContext::wait_for_signal`].
///
/// # Errors
///
/// [`DurableError::Other`] with the [`serde_json::Error`] in it if the value is not a `T`.
pub fn parse_signal<T: DeserializeOwned>(signal: Option<Value>) -> Result<Option<T>, DurableError> {
    let parsed = signal.map(serde_json::from_value).transpose();
    parsed.map_err(|error| DurableError::Other(Box::new(error)))
}

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
    /// Its context: call id and idempotency key are set, and it has a meter of its own.
    pub ctx: ToolContext,
    /// What running the tool twice would do, as the tool declares it.
    pub effect: ToolEffect,
    /// The key of its effect, as the tool gives it: see [`Tool::effect_key`](crate::Tool::effect_key).
    pub effect_key: Option<String>,
    /// Whether the tool is an [agent](crate::AgentTool), whose steps a context journals one by one.
    pub is_agent: bool,
    /// What a context that runs the tool in this process polls it inside.
    pub scope: CallScope,
}

impl ToolInvocation {
    /// Puts a call and its context together. The effect is the careful one,
    /// [`ToolEffect::AtMostOnce`].
    #[must_use]
    pub fn new(call: ToolCall, ctx: ToolContext) -> Self {
        let (effect, scope) = (ToolEffect::AtMostOnce, CallScope::default());
        Self { call, ctx, effect, effect_key: None, is_agent: false, scope }
    }

    /// Takes over what the tool declares, if there is such a tool.
    #[must_use]
    pub fn of_tool(self, tool: Option<&dyn ToolDyn>) -> Self {
        let Some(tool) = tool else {
            return self;
        };
        let (effect, is_agent) = (tool.effect(), tool.agent().is_some());
        // A panic ends the call alone, which panics again.
        let effect_key = AssertUnwindSafe(|| tool.effect_key(&self.call.input));
        let effect_key = catch_unwind(effect_key).unwrap_or_default();
        Self { effect, effect_key, is_agent, ..self }
    }

    /// Sets what the tool declares about running twice.
    #[must_use]
    pub fn with_effect(self, effect: ToolEffect) -> Self {
        Self { effect, ..self }
    }

    /// Sets the scopes inside which the tool runs.
    #[must_use]
    pub fn with_scope(self, scope: CallScope) -> Self {
        Self { scope, ..self }
    }
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
/// - The tokens that a tool call took itself belong to its result: journal the
///   [`total`](crate::UsageMeter::total) of [`ToolContext::usage`] with it, also with an error, and on
///   replay [add](crate::UsageMeter::add) it to the meter of the call's context. Where the tool runs
///   elsewhere, its context there has a meter of its own.
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
    /// The engine's; [`DurableError::Other`] with the [`serde_json::Error`] in it when the signal is not
    /// a `T`: such a signal is used up.
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

    /// Returns the effects that the run has had so far and whose tools gave them [keys](crate::Tool::effect_key). The
    /// loop stores them with a state that leaves the engine, so that the next execution knows them.
    ///
    /// Provided: none.
    fn known_effects(&self) -> Vec<KnownEffect> {
        Vec::new()
    }

    /// Waits by the engine's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + WasmCompatSend;

    /// The time by the engine's clock, the same on replay.
    fn now(&self) -> DateTime<Utc>;

    /// [`execute_llm_call`](Self::execute_llm_call) with a borrowed request. Provided: copies it.
    ///
    /// # Errors
    ///
    /// As [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> impl Future<Output = Result<CompletionResponse, DurableError>> + WasmCompatSend {
        self.execute_llm_call(request.to_request(), options)
    }

    /// Calls the model as an activity and sends the answer's deltas to `sink` as they come. Only
    /// the final answer is journaled. Provided: one delta a block, once the answer is there.
    ///
    /// Before the deltas of another attempt it sends [`StreamEvent::Reset`](crate::StreamEvent::Reset). The loop itself tries
    /// nothing again that a context does.
    ///
    /// # Errors
    ///
    /// As [`execute_llm_call`](Self::execute_llm_call).
    fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
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
    /// The results are in call order, one for each invocation. A context that runs the tools in this
    /// process polls each inside its [`ToolInvocation::scope`].
    fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> impl Future<Output = Vec<Result<ToolOutput, DurableError>>> + WasmCompatSend {
        async move {
            let mut results = Vec::with_capacity(batch.len());
            for ToolInvocation { call, ctx, scope, .. } in batch {
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

    /// Waits until a person has decided on the calls of a run; `None` when nobody did in time.
    ///
    /// Provided: waits for the signal. An engine that can shows `pending` meanwhile to whoever asks what
    /// the run waits for.
    ///
    /// The loop checks the decisions, and waits again after such as do not fit.
    ///
    /// # Errors
    ///
    /// As [`wait_for_signal`](Self::wait_for_signal). After a signal that is no [`ApprovalDecisions`] the
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
            // Whatever it is it is taken, so that the next wait is not for the same signal.
            let signal: Option<Value> = self.wait_for_signal(signal_name, timeout).await?;
            parse_signal(signal)
        }
    }

    /// Hears how the run ended, also each time that it is replayed. Provided: does nothing.
    ///
    /// It is not called when the run is dropped, and must not fail the run: what it cannot note is noted
    /// on the next replay.
    fn run_ended(
        &self,
        result: Result<&AgentResult, &LoopError>,
    ) -> impl Future<Output = ()> + WasmCompatSend {
        let _ = result;
        async {}
    }

    /// Whether what happens now repeats what an earlier attempt did. Provided: no.
    fn is_replaying(&self) -> bool {
        false
    }

    /// Journals a value that came from outside of the run, and returns it. On replay it returns the journaled value
    /// instead. `name` is unique in the run. Provided: returns the value, which is right for a context that never
    /// replays.
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

    /// The engine's id of the run. Provided: none.
    fn run_id(&self) -> Option<&str> {
        None
    }
}

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
