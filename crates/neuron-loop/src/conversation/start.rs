//! The beginning of a run.

use neuron_types::{ApprovalDecisions, Message, RunSnapshot, RunStart};

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// Adds a message to the conversation and begins a run.
    Message(Message),
    /// Goes on with a run that was interrupted: its future was dropped, or its process ended. Calls of tools that began
    /// run again only if their [effect](neuron_types::ToolEffect) allows it. After a run that ended with an error it
    /// begins another run from the conversation as it is.
    Continue,
    /// Goes on with a run that waits for an approval.
    Decide(ApprovalDecisions),
    /// Goes on with a run that an earlier execution of a durable engine left, in place of the conversation.
    Snapshot(Box<RunSnapshot>),
}

impl From<RunStart> for Start {
    fn from(start: RunStart) -> Self {
        match start {
            RunStart::Message(message) => Self::Message(message),
            RunStart::Snapshot(snapshot) => Self::Snapshot(snapshot),
            // Both are written by this release.
            _ => Self::Continue,
        }
    }
}

impl From<&str> for Start {
    fn from(text: &str) -> Self {
        Self::Message(Message::user(text))
    }
}

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
