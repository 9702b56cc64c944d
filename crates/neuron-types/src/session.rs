//! Sessions, which are stored conversations with metadata. The storage traits are in `session_storage`.

mod session_id;
mod session_storage;
pub mod stored_json;

use std::collections::HashMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentBlock, Message, Role, StorageError, TokenUsage};

pub use session_id::check_session_id;
pub use session_storage::{
    SessionRevision, SessionStorage, VersionedSessionStorage, VersionedSessionStorageDyn,
};

/// A conversation with metadata, as stored by a [`SessionStorage`](crate::SessionStorage).
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
    /// Id of the session in its storage.
    pub id: String,
    /// The messages of the conversation, in order.
    pub messages: Vec<Message>,
    /// Metadata of the session.
    pub state: SessionState,
    /// Time at which the session was created.
    pub created_at: DateTime<Utc>,
    /// Time of the last change.
    ///
    /// [`touch`](Self::touch) sets this field. [`SessionStorage::save`](crate::SessionStorage::save) stores it without
    /// changing it.
    pub updated_at: DateTime<Utc>,
}

impl Session {
    /// Creates a session with a working directory and without messages.
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

    /// Returns the summary of the session, which does not contain the messages.
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

    /// Sets [`updated_at`](Self::updated_at) to the current time.
    pub fn touch(&mut self) {
        self.updated_at = Utc::now();
    }

    /// Copies the messages and the state into a new session with another id. Both times of the new session are the
    /// current time.
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
    /// // Retry the second turn in a copy.
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

    /// Returns the number of turns. A turn starts with a user message that is not a tool result.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.messages.iter().filter(|message| begins_turn(message)).count()
    }

    /// Keeps the first `turns` turns, and removes and returns all later messages. Removes nothing if the session has at
    /// most `turns` turns.
    ///
    /// The token usage in the state does not change, because the removed turns have used their tokens. A valid
    /// conversation stays valid, because a tool call and its result belong to the same turn.
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

/// Returns `true` if a message is the first message of a turn, which is a user message without tool results.
fn begins_turn(message: &Message) -> bool {
    let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
    message.role == Role::User && !message.content.iter().any(is_result)
}

/// The metadata of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionState {
    /// The working directory of the session's tools.
    pub cwd: PathBuf,
    /// Tokens that the session has used.
    pub token_usage: TokenUsage,
    /// Number of events of the session, counted by the application. Neuron does not change this field.
    pub event_count: u64,
    /// Values of the application, by name.
    pub custom: HashMap<String, Value>,
}

/// The summary of a session, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Id of the session in its storage.
    pub id: String,
    /// Number of messages of the conversation.
    pub message_count: usize,
    /// Time at which the session was created.
    pub created_at: DateTime<Utc>,
    /// Time of the last change.
    pub updated_at: DateTime<Utc>,
    /// The error that loading the session would return, if the storage detected that the session is damaged. All other
    /// fields except `id` may then be wrong.
    ///
    /// `None` does not guarantee that the session is intact, because a storage lists sessions without reading their
    /// messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl SessionSummary {
    /// Creates the summary of a session that cannot be loaded. The message count is zero, and both times are the Unix
    /// epoch.
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
