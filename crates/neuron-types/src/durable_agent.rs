//! The interface between an agent and a durable engine.

use serde::{Deserialize, Serialize};

use crate::{
    AgentResult, ApprovalDecisions, Durability, LoopError, Message, PendingApproval, RunSnapshot,
    ToolContext, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Adds a message to the conversation and starts a run.
    Message(Message),
    /// Continues an interrupted run, whose future was dropped or whose process ended. Tool calls that had started run
    /// again only if their [effect](crate::ToolEffect) allows it. If the last run ended with an error, another run
    /// starts from the current conversation.
    Continue,
    /// Continues a run that waits for an approval.
    Decide(ApprovalDecisions),
    /// Continues a run that ended with [`LoopError::ApprovalRequired`] from its stored state, which replaces the
    /// conversation. For a durable engine whose execution of the run has ended.
    Resume {
        /// The state of the run.
        pending: Box<PendingApproval>,
        /// The decisions on its calls.
        decisions: ApprovalDecisions,
    },
    /// Continues a run from the snapshot of an earlier execution of a durable engine, which replaces the conversation.
    Snapshot(Box<RunSnapshot>),
}

/// A user message.
impl From<&str> for Start {
    fn from(text: &str) -> Self {
        Self::Message(Message::user(text))
    }
}

/// A user message.
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

/// An agent that a durable engine runs.
///
/// Implemented by `neuron_loop::Agent` and by closures: `|start, durability| Box::pin(async move { … })`. All of the
/// code runs again on replay. Therefore it must have no effects except through the durable context, and must not read
/// the clock, randomness or the environment.
pub trait DurableAgent: WasmCompatSend + WasmCompatSync {
    /// Runs the agent with this context until its end.
    ///
    /// # Errors
    ///
    /// The error of the run.
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>;

    /// Adds the agent's hooks and permissions to the context of a tool call, for agents inside the call. They exist
    /// only in the agent's process. An engine that runs tools in another process calls this method there.
    ///
    /// The default adds nothing. Implement it if your agent has hooks or a permission policy and other agents among its
    /// tools, by delegating to the `neuron_loop::Agent` that you run. Otherwise the inner agents run without the
    /// policy.
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
    fn start_round_trips_message_and_snapshot() {
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
