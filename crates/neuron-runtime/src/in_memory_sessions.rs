//! Stores sessions in memory ([`InMemorySessionStorage`]).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage, check_session_id,
};

/// Stores sessions in memory, for tests and for processes that need no persistence. The sessions are lost when the
/// process ends.
///
/// A clone shares the sessions of the original.
///
/// # Example
///
/// ```
/// use neuron_runtime::{InMemorySessionStorage, Session, SessionStorage};
/// use neuron_types::StorageError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), StorageError> {
/// let storage = InMemorySessionStorage::new();
/// storage.save(&Session::new("chat-42", ".".into())).await?;
/// assert_eq!(storage.load("chat-42").await?.id, "chat-42");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct InMemorySessionStorage {
    sessions: Arc<RwLock<Sessions>>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<String, Stored>,
    /// Number of writes so far. It is also the revision of the session that was written last.
    writes: u64,
}

#[derive(Debug)]
struct Stored {
    /// The session, in an `Arc` so that a long session is copied without holding the lock.
    session: Arc<Session>,
    revision: u64,
}

impl InMemorySessionStorage {
    /// Creates a storage without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Locks the sessions for reading. Poisoning is ignored, because a panic cannot leave a session half changed.
    fn read(&self) -> RwLockReadGuard<'_, Sessions> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sessions> {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn get(&self, id: &str) -> Result<&Stored, StorageError> {
        check_session_id(id)?;
        self.by_id.get(id).ok_or_else(|| StorageError::NotFound(id.to_owned()))
    }

    /// Inserts a session, or replaces the session with its id. Returns the new revision.
    fn put(&mut self, session: Arc<Session>) -> SessionRevision {
        // One counter for all sessions, so that a revision is never reused, even after a deletion.
        self.writes += 1;
        let stored = Stored { session, revision: self.writes };
        let revision = stored.revision();
        self.by_id.insert(stored.session.id.clone(), stored);
        revision
    }

    /// Gives a session a new revision, and returns it so that the caller can change it. Returns an error if the session
    /// does not exist or does not have the revision `expected`.
    fn change(
        &mut self,
        id: &str,
        expected: &SessionRevision,
    ) -> Result<&mut Stored, StorageError> {
        if self.get(id)?.revision() != *expected {
            return Err(StorageError::Conflict { id: id.to_owned() });
        }
        self.writes += 1;
        let stored = self.by_id.get_mut(id).ok_or_else(|| StorageError::NotFound(id.to_owned()))?;
        stored.revision = self.writes;
        Ok(stored)
    }
}

impl Stored {
    fn revision(&self) -> SessionRevision {
        SessionRevision::new(self.revision.to_string())
    }
}

impl SessionStorage for InMemorySessionStorage {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let session = Arc::new(session.clone());
        self.write().put(session);
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        let session = Arc::clone(&self.read().get(id)?.session);
        Ok(Arc::unwrap_or_clone(session))
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let mut summaries: Vec<SessionSummary> =
            self.read().by_id.values().map(|stored| stored.session.summary()).collect();
        summaries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(summaries)
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        let mut sessions = self.write();
        sessions.get(id)?;
        sessions.by_id.remove(id);
        Ok(())
    }
}

impl VersionedSessionStorage for InMemorySessionStorage {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let session = Arc::new(session.clone());
        let mut sessions = self.write();
        if sessions.by_id.contains_key(&session.id) {
            return Err(StorageError::Conflict { id: session.id.clone() });
        }
        Ok(sessions.put(session))
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        let (session, revision) = {
            let sessions = self.read();
            let stored = sessions.get(id)?;
            (Arc::clone(&stored.session), stored.revision())
        };
        Ok((Arc::unwrap_or_clone(session), revision))
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        Ok(self.read().get(id)?.revision())
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        let session = Arc::new(session.clone());
        let mut sessions = self.write();
        let stored = sessions.change(&session.id, expected)?;
        stored.session = Arc::clone(&session);
        Ok(stored.revision())
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        let mut sessions = self.write();
        let stored = sessions.change(id, expected)?;
        // Copies the session only if a reader still holds it.
        let session = Arc::make_mut(&mut stored.session);
        session.messages.extend_from_slice(messages);
        if let Some(state) = state {
            session.state.clone_from(state);
        }
        session.touch();
        Ok(stored.revision())
    }
}
