//! Hooks that observe a run and may end it.

mod call_scope;
mod injector;
mod scope;
mod trace_context;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::{
    AgentResult, BoxedLayer, CompletionResponse, HookError, LoopError, RequestRef, ToolOutput,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

pub use call_scope::{CallScope, InCallScope};
pub use injector::{InjectionPoint, Injector};
pub use scope::{InScopes, Operation, OperationKind, OperationScope, Outcome, Scopes};
pub use trace_context::TraceContext;

/// An event of a run, as received by an [`ObservabilityHook`].
///
/// Each `Pre…` event is followed by exactly one `Post…` or error event. The exception is a run whose future is dropped.
/// Hooks then receive no further events, because the run cannot await them. The [`OperationScope`]s of the run are
/// dropped.
///
/// # Calls that need an approval
///
/// Hooks receive [`PreToolExecution`](Self::PreToolExecution) twice for a call that waits for an approval:
///
/// 1. Before the approval is requested. A [`ToolError`](Self::ToolError) with [`LoopError::ApprovalRequired`] follows.
/// 2. When the run continues with the decision, also if the decision is a denial. The event contains the edited
///    arguments if a person changed them. The outcome of the call follows.
///
/// A call also waits if an agent inside it needs an approval. The error is then a [`LoopError::Tool`] with
/// [`ToolError::ApprovalRequired`](crate::ToolError::ApprovalRequired). The hooks receive `PreToolExecution` again
/// after each wait.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum HookEvent<'a> {
    /// A turn starts, which consists of one model call and its tool calls.
    LoopIteration {
        /// Number of the turn, from zero.
        turn: usize,
    },
    /// The model is about to be called.
    PreLlmCall {
        /// The request to the model.
        request: &'a RequestRef<'a>,
    },
    /// The model responded.
    PostLlmCall {
        /// The response of the model.
        response: &'a CompletionResponse,
    },
    /// A tool is about to be called. Sent twice for a call that waits for an approval, see
    /// [above](HookEvent#calls-that-need-an-approval).
    PreToolExecution {
        /// Name of the tool.
        tool_name: &'a str,
        /// The arguments of the call.
        input: &'a Value,
    },
    /// A tool call returned a result, or was skipped by a hook.
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
    /// A run starts. Sent before [`RunStart`](Self::RunStart), even if the run has no session.
    SessionStart {
        /// Id of the session, from [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
    },
    /// A run ended. Sent after [`RunEnd`](Self::RunEnd), even if the run has no session.
    SessionEnd {
        /// Id of the session, from [`ToolContext::session_id`](crate::ToolContext::session_id).
        session_id: &'a str,
    },
    /// A run starts.
    RunStart {
        /// Id of the run.
        run_id: &'a str,
    },
    /// A run ended, with a result or an error.
    RunEnd {
        /// The result of the run.
        result: Result<&'a AgentResult, &'a LoopError>,
    },
    /// The first part of a model's response arrived. If the response is not streamed, or is replayed by a durable
    /// engine, the whole response arrived.
    FirstChunk,
    /// A model call failed or was cancelled, or a hook prevented the call.
    LlmError {
        /// The error of the call.
        error: &'a LoopError,
    },
    /// A tool call failed or was cancelled, or a hook prevented the call.
    ToolError {
        /// Name of the tool.
        tool_name: &'a str,
        /// The error of the call.
        error: &'a LoopError,
    },
}

/// The decision of a hook on an event.
///
/// If an agent has several hooks, all of them receive the event, and the strongest of their actions is applied.
/// `Terminate` is stronger than `Skip`, and `Skip` is stronger than `Continue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// Continue the run.
    Continue,
    /// Do not run the tool. Applies only to [`HookEvent::PreToolExecution`].
    Skip {
        /// The text that the model receives as the result of the tool call.
        reason: String,
    },
    /// End the run with [`LoopError::HookTerminated`].
    ///
    /// Ignored for [`HookEvent::LlmError`], [`HookEvent::ToolError`], [`HookEvent::RunEnd`] and
    /// [`HookEvent::SessionEnd`].
    Terminate {
        /// The text of the [`LoopError::HookTerminated`].
        reason: String,
    },
}

/// The context of a [`HookEvent`], such as the run, the turn, the tool call, the agent and the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookScope<'a> {
    /// Id of the run.
    pub run_id: &'a str,
    /// Number of the turn, from zero.
    pub turn: usize,
    /// Id of the tool call that the event is about. `None` for any other event.
    pub call_id: Option<&'a str>,
    /// Name of the provider. Empty if unknown.
    pub provider: &'a str,
    /// Model of the run's requests. Empty if unknown.
    pub model: &'a str,
    /// Set if the provider is a router, which chooses the provider and the model of each call. Then `provider` and
    /// `model` name its first choice. [`AnswerMetadata::route`](crate::AnswerMetadata::route) of a response names the
    /// model that answered.
    pub routed: bool,
    /// Host of the provider's server. Empty if unknown.
    pub server_address: &'a str,
    /// Port of the provider's server. `None` if unknown.
    pub server_port: Option<u16>,
    /// Set if a durable engine replays the run, and the event happened before in an earlier execution.
    pub replaying: bool,
    /// Name of the agent. Empty if the agent has no name.
    pub agent: &'a str,
    /// The tool call inside which the agent runs. `None` if the agent does not run inside a tool call.
    pub within: Option<OuterCall<'a>>,
}

