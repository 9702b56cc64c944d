//! A conversation as a value: its stored forms, and the beginning of a run.

mod start;
mod stored;

use neuron_types::{Message, PendingCall, TokenUsage};
use serde::{Deserialize, Serialize};

pub use start::Start;

pub(crate) use stored::{from_pending, from_snapshot, snapshot};

use crate::ledger::Ledger;

/// A conversation as a value: messages, calls that wait, counters, and the place at which its current run stands.
///
/// It is a valid history at any time, however a run ended. Clone it to fork it; serialize it to store it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    version: u32,
    #[serde(flatten)]
    pub(crate) ledger: Ledger,
}

impl Conversation {
    /// Creates an empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the messages.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.ledger.messages
    }

    /// Returns the tokens of all runs.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.ledger.total_usage
    }

    /// Returns the calls that wait for an approval.
    pub fn pending_calls(&self) -> impl Iterator<Item = &PendingCall> {
        self.ledger.pending_calls()
    }
}
