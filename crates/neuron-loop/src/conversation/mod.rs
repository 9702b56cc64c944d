//! A conversation as a value, and its stored forms.

mod session;
mod stored;

use neuron_types::{ApprovalError, Message, PendingApproval, TokenUsage};
use serde::{Deserialize, Serialize};

pub use session::SessionHandle;

pub(crate) use session::random_id;
pub(crate) use stored::{decided_before, session_parts, snapshot};

use crate::ledger::Ledger;

/// A conversation. It contains the messages, the pending calls, the usage counters, and the state of the current run.
///
/// The history is always valid, so providers accept it even after an error, a cancellation or a drop. A conversation
/// can be cloned. It can be stored with `serde` or as a [`Session`](neuron_types::Session).
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

    /// Returns the messages of the conversation, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.ledger.messages()
    }

    /// Adds a message to the end of the conversation. A run with [`Start::Continue`](neuron_types::Start::Continue)
    /// answers it.
    pub fn push(&mut self, message: impl Into<Message>) {
        self.ledger.push(message.into());
    }

    /// Returns the tokens of all runs of the conversation.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.ledger.tally().total_usage
    }

    /// Returns the tokens of the last run, including the tokens of its tools.
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.total
    }

    /// Returns the part of [`usage`](Self::usage) that the tools of the run used.
    #[must_use]
    pub fn tool_usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.tools
    }

    /// Returns the part of [`usage`](Self::usage) that is an estimate, because the provider did not report it.
    #[must_use]
    pub fn estimated_usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.estimated
    }

    /// Returns the number of model calls in the last run that returned a response.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.ledger.tally().run.turns
    }

    /// Returns the tool calls that wait for an approval, with the state of their run. Returns `None` if no call waits.
    ///
    /// To resume the run with decisions, start it with [`Start::Decide`](neuron_types::Start::Decide).
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        self.ledger.pending()
    }

    /// Returns a new conversation with the first `messages` messages of this conversation. Any agent can continue it.
    ///
    /// Tool calls whose results are not among these messages get a result that says that they were interrupted.
    #[must_use]
    pub fn fork(&self, messages: usize) -> Self {
        Self { ledger: self.ledger.fork(messages) }
    }
}

/// Restores the conversation of a run that waits for an approval.
impl TryFrom<PendingApproval> for Conversation {
    type Error = ApprovalError;

    fn try_from(pending: PendingApproval) -> Result<Self, ApprovalError> {
        Ok(Self { ledger: Ledger::from_pending(pending)? })
    }
}

/// Starts from an earlier history. The history is repaired if providers would reject it.
impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { ledger: Ledger::from_messages(messages) }
    }
}
