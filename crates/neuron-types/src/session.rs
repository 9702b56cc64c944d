//! Sessions: a conversation with its metadata, and the trait of what stores them.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Message, StorageError, TokenUsage, WasmCompatSend, WasmCompatSync};

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
    /// When it was last changed.
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
        }
    }
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
}

/// Stores sessions.
///
/// # Contract
///
/// [`save`](Self::save) is all or nothing: after a crash the old or the new version is there.
///
/// # Example
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
/// use neuron_types::{Session, SessionStorage, SessionSummary, StorageError};
///
/// #[derive(Default)]
/// struct InMemory(Mutex<HashMap<String, Session>>);
///
/// impl SessionStorage for InMemory {
///     async fn save(&self, session: &Session) -> Result<(), StorageError> {
///         self.0.lock().unwrap().insert(session.id.clone(), session.clone());
///         Ok(())
///     }
///
///     async fn load(&self, id: &str) -> Result<Session, StorageError> {
///         self.0.lock().unwrap().get(id).cloned().ok_or_else(|| StorageError::NotFound(id.into()))
///     }
///
///     async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
///         Ok(self.0.lock().unwrap().values().map(Session::summary).collect())
///     }
///
///     async fn delete(&self, id: &str) -> Result<(), StorageError> {
///         self.0.lock().unwrap().remove(id).map(drop).ok_or_else(|| StorageError::NotFound(id.into()))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), StorageError> {
/// let storage = InMemory::default();
/// storage.save(&Session::new("s-1", ".".into())).await?;
/// assert_eq!(storage.list().await?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub trait SessionStorage: WasmCompatSend + WasmCompatSync {
    /// Writes a session, in place of one with the same id.
    ///
    /// # Errors
    ///
    /// The storage's.
    fn save(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;

    /// Reads a session.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] when there is none with this id; else the storage's.
    fn load(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<Session, StorageError>> + WasmCompatSend;

    /// Describes all sessions.
    ///
    /// # Errors
    ///
    /// The storage's.
    fn list(
        &self,
    ) -> impl Future<Output = Result<Vec<SessionSummary>, StorageError>> + WasmCompatSend;

    /// Deletes a session.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] when there is none with this id; else the storage's.
    fn delete(&self, id: &str) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;
}
