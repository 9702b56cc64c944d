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

/// An agent as a durable engine hosts it: built anew for every execution and every replay, with the
/// engine's context.
///
/// Closures are agents too: `|start, durability| Box::pin(async move { … })`. In it nothing but the
/// durable context has effects: no clock, no randomness, no environment, since all of it runs again on
/// replay.
pub trait DurableAgent: WasmCompatSend + WasmCompatSync {
    /// Builds the agent with this context, and runs it to its end: `AgentLoop::run_from` does.
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
