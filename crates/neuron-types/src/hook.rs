//! Hooks that observe a run and may end it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    AgentResult, BoxedLayer, CompletionResponse, HookError, LoopError, Operation, OperationScope,
    RequestRef, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// An event of a run.
///
/// Each `Pre…` event is followed by exactly one `Post…` or error event, unless the run's future is dropped. Then only
/// [`OperationScope`]s are notified, because a hook cannot be awaited any more.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HookEvent<'a> {
    /// A turn starts. Turns count from zero.
    LoopIteration {
        /// The turn.
        turn: usize,
    },
    /// The model is about to be called.
    PreLlmCall {
        /// The request.
        request: &'a RequestRef<'a>,
    },
    /// The model responded.
    PostLlmCall {
        /// The response.
        response: &'a CompletionResponse,
    },
    /// A tool is about to be called.
    PreToolExecution {
        /// Name of the tool.
        tool_name: &'a str,
        /// The arguments.
        input: &'a Value,
    },
    /// A tool call has a result, or was skipped.
    PostToolExecution {
        /// Name of the tool.
        tool_name: &'a str,
        /// The result that the model receives.
        output: &'a ToolOutput,
    },
    /// The history was compacted.
    ContextCompaction {
        /// Estimated tokens before the compaction.
        old_tokens: usize,
        /// Estimated tokens after the compaction.
        new_tokens: usize,
    },
    /// A run of this session starts.
    SessionStart {
        /// [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
    },
    /// A run of this session ended.
    SessionEnd {
        /// [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
    },
    /// The run starts.
    RunStart {
        /// Id of the run.
        run_id: &'a str,
    },
    /// The run ended.
    RunEnd {
        /// The result of the run.
        result: Result<&'a AgentResult, &'a LoopError>,
    },
    /// The first part of the response arrived. Without streaming, and on replay by a durable engine, this is the whole
    /// response.
    FirstChunk,
    /// The model call failed or was cancelled, or a hook prevented it.
    LlmError {
        /// The error.
        error: &'a LoopError,
    },
    /// A tool call ended without a result of the tool. It failed or was cancelled, or a hook prevented it.
    ToolError {
        /// Name of the tool.
        tool_name: &'a str,
        /// The error.
        error: &'a LoopError,
    },
}

/// The decision of a hook. With several hooks, all receive the event, and the strongest action is applied. `Terminate`
/// overrides `Skip`, which overrides `Continue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// Continue.
    Continue,
    /// Do not run the tool. The model receives the reason as the result. Only effective for
    /// [`HookEvent::PreToolExecution`].
    Skip {
        /// The text for the model.
        reason: String,
    },
    /// End the run with [`LoopError::HookTerminated`]. Ignored for events about an end: [`HookEvent::LlmError`],
    /// [`HookEvent::ToolError`], [`HookEvent::RunEnd`] and [`HookEvent::SessionEnd`].
    Terminate {
        /// The reason.
        reason: String,
    },
}

/// The position of an event in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookScope<'a> {
    /// Id of the run.
    pub run_id: &'a str,
    /// Number of the turn, from zero.
    pub turn: usize,
    /// Id of the tool call, for events inside a tool call.
    pub call_id: Option<&'a str>,
    /// Name of the provider. Empty if unknown.
    pub provider: &'a str,
    /// Model of the run's requests. Empty if unknown.
    pub model: &'a str,
    /// Host of the provider's server. Empty if unknown.
    pub server_address: &'a str,
    /// Port of the provider's server, if `server_address` is known.
    pub server_port: Option<u16>,
    /// Set if the event repeats work of an earlier attempt of a durable run.
    pub replaying: bool,
    /// Name of the agent. Empty if it has none.
    pub agent: &'a str,
    /// The tool call inside which the agent runs. `None` for a top-level agent.
    pub within: Option<OuterCall<'a>>,
}

/// The tool call inside which an agent runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterCall<'a> {
    /// Id of the run that made the call.
    pub run_id: &'a str,
    /// Id of the call.
    pub call_id: &'a str,
    /// Number of agents around the inner agent.
    pub depth: usize,
}

impl<'a> OuterCall<'a> {
    /// Creates a reference to a call, with the number of agents around the agent inside it.
    #[must_use]
    pub fn new(run_id: &'a str, call_id: &'a str, depth: usize) -> Self {
        Self { run_id, call_id, depth }
    }
}

impl<'a> HookScope<'a> {
    /// Creates a scope for a run, a turn and a model.
    #[must_use]
    pub fn new(run_id: &'a str, turn: usize, provider: &'a str, model: &'a str) -> Self {
        Self { run_id, turn, provider, model, ..Self::default() }
    }

