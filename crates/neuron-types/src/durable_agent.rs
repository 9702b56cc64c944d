//! An agent as a durable engine hosts it.

use serde::{Deserialize, Serialize};

use crate::{
    AgentResult, Durability, LoopError, Message, RunSnapshot, WasmBoxedFuture, WasmCompatSend,
    WasmCompatSync,
};

/// What an execution of a run starts from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStart {
    /// The user's message: the run begins.
    Message(Message),
    /// What an earlier execution left: the run goes on.
    Snapshot(Box<RunSnapshot>),
}

/// The user's message as text.
impl From<&str> for RunStart {
    fn from(text: &str) -> Self {
        Self::Message(Message::user(text))
    }
}

/// The user's message as text.
impl From<String> for RunStart {
    fn from(text: String) -> Self {
        Self::Message(Message::user(text))
    }
}

impl From<Message> for RunStart {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<RunSnapshot> for RunStart {
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
        start: RunStart,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>;
}

impl<F> DurableAgent for F
where
    F: WasmCompatSend
        + WasmCompatSync
        + for<'d> Fn(RunStart, Durability<'d>) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>>,
{
    fn run<'d>(
        &'d self,
        start: RunStart,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        self(start, durability)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::RunStart;
    use crate::{Message, RunSnapshot};

    #[test]
    fn a_start_is_a_message_or_a_snapshot() {
        let start = RunStart::from("hi");
        assert_eq!(start, RunStart::from(Message::user("hi")));
        let stored = serde_json::to_value(&start).unwrap();
        assert_eq!(stored["message"]["role"], json!("user"));
        assert_eq!(serde_json::from_value::<RunStart>(stored).unwrap(), start);

        let start = RunStart::from(RunSnapshot::new("r", Vec::new()));
        let stored = serde_json::to_value(&start).unwrap();
        assert_eq!(stored["snapshot"]["run_id"], json!("r"));
        assert_eq!(serde_json::from_value::<RunStart>(stored).unwrap(), start);
    }
}
