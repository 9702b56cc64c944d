//! A conversation as a value, and its stored forms.

mod stored;

use neuron_types::{ApprovalError, Message, PendingApproval, TokenUsage};
use serde::{Deserialize, Serialize};

pub(crate) use stored::{decided_before, from_pending, from_snapshot, session_parts, snapshot};

use crate::ledger::Ledger;

/// A conversation as a value, with its messages, calls that wait, counters, and the place at which its current run
/// stands.
///
/// Its history is one that providers accept at any time, however a run ended. It can be cloned, and stored with `serde`
/// or as a [`Session`](neuron_types::Session).
///
/// # Example: two answers to one question
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # async fn compare(cautious: Agent, bold: Agent) -> Result<(), LoopError> {
/// let mut chat = Conversation::new();
/// cautious.run(&mut chat, "Collect the facts").await?;
/// let mut other = chat.fork(chat.messages().len());
/// cautious.run(&mut chat, "And now?").await?;
/// bold.run(&mut other, "And now?").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Ledger", into = "Ledger")]
pub struct Conversation {
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

    /// Adds a message to the conversation.
    pub fn push(&mut self, message: impl Into<Message>) {
        self.ledger.add_message(message.into());
    }

    /// Returns the tokens of all runs.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.ledger.tally.total_usage
    }

    /// Returns the tokens of the last run, including the tokens of its tools.
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.ledger.tally.run.usage.total
    }

    /// Returns the part of [`usage`](Self::usage) that tools took.
    #[must_use]
    pub fn tool_usage(&self) -> &TokenUsage {
        &self.ledger.tally.run.usage.tools
    }

    /// Returns the part of [`usage`](Self::usage) that is an estimate, because the provider did not report it.
    #[must_use]
    pub fn estimated_usage(&self) -> &TokenUsage {
        &self.ledger.tally.run.usage.estimated
    }

    /// Returns the answered calls of the model in the last run.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.ledger.tally.run.turns
    }

    /// Returns the calls that wait for a decision, with the state of their run. `None` if no call waits.
    /// [`Start::Decide`](neuron_types::Start::Decide) goes on with them.
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        self.ledger.pending()
    }

    /// Returns a conversation with the first messages of this one, which any agent can continue. A cut between calls of
    /// tools and their results gives those calls a result that says that they were interrupted.
    #[must_use]
    pub fn fork(&self, messages: usize) -> Self {
        let kept = self.ledger.messages.iter().take(messages).cloned().collect();
        let mut ledger = Ledger::from_messages(kept);
        // Idempotency keys of the fork differ from those of the runs that it does not have.
        ledger.tally.runs = self.ledger.tally.runs;
        Self { ledger }
    }
}

/// Takes over a run that waits for an approval.
impl TryFrom<PendingApproval> for Conversation {
    type Error = ApprovalError;

    fn try_from(pending: PendingApproval) -> Result<Self, ApprovalError> {
        Ok(Self { ledger: from_pending(pending)? })
    }
}

/// Starts from an earlier history, repaired where no provider would accept it.
impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { ledger: Ledger::from_messages(messages) }
    }
}
