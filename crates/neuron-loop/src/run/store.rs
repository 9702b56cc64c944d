//! Storing a conversation while it runs.

use std::fmt;
use std::sync::{Arc, Mutex};

use neuron_types::{
    ApprovalError, LoopError, Session, SessionRevision, SessionState, StorageError,
    VersionedSessionStorage, VersionedSessionStorageDyn, transcript,
};

use crate::conversation::{Conversation, decided_before, session_parts};
use crate::ledger::Ledger;
use crate::lock::lock;

/// A session in a storage, and the position up to which it is stored there. Clones share both.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, LoopError, SessionHandle};
/// # use neuron_types::VersionedSessionStorage;
/// async fn answer(agent: &Agent, sessions: &impl VersionedSessionStorage) -> Result<(), Box<dyn std::error::Error>> {
///     let session = SessionHandle::new(sessions, "chat-42");
///     let mut chat = session.load().await?;
///     agent.run(&mut chat, "Hello again").store(&session).await?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct SessionHandle<'s>(Arc<Stored<dyn VersionedSessionStorageDyn + 's>>);

struct Stored<S: ?Sized> {
    id: String,
    position: Mutex<Option<Position>>,
    storage: S,
}

/// The position up to which a session is stored.
#[derive(Clone)]
struct Position {
    revision: SessionRevision,
    messages: usize,
    /// Number of times that the history was rewritten before.
    rewrites: usize,
    /// The state of the session, which may hold values of others.
    state: SessionState,
}

impl<'s> SessionHandle<'s> {
    /// Creates a handle for a session, which need not exist. Give it an `Arc` of a storage for a run that owns its
    /// parts.
    pub fn new(storage: impl VersionedSessionStorage + 's, id: impl Into<String>) -> Self {
        Self(Arc::new(Stored { id: id.into(), position: Mutex::default(), storage }))
    }

    /// Loads the conversation. A session that does not exist is an empty one.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub async fn load(&self) -> Result<Conversation, StorageError> {
        let (session, revision) = match self.0.storage.load_versioned_dyn(&self.0.id).await {
            Err(StorageError::NotFound(_)) => {
                *lock(&self.0.position) = None;
                return Ok(Conversation::new());
            }
            loaded => loaded?,
        };
        let (messages, state) = (session.messages.len(), session.state.clone());
        let is_valid = transcript::validate(&session.messages).is_ok();
        let conversation = Conversation::from_session(session);
        // A history that was repaired is stored anew.
        let rewrites = if is_valid { conversation.ledger.rewrites } else { usize::MAX };
        *lock(&self.0.position) = Some(Position { revision, messages, rewrites, state });
        Ok(conversation)
    }

    /// Stores a conversation.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] if somebody else changed the session since this handle loaded or stored it; other
    /// errors of the storage.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the session was written. The next one finds out.
    pub async fn save(&self, conversation: &Conversation) -> Result<(), StorageError> {
        self.write(&conversation.ledger, false).await
    }

    /// Checks that the stored conversation waits for the decisions with which a run begins. A pending approval that was
    /// stored elsewhere can be used once.
    pub(super) fn check_decisions(&self, ledger: &Ledger) -> Result<(), ApprovalError> {
        let known = lock(&self.0.position);
        let used = known.as_ref().and_then(|known| decided_before(ledger, &known.state));
        used.map_or(Ok(()), |id| Err(ApprovalError::AlreadyDecided { id }))
    }

    pub(super) async fn write(
        &self,
        ledger: &Ledger,
        tools_begin: bool,
    ) -> Result<(), StorageError> {
        let Stored { id, position, storage } = &*self.0;
        let known = lock(position).clone();
        let state = known.as_ref().map(|known| known.state.clone()).unwrap_or_default();
        let (settled, state) = session_parts(ledger, state, tools_begin)?;
        let is_appended =
            |known: &Position| known.rewrites == ledger.rewrites && known.messages <= settled.len();
        let revision = match &known {
            Some(known) if is_appended(known) => {
                let new = settled.get(known.messages..).unwrap_or_default();
                storage.append_dyn(id, new, Some(&state), &known.revision).await?
            }
            known => {
                let mut session = Session::new(id, state.cwd.clone());
                session.messages = settled.to_vec();
                session.state = state.clone();
                match known {
                    Some(known) => storage.update_dyn(&session, &known.revision).await?,
                    None => storage.create_dyn(&session).await?,
                }
            }
        };
        let (messages, rewrites) = (settled.len(), ledger.rewrites);
        *lock(position) = Some(Position { revision, messages, rewrites, state });
        Ok(())
    }
}

/// Stores the conversation of a run, if it has a session.
pub(super) async fn store(
    session: Option<&SessionHandle<'_>>,
    ledger: &Ledger,
) -> Result<(), LoopError> {
    match session {
        Some(session) => Ok(Box::pin(session.write(ledger, true)).await?),
        None => Ok(()),
    }
}

impl fmt::Debug for SessionHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("id", &self.0.id).finish_non_exhaustive()
    }
}
