//! An agent as a durable engine hosts it.

use serde::{Deserialize, Serialize};

use crate::{
    AgentResult, ApprovalDecisions, Durability, LoopError, Message, PendingApproval, RunSnapshot,
    ToolContext, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Adds a message to the conversation and begins a run.
    Message(Message),
    /// Goes on with a run that was interrupted: its future was dropped, or its process ended. Calls of tools that began
    /// run again only if their [effect](crate::ToolEffect) allows it. After a run that ended with an error it begins
    /// another run from the conversation as it is.
    Continue,
    /// Goes on with a run that waits for an approval.
    Decide(ApprovalDecisions),
    /// Goes on with a run that ended with [`LoopError::ApprovalRequired`], from its stored state and in place of the
    /// conversation. For a durable engine whose execution of the run is over.
    Resume {
        /// The state of the run.
        pending: Box<PendingApproval>,
        /// The decisions on its calls.
        decisions: ApprovalDecisions,
    },
    /// Goes on with a run that an earlier execution of a durable engine left, in place of the conversation.
    Snapshot(Box<RunSnapshot>),
}

/// The user's message as text.
impl From<&str> for Start {
    fn from(text: &str) -> Self {
        Self::Message(Message::user(text))
    }
}

/// The user's message as text.
impl From<String> for Start {
    fn from(text: String) -> Self {
        Self::Message(Message::user(text))
    }
}

impl From<Message> for Start {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<ApprovalDecisions> for Start {
    fn from(decisions: ApprovalDecisions) -> Self {
        Self::Decide(decisions)
    }
}

impl From<RunSnapshot> for Start {
    fn from(snapshot: RunSnapshot) -> Self {
        Self::Snapshot(Box::new(snapshot))
    }
}

/// An agent as a durable engine hosts it.
///
/// `neuron_loop::Agent` is one. A closure that does more is one too: `|start, durability| Box::pin(async move { … })`.
/// All of it runs again on replay, so nothing in it but the durable context may have effects: no clock, no randomness, no
/// environment.
pub trait DurableAgent: WasmCompatSend + WasmCompatSync {
    /// Runs the agent with this context to its end.
    ///
    /// # Errors
    ///
    /// The run's own.
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>;

    /// Adds to the context of a call of the agent's tools what the agent hands on in its own process: hooks and
    /// permissions, for agents inside the call. An engine that runs tools in another process asks for it there.
    ///
    /// Provided: adds nothing. Implement it if your agent has a permission policy or hooks and other agents among its
    /// tools, by calling it for the `neuron_loop::Agent` that you run. Otherwise those agents run without that policy.
    fn hand_on(&self, ctx: &mut ToolContext) {
        let _ = ctx;
    }
}

impl<F> DurableAgent for F
where
    F: WasmCompatSend
        + WasmCompatSync
        + for<'d> Fn(Start, Durability<'d>) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>,
{
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        self(start, durability)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Start;
    use crate::{Message, RunSnapshot};

    #[test]
    fn a_start_is_a_message_or_a_snapshot() {
        let start = Start::from("hi");
        assert_eq!(start, Start::from(Message::user("hi")));
        let stored = serde_json::to_value(&start).unwrap();
        assert_eq!(stored["message"]["role"], json!("user"));
        assert_eq!(serde_json::from_value::<Start>(stored).unwrap(), start);

        let start = Start::from(RunSnapshot::new("r", Vec::new()));
        let stored = serde_json::to_value(&start).unwrap();
        assert_eq!(stored["snapshot"]["run_id"], json!("r"));
        assert_eq!(serde_json::from_value::<Start>(stored).unwrap(), start);
    }
}
