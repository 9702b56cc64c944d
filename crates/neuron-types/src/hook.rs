//! Hooks: what watches a run, and may end it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    AgentResult, BoxedLayer, CompletionResponse, HookError, LoopError, Operation, OperationScope,
    RequestRef, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// Something that happens in a run.
///
/// Every `Pre…` event is followed by exactly one `Post…` or error event, on every path but one:
/// when the run's future is dropped, nothing can be awaited any more, and only
/// [`OperationScope`]s learn of the end.
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
        /// What it will be asked.
        request: &'a RequestRef<'a>,
    },
    /// The model answered.
    PostLlmCall {
        /// Its answer.
        response: &'a CompletionResponse,
    },
    /// A tool is about to be called.
    PreToolExecution {
        /// The tool.
        tool_name: &'a str,
        /// The arguments.
        input: &'a Value,
    },
    /// A tool call has its result, or was skipped.
    PostToolExecution {
        /// The tool.
        tool_name: &'a str,
        /// What the model will see.
        output: &'a ToolOutput,
    },
    /// The history was compacted.
    ContextCompaction {
        /// The estimate before.
        old_tokens: usize,
        /// The estimate after.
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
        /// The run.
        run_id: &'a str,
    },
    /// The run ended.
    RunEnd {
        /// With what.
        result: Result<&'a AgentResult, &'a LoopError>,
    },
    /// The first part of the model's answer arrived; for a call that does not stream, and for an answer
    /// that a durable engine replays, that is the whole answer.
    FirstChunk,
    /// The model's call failed or was cancelled, or a hook prevented it.
    LlmError {
        /// Why.
        error: &'a LoopError,
    },
    /// A tool call ended without a result that the tool gave: it failed, was cancelled, or a hook
    /// prevented it.
    ToolError {
        /// The tool.
        tool_name: &'a str,
        /// Why.
        error: &'a LoopError,
    },
}

/// What a hook wants done. With several hooks, all see the event, and the strongest wish wins:
/// `Terminate`, then `Skip`, then `Continue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAction {
    /// Go on.
    Continue,
    /// Do not run the tool; the model sees the reason as its result. Counts only for
    /// [`HookEvent::PreToolExecution`].
    Skip {
        /// What the model sees.
        reason: String,
    },
    /// End the run with [`LoopError::HookTerminated`]. Does not count for events that tell of an end:
    /// [`HookEvent::LlmError`], [`HookEvent::ToolError`], [`HookEvent::RunEnd`] and
    /// [`HookEvent::SessionEnd`].
    Terminate {
        /// Why.
        reason: String,
    },
}

/// Where in a run an event happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookScope<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The turn, from zero.
    pub turn: usize,
    /// The tool call, within one.
    pub call_id: Option<&'a str>,
    /// The provider's name; empty when it says none.
    pub provider: &'a str,
    /// The model of the run's requests; empty when unknown.
    pub model: &'a str,
    /// The host that the provider asks; empty when unknown.
    pub server_address: &'a str,
    /// Its port, where `server_address` is known.
    pub server_port: Option<u16>,
    /// Whether this repeats what an earlier attempt of a durable run did.
    pub replaying: bool,
    /// The agent's name; empty when it has none.
    pub agent: &'a str,
    /// The tool call inside which the agent runs; `None` for one that no other called.
    pub within: Option<OuterCall<'a>>,
}

/// The tool call inside which an agent runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterCall<'a> {
    /// The run that made the call.
    pub run_id: &'a str,
    /// The call.
    pub call_id: &'a str,
    /// How many agents are around this one.
    pub depth: usize,
}

impl<'a> OuterCall<'a> {
    /// Names a call of a run, and how many agents are around the one inside it.
    #[must_use]
    pub fn new(run_id: &'a str, call_id: &'a str, depth: usize) -> Self {
        Self { run_id, call_id, depth }
    }
}

impl<'a> HookScope<'a> {
    /// Says which run, turn and model an event belongs to.
    #[must_use]
    pub fn new(run_id: &'a str, turn: usize, provider: &'a str, model: &'a str) -> Self {
        Self { run_id, turn, provider, model, ..Self::default() }
    }