    /// Returns the scope inside a tool call.
    #[must_use]
    pub fn in_call(self, call_id: &'a str) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    /// Returns the scope with the replay flag.
    #[must_use]
    pub fn with_replaying(self, replaying: bool) -> Self {
        Self { replaying, ..self }
    }

    /// Returns the scope with the address of the provider's server.
    #[must_use]
    pub fn at_server(self, server_address: &'a str, server_port: Option<u16>) -> Self {
        Self { server_address, server_port, ..self }
    }

    /// Returns the scope with the name of the agent.
    #[must_use]
    pub fn of_agent(self, agent: &'a str) -> Self {
        Self { agent, ..self }
    }

    /// Returns the scope with the outer tool call of the agent.
    #[must_use]
    pub fn with_outer_call(self, within: Option<OuterCall<'a>>) -> Self {
        Self { within, ..self }
    }
}

/// Observes a run, for logging, metrics, telemetry, budgets or guardrails.
///
/// # Contract
///
/// - Hooks are called in the order in which they were added, one after another. The run waits for them, including
///   parallel tools and a cancellation.
/// - An error is logged and the run continues. A hook that must stop the run on its own failure returns
///   [`HookAction::Terminate`].
///
/// # Example
///
/// ```
/// use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook};
///
/// /// Ends a run after a long response.
/// struct TokenBudget {
///     max_tokens: usize,
/// }
///
/// impl ObservabilityHook for TokenBudget {
///     async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
///         match event {
///             HookEvent::PostLlmCall { response } if response.usage.output_tokens > self.max_tokens => {
///                 Ok(HookAction::Terminate { reason: "token budget exceeded".into() })
///             }
///             _ => Ok(HookAction::Continue),
///         }
///     }
/// }
/// ```
pub trait ObservabilityHook: WasmCompatSend + WasmCompatSync {
    /// Handles an event.
    ///
    /// # Errors
    ///
    /// [`HookError`]. It is logged, and the run continues.
    fn on_event(
        &self,
        event: HookEvent<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend;

    /// Handles an event with its position. The loop calls this method. The default calls [`on_event`](Self::on_event).
    ///
    /// # Errors
    ///
    /// [`HookError`]. It is logged, and the run continues.
    fn on_event_in(
        &self,
        event: HookEvent<'_>,
        _scope: &HookScope<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend {
        self.on_event(event)
    }

    /// Opens a scope around a run, a model call, a tool call or a compaction. The default opens none.
    fn scope(&self, _operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        None
    }

    /// Returns a layer for model calls that belongs to this hook. An agent with the hook also gets the layer, so one
    /// object can both observe and enforce. The default has none.
    fn layer(&self) -> Option<BoxedLayer> {
        None
    }
}

/// A boxed hook. Clones share the hook.
#[derive(Clone)]
pub struct BoxedHook(Arc<dyn HookDyn>);

impl BoxedHook {
    /// Boxes a hook.
    pub fn new(hook: impl ObservabilityHook + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl fmt::Debug for BoxedHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedHook").finish_non_exhaustive()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
impl ObservabilityHook for BoxedHook {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.0.on_event_dyn(event).await
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.0.on_event_in_dyn(event, scope).await
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.0.scope_dyn(operation)
    }

    fn layer(&self) -> Option<BoxedLayer> {
        self.0.layer_dyn()
    }
}

type HookFuture<'a> = WasmBoxedFuture<'a, Result<HookAction, HookError>>;

/// Object-safe form of [`ObservabilityHook`].
trait HookDyn: WasmCompatSend + WasmCompatSync {
    fn on_event_dyn<'a>(&'a self, event: HookEvent<'a>) -> HookFuture<'a>;
    fn on_event_in_dyn<'a>(
        &'a self,
        event: HookEvent<'a>,
        scope: &'a HookScope<'a>,
    ) -> HookFuture<'a>;
    fn scope_dyn(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>>;
    fn layer_dyn(&self) -> Option<BoxedLayer>;
}

impl<H: ObservabilityHook> HookDyn for H {
    fn on_event_dyn<'a>(&'a self, event: HookEvent<'a>) -> HookFuture<'a> {
        Box::pin(self.on_event(event))
    }

    fn on_event_in_dyn<'a>(
        &'a self,
        event: HookEvent<'a>,
        scope: &'a HookScope<'a>,
    ) -> HookFuture<'a> {
        Box::pin(self.on_event_in(event, scope))
    }

    fn scope_dyn(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.scope(operation)
    }

    fn layer_dyn(&self) -> Option<BoxedLayer> {
        self.layer()
    }
}
