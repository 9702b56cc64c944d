//! Sessions: a conversation with its metadata. What stores them is in `session_storage`.

use std::collections::HashMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentBlock, Message, Role, StorageError, TokenUsage};

/// A conversation that outlives the process.
///
/// # Example
///
/// ```
/// use neuron_types::{Message, Session};
///
/// let mut session = Session::new("chat-42", "/srv/project".into());
/// session.messages.push(Message::user("What is Rust?"));
/// assert_eq!(session.summary().message_count, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Identifies the session in its storage.
    pub id: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// What belongs to it.
    pub state: SessionState,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed. [`SessionStorage::save`](crate::SessionStorage::save) stores it as
    /// it is; [`touch`](Self::touch) sets it.
    pub updated_at: DateTime<Utc>,
}

impl Session {
    /// Starts an empty session in a working directory.
    pub fn new(id: impl Into<String>, cwd: PathBuf) -> Self {
        let now = Utc::now();
        Self {
            id: id.into(),
            messages: Vec::new(),
            state: SessionState { cwd, ..SessionState::default() },
            created_at: now,
            updated_at: now,
        }
    }

    /// Describes the session without its messages.
    #[must_use]
    pub fn summary(&self) -> SessionSummary {
        SessionSummary {
            id: self.id.clone(),
            message_count: self.messages.len(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            damage: None,
        }
    }

    /// Notes that the session was changed now.
    pub fn touch(&mut self) {
        self.updated_at = Utc::now();
    }

    /// Starts another session from this one, with the same messages and state. What happens in one
    /// of them does not touch the other.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_types::{Message, Session};
    ///
    /// let mut session = Session::new("chat-42", ".".into());
    /// session.messages.push(Message::user("Write a haiku"));
    /// session.messages.push(Message::assistant("Leaves fall in silence"));
    /// session.messages.push(Message::user("Shorter"));
    ///
    /// // Another attempt at the second turn, beside the first.
    /// let mut other = session.fork("chat-42b");
    /// other.rewind(1);
    /// other.messages.push(Message::user("Longer"));
    /// assert_eq!(session.messages[2].text(), "Shorter");
    /// assert_eq!(other.messages[2].text(), "Longer");
    /// ```
    #[must_use]
    pub fn fork(&self, id: impl Into<String>) -> Self {
        let now = Utc::now();
        Self {
            id: id.into(),
            messages: self.messages.clone(),
            state: self.state.clone(),
            created_at: now,
            updated_at: now,
        }
    }

    /// Counts the turns. A turn begins with a message of the user's that is more than tool results,
    /// and goes on to the next one.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.messages.iter().filter(|message| begins_turn(message)).count()
    }

    /// Goes back to where only the first `turns` turns had happened, and returns the messages that
    /// were removed. Nothing is removed if there are no more turns.
    ///
    /// What the turns took in tokens was paid for and stays in the state. A valid conversation stays
    /// valid: no tool call loses its result.
    pub fn rewind(&mut self, turns: usize) -> Vec<Message> {
        let mut starts =
            self.messages.iter().enumerate().filter(|(_, message)| begins_turn(message));
        let Some((start, _)) = starts.nth(turns) else {
            return Vec::new();
        };
        let removed = self.messages.split_off(start);
        self.touch();
        removed
    }
}

/// Whether a message is what the user said, and not the results of the tools before it.
fn begins_turn(message: &Message) -> bool {
    let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
    message.role == Role::User && !message.content.iter().any(is_result)
}

/// What belongs to a session besides its messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionState {
    /// The working directory.
    pub cwd: PathBuf,
    /// The tokens that the session took.
    pub token_usage: TokenUsage,
    /// How many events it has seen.
    pub event_count: u64,
    /// Values of the user's own.
    pub custom: HashMap<String, Value>,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Identifies the session in its storage.
    pub id: String,
    /// How many messages it has.
    pub message_count: usize,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
    /// The error of loading the session, if the storage saw that the session is damaged. The other fields except
    /// `id` may then be wrong.
    ///
    /// `None` does not mean that the session is whole: a storage lists sessions without reading their messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl SessionSummary {
    /// Returns the summary of a session that cannot be read, without messages and with the times unknown: both
    /// are the beginning of 1970.
    #[must_use]
    pub fn damaged(id: impl Into<String>, damage: &StorageError) -> Self {
        Self {
            id: id.into(),
            message_count: 0,
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
            damage: Some(damage.to_string()),
        }
    }
}
