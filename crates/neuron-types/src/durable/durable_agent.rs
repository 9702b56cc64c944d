//! The trait through which a durable engine starts and continues an agent.

use serde::{Deserialize, Serialize};

use crate::{
    AgentResult, ApprovalDecisions, Durability, LoopError, Message, PendingApproval, RunSnapshot,
    ToolContext, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The way in which a run starts or continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Adds a message to the conversation and starts a run.
    Message(Message),
    /// Continues an interrupted run. A run is interrupted if its future is dropped or its process ends.
    ///
    /// A tool call that had already started runs again only if its [effect](crate::ToolEffect) allows it. If the last
    /// run ended with an error, a new run starts from the current conversation.
    Continue,
    /// Continues the agent's current run, which waits for an approval. The value contains the decisions on the pending
    /// calls.
    Decide(ApprovalDecisions),
    /// Continues a run that ended with [`LoopError::ApprovalRequired`] from its stored state.
    ///
    /// Durable engines use this variant when the execution that returned the error has ended. The conversation in
    /// `pending` replaces the agent's conversation.
    Resume {
        /// The stored state of the run.
        pending: Box<PendingApproval>,
        /// The decisions on the pending calls.
        decisions: ApprovalDecisions,
    },
    /// Continues a run from the snapshot of an earlier execution of a durable engine. The conversation in the snapshot
    /// replaces the agent's conversation.
    Snapshot(Box<RunSnapshot>),
}

/// Creates a [`Start::Message`] with a user message.
impl From<&str> for Start {
    fn from(text: &str) -> Self {
        Self::Message(Message::user(text))
    }
}

/// Creates a [`Start::Message`] with a user message.
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
/// `neuron_loop::Agent` and closures of the form `|start, durability| Box::pin(async move { … })` implement this trait.
/// Return such a closure from a function whose return type is `impl for<'d> Fn(Start, Durability<'d>) ->
/// WasmBoxedFuture<'d, Result<AgentResult, LoopError>>`. Otherwise the compiler cannot infer its lifetimes.
///
/// # Contract
///
/// The engine calls [`run`](Self::run) again for each replay. Therefore `run` must have no effects except through the
/// durable context. It must not read the clock, random numbers or the environment.
pub trait DurableAgent: WasmCompatSend + WasmCompatSync {
    /// Runs the agent until the run ends. The agent makes its model and tool calls through `durability`.
    ///
    /// # Errors
    ///
    /// The error of the run.
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>;

    /// Adds the agent's hooks, permission policy and budget to the context of a tool call. Agents inside the call inherit
    /// them from the context.
    ///
    /// Hooks and policies cannot be sent to another process. An engine that runs tools in another process therefore
    /// calls this method in that process.
    ///
    /// The default adds nothing. Implement this method if the agent has hooks or a policy, and some of its tools are
    /// agents. Otherwise these agents run without the policy. A wrapper of a `neuron_loop::Agent` must call the agent's
    /// `extend_context`.
    fn extend_context(&self, ctx: &mut ToolContext) {
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