/// The tool call inside which an agent runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterCall<'a> {
    /// Id of the parent run, which made the tool call.
    pub run_id: &'a str,
    /// Id of the tool call.
    pub call_id: &'a str,
    /// Nesting depth of the agent inside the call, which is its number of outer agents.
    pub depth: usize,
}

impl<'a> OuterCall<'a> {
    /// Creates a reference to a tool call. `depth` is the nesting depth of the agent inside the call.
    #[must_use]
    pub fn new(run_id: &'a str, call_id: &'a str, depth: usize) -> Self {
        Self { run_id, call_id, depth }
    }
}

impl<'a> HookScope<'a> {
    /// Creates a scope for a run, a turn, a provider and a model.
    #[must_use]
    pub fn new(run_id: &'a str, turn: usize, provider: &'a str, model: &'a str) -> Self {
        Self { run_id, turn, provider, model, ..Self::default() }
    }

    /// Returns the scope for events about the tool call `call_id`.
    #[must_use]
    pub fn in_call(self, call_id: &'a str) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    /// Returns the scope with the flag [`replaying`](Self::replaying).
    #[must_use]
    pub fn with_replaying(self, replaying: bool) -> Self {
        Self { replaying, ..self }
    }

    /// Returns the scope with the flag [`routed`](Self::routed).
    #[must_use]
    pub fn with_routed(self, routed: bool) -> Self {
        Self { routed, ..self }
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

    /// Returns the scope with the tool call inside which the agent runs.
    #[must_use]
    pub fn with_outer_call(self, within: Option<OuterCall<'a>>) -> Self {
        Self { within, ..self }
    }
}

/// Observes a run, for logging, metrics, telemetry, budgets or guardrails.
///
/// # Contract
///
/// - Hooks are called one after another, in the order in which they were added. The run waits for each hook, and so do
///   its parallel tool calls. A cancellation takes effect after the hook has returned.
/// - An error of a hook is logged, and the run continues. A hook whose failure must end the run returns
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
    /// The [`HookError`] of the hook. The loop logs the error, and the run continues.
    fn on_event(
        &self,
        event: HookEvent<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend;

    /// Handles an event. `_scope` is the position of the event in the run. The loop calls this method, and the default
    /// calls [`on_event`](Self::on_event).
    ///
    /// # Errors
    ///
    /// The [`HookError`] of the hook. The loop logs the error, and the run continues.
    fn on_event_in(
        &self,
        event: HookEvent<'_>,
        _scope: &HookScope<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend {
        self.on_event(event)
    }

    /// Opens a scope around a run, a model call, a tool call or a compaction. The default returns `None`, which means
    /// no scope.
    fn scope(&self, _operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        None
    }

    /// Returns a layer that is added to every agent with this hook. A hook can thus also change or reject model calls.
    /// The default returns `None`, which means no layer.
    fn layer(&self) -> Option<BoxedLayer> {
        None
    }

    /// Returns an injector that is added to every agent with this hook. A hook can thus also add system messages to the
    /// conversation. The default returns `None`, which means no injector.
    fn injector(&self) -> Option<Arc<dyn Injector>> {
        None
    }
}

/// Finds out whether an agent calls every method of a hook.
///
/// Some hooks work in a method with a default, such as [`ObservabilityHook::layer`]. If another hook holds such a hook
/// and forwards only its events, the work would be left out without a notice. Such a hook therefore calls
/// [`attach`](Self::attach) in that method, and [`warn`](Self::warn) when it handles an event. A clone is not attached.
#[derive(Debug, Default)]
pub struct HookAttachment {
    is_attached: AtomicBool,
    is_warned: AtomicBool,
}

impl HookAttachment {
    /// Notes that the method with the hook's work was called.
    pub fn attach(&self) {
        self.is_attached.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the method with the hook's work was called.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.is_attached.load(Ordering::Relaxed)
    }

    /// Logs a warning if `event` is a model call, and the method with the hook's work was not called. Logs it only once.
    /// `hook` is the name of the hook's type, and `methods` are the names of the methods to forward.
    pub fn warn(&self, event: &HookEvent<'_>, hook: &str, methods: &str) {
        let is_call = matches!(event, HookEvent::PreLlmCall { .. });
        if is_call && !self.is_attached() && !self.is_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                hook,
                methods,
                "the hook does only a part of its work: a hook that holds it must forward these methods too"
            );
        }
    }
}

/// Another hook is attached by itself.
impl Clone for HookAttachment {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A boxed hook of any type. Clones of the box share the hook.
#[derive(Clone)]
pub struct BoxedHook(Arc<dyn HookDyn>);

impl BoxedHook {
    /// Creates a box for a hook of any type.
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

    fn injector(&self) -> Option<Arc<dyn Injector>> {
        self.0.injector_dyn()
    }
}

/// The boxed future of a hook's decision.
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
    fn injector_dyn(&self) -> Option<Arc<dyn Injector>>;
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

    fn injector_dyn(&self) -> Option<Arc<dyn Injector>> {
        self.injector()
    }
}
