//! What is said to the model in the middle of a conversation: the trait of what decides it.

use crate::{Message, SessionState, WasmCompatSend, WasmCompatSync};

/// Where a run stands before a call of the model.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct InjectionPoint<'a> {
    /// How many calls of the model the agent has had answered, over all its runs.
    pub turn: usize,
    /// What the next call sends, in tokens, as well as that is known.
    pub token_count: usize,
    /// The session.
    pub state: &'a SessionState,
    /// The conversation.
    pub messages: &'a [Message],
}

impl<'a> InjectionPoint<'a> {
    /// Says where a run stands.
    #[must_use]
    pub fn new(
        turn: usize,
        token_count: usize,
        state: &'a SessionState,
        messages: &'a [Message],
    ) -> Self {
        Self { turn, token_count, state, messages }
    }
}

/// Reminds the model of something while a conversation goes on, lest it forget its instructions.
///
/// The agent loop asks before each call of the model and appends what it is told as system messages,
/// so that what was sent before stays as it was and the provider's cache of it lives.
///
/// # Contract
///
/// Under a durable engine the answer must follow from the point alone.
///
/// # Example
///
/// ```
/// use neuron_types::{InjectionPoint, Injector};
///
/// /// Says once that the conversation has grown long.
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
    /// Says what to tell the model now, a system message each.
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String>;
}