    /// The same, within a tool call.
    #[must_use]
    pub fn in_call(self, call_id: &'a str) -> Self {
        Self { call_id: Some(call_id), ..self }
    }

    /// The same, with whether it is a replay.
    #[must_use]
    pub fn with_replaying(self, replaying: bool) -> Self {
        Self { replaying, ..self }
    }

    /// The same, with the server that the provider asks.
    #[must_use]
    pub fn at_server(self, server_address: &'a str, server_port: Option<u16>) -> Self {
        Self { server_address, server_port, ..self }
    }

    /// The same, of an agent with a name.
    #[must_use]
    pub fn of_agent(self, agent: &'a str) -> Self {
        Self { agent, ..self }
    }

    /// The same, of an agent inside a tool call of another.
    #[must_use]
    pub fn with_outer_call(self, within: Option<OuterCall<'a>>) -> Self {
        Self { within, ..self }
    }
}

/// Watches a run: logging, metrics, telemetry, budgets, guardrails.
///
/// # Contract
///
/// - Hooks are called in the order in which they were added, each to its end before the next, and
///   the run waits: tools that run beside stand still, and so does a cancellation.
/// - An error is logged and the run goes on. A hook whose failure must stop the run returns
///   [`HookAction::Terminate`].
///
/// # Example
///
/// ```
/// use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook};
///
/// /// Ends a run whose answers grow too long.
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
    /// Takes an event.
    ///
    /// # Errors
    ///
    /// [`HookError`]: logged, and the run goes on.
    fn on_event(
        &self,
        event: HookEvent<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend;

    /// Takes an event and where it happened. The loop calls this one. Provided: calls
    /// [`on_event`](Self::on_event).
    ///
    /// # Errors
    ///
    /// [`HookError`]: logged, and the run goes on.
    fn on_event_in(
        &self,
        event: HookEvent<'_>,
        _scope: &HookScope<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend {
        self.on_event(event)
    }

    /// Opens a scope around a run, a call of the model, a tool call or a compaction. Provided:
    /// none.
    fn scope(&self, _operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        None
    }

    /// Returns a layer around the calls of the model that belongs to this hook. An agent that gets the hook gets the
    /// layer too, so that a hook that only observes can bring a guardrail that acts. Provided: none.
    fn layer(&self) -> Option<BoxedLayer> {
        None
    }
}

/// A hook behind a pointer. Clones share it.
#[derive(Clone)]
pub struct BoxedHook(Arc<dyn HookDyn>);

impl BoxedHook {
    /// Puts a hook behind a pointer.
    pub fn new(hook: impl ObservabilityHook + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

impl fmt::Debug for BoxedHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedHook").finish_non_exhaustive()
    }
}

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

type Answer<'a> = WasmBoxedFuture<'a, Result<HookAction, HookError>>;

/// The object-safe twin; private, see `ProviderDyn`.
trait HookDyn: WasmCompatSend + WasmCompatSync {
    fn on_event_dyn<'a>(&'a self, event: HookEvent<'a>) -> Answer<'a>;
    fn on_event_in_dyn<'a>(&'a self, event: HookEvent<'a>, scope: &'a HookScope<'a>) -> Answer<'a>;
    fn scope_dyn(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>>;
    fn layer_dyn(&self) -> Option<BoxedLayer>;
}

impl<H: ObservabilityHook> HookDyn for H {
    fn on_event_dyn<'a>(&'a self, event: HookEvent<'a>) -> Answer<'a> {
        Box::pin(self.on_event(event))
    }

    fn on_event_in_dyn<'a>(&'a self, event: HookEvent<'a>, scope: &'a HookScope<'a>) -> Answer<'a> {
        Box::pin(self.on_event_in(event, scope))
    }

    fn scope_dyn(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.scope(operation)
    }

    fn layer_dyn(&self) -> Option<BoxedLayer> {
        self.layer()
    }
}
