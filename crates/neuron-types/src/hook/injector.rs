//! The trait of injectors, which add system messages to a running conversation.

use crate::{Message, RunTools, SessionState, WasmCompatSend, WasmCompatSync};

/// The state of a run before a model call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct InjectionPoint<'a> {
    /// Number of model calls that returned a response, in all runs of the conversation.
    pub turn: usize,
    /// Estimated number of tokens of the next request.
    pub token_count: usize,
    /// The metadata of the session.
    pub state: &'a SessionState,
    /// The conversation so far.
    pub messages: &'a [Message],
    /// Number of model calls of this run that returned a response. At most this number of the last responses in
    /// [`messages`](Self::messages) belong to this run.
    pub run_turns: usize,
    /// The tools of the agent.
    pub tools: RunTools<'a>,
}

impl<'a> InjectionPoint<'a> {
    /// Creates the state of a run before its first model call from its parts. The agent has no tools.
    #[must_use]
    pub fn new(
        turn: usize,
        token_count: usize,
        state: &'a SessionState,
        messages: &'a [Message],
    ) -> Self {
        Self { turn, token_count, state, messages, run_turns: 0, tools: RunTools::default() }
    }

    /// Returns the same state with the number of responses in this run, and the tools of the agent.
    #[must_use]
    pub fn in_run(self, run_turns: usize, tools: RunTools<'a>) -> Self {
        Self { run_turns, tools, ..self }
    }
}

/// Adds reminders to a long conversation, so that the model keeps following its instructions.
///
/// The agent loop calls [`injections`](Self::injections) before each model call and appends the texts as system
/// messages. Earlier messages do not change, so the provider's cache of the conversation stays valid.
///
/// # Contract
///
/// In a run with a durable engine, the texts must depend only on the [`InjectionPoint`], because a replay calls the
/// injector again.
///
/// # Example
///
/// ```
/// use neuron_types::{InjectionPoint, Injector};
///
/// /// Tells the model once that the conversation is long.
/// struct Long;
///
/// impl Injector for Long {
///     fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
///         match point.messages.len() {
///             100 => vec!["The conversation is long. Come to an end.".into()],
///             _ => Vec::new(),
///         }
///     }
/// }
/// ```
pub trait Injector: WasmCompatSend + WasmCompatSync {
    /// Returns the texts to inject now. Each becomes a system message.
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String>;
}
