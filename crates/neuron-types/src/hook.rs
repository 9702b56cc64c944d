//! Hooks: what watches a run, and may end it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    AgentResult, CompletionResponse, HookError, LoopError, Message, Operation, OperationScope,
    RequestRef, Role, ToolOutput, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
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
    /// How many messages, from the conversation's start, the hooks let pass to the model before. Set
    /// for [`HookEvent::PreLlmCall`].
    pub passed_messages: usize,
    /// What the model said so far in the answer that it goes on with, where the provider paused it;
    /// else empty. Set for [`HookEvent::PostLlmCall`].
    pub said_before: &'a str,
    /// The tool by which the model gives the output of a typed run. Set for
    /// [`HookEvent::PostLlmCall`].
    pub output_tool: Option<&'a str>,
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

    /// The same, before a call of the model: with how many messages the hooks let pass before.
    #[must_use]
    pub fn with_passed_messages(self, passed_messages: usize) -> Self {
        Self { passed_messages, ..self }
    }

    /// The same, after an answer of the model: with what it said before in the same answer, and the
    /// tool by which it gives a typed run's output.
    #[must_use]
    pub fn of_answer(self, said_before: &'a str, output_tool: Option<&'a str>) -> Self {
        Self { said_before, output_tool, ..self }
    }

    /// Returns what is new to the model in the conversation of a [`HookEvent::PreLlmCall`]: the
    /// messages after its last answer, without those that the hooks let pass for an earlier call.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_types::{HookScope, Message};
    ///
    /// let conversation = [Message::user("Hi"), Message::assistant("Hello"), Message::user("Bye")];
    /// assert_eq!(HookScope::default().new_messages(&conversation), [Message::user("Bye")]);
    /// ```
    #[must_use]
    pub fn new_messages<'m>(&self, conversation: &'m [Message]) -> &'m [Message] {
        let answer = conversation.iter().rposition(|message| message.role == Role::Assistant);
        let start = answer.map_or(0, |index| index + 1).max(self.passed_messages);
        conversation.get(start..).unwrap_or_default()
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
    /// [`HookError`]: logged, and the run goes on, unless the hook
    /// [fails closed](Self::fails_closed).
    fn on_event(
        &self,
        event: HookEvent<'_>,
    ) -> impl Future<Output = Result<HookAction, HookError>> + WasmCompatSend;

    /// Takes an event and where it happened. The loop calls this one. Provided: calls
    /// [`on_event`](Self::on_event).
    ///
    /// # Errors
    ///
    /// [`HookError`]: logged, and the run goes on, unless the hook
    /// [fails closed](Self::fails_closed).
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

    /// Whether the run must not go on when this hook fails: a [`HookError`] from it ends the run as
    /// [`HookAction::Terminate`] does. For hooks that guard something. Provided: `false`.
    fn fails_closed(&self) -> bool {
        false
    }

    /// Whether text on which this hook ends a run must not stay. For hooks that judge what is said.
    /// Provided: `false`.
    ///
    /// After it ended the run
    /// - at [`HookEvent::PreLlmCall`], the user's messages among the
    ///   [new ones](HookScope::new_messages) leave the conversation, with the reminders behind them.
    ///   Results of tools stay, unless it [rejects those too](Self::rejects_tool_results);
    /// - at [`HookEvent::PostLlmCall`], the answer is neither in the conversation nor in a stream's
    ///   [`StreamEvent::MessageComplete`](crate::StreamEvent::MessageComplete), which comes after
    ///   this event where a hook says so. Tools that were started early for it have run for nothing.
    ///
    /// At other events nothing is taken back. What the answer took counts in any case. A durable
    /// engine's journal and hooks that write down what they see are not changed.
    fn rejects_text(&self) -> bool {
        false
    }

    /// Whether, with [text](Self::rejects_text), the new results of tools are rejected too: a notice
    /// takes the place of each. Provided: `false`.
    fn rejects_tool_results(&self) -> bool {
        false
    }

    /// Whether the reader of a stream sees of an answer only what passed this hook: its deltas wait
    /// until the hooks have seen the whole at [`HookEvent::PostLlmCall`], and come then, in order; if
    /// one ends the run there, none does. Provided: `false`.
    fn holds_back_text(&self) -> bool {
        false
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

    fn fails_closed(&self) -> bool {
        self.0.fails_closed_dyn()
    }

    fn rejects_text(&self) -> bool {
        self.0.rejects_text_dyn()
    }

    fn rejects_tool_results(&self) -> bool {
        self.0.rejects_tool_results_dyn()
    }

    fn holds_back_text(&self) -> bool {
        self.0.holds_back_text_dyn()
    }
}

type Answer<'a> = WasmBoxedFuture<'a, Result<HookAction, HookError>>;

/// The object-safe twin; private, see `ProviderDyn`.
trait HookDyn: WasmCompatSend + WasmCompatSync {
    fn on_event_dyn<'a>(&'a self, event: HookEvent<'a>) -> Answer<'a>;
    fn on_event_in_dyn<'a>(&'a self, event: HookEvent<'a>, scope: &'a HookScope<'a>) -> Answer<'a>;
    fn scope_dyn(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>>;
    fn fails_closed_dyn(&self) -> bool;
    fn rejects_text_dyn(&self) -> bool;
    fn rejects_tool_results_dyn(&self) -> bool;
    fn holds_back_text_dyn(&self) -> bool;
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

    fn fails_closed_dyn(&self) -> bool {
        self.fails_closed()
    }

    fn rejects_text_dyn(&self) -> bool {
        self.rejects_text()
    }

    fn rejects_tool_results_dyn(&self) -> bool {
        self.rejects_tool_results()
    }

    fn holds_back_text_dyn(&self) -> bool {
        self.holds_back_text()
    }
}
