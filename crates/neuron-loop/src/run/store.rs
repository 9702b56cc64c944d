//! Storing a conversation in a session while it runs.

use std::fmt;
use std::sync::{Arc, Mutex};

use neuron_types::{
    ApprovalError, LoopError, Session, SessionRevision, SessionState, StorageError,
    VersionedSessionStorage, VersionedSessionStorageDyn, transcript,
};

use crate::conversation::{Conversation, decided_before, session_parts};
use crate::ledger::Ledger;
use crate::lock::lock;

/// A handle to a session in a storage. It remembers the state in which the session was last loaded or stored, to detect
/// changes by other writers. Clones share this state.
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

/// The state that all clones of a [`SessionHandle`] share.
struct Stored<S: ?Sized> {
    id: String,
    /// The revision and the length of the session when it was last loaded or stored. `None` if the session does not
    /// exist, or was neither loaded nor stored.
    position: Mutex<Option<Position>>,
    storage: S,
}

/// The state in which a session was last loaded or stored.
#[derive(Clone)]
struct Position {
    revision: SessionRevision,
    /// Number of messages that are stored.
    messages: usize,
    /// The conversation's number of changes to existing messages, at the last load or store. If the number has changed
    /// since, the whole session must be stored. Otherwise only new messages are appended.
    rewrites: usize,
    /// The state of the session. It may contain values that the loop does not know.
    state: SessionState,
}

impl<'s> SessionHandle<'s> {
    /// Creates a handle for a session. The session need not exist. The handle may borrow the storage. For a run that
    /// must not borrow, such as an owned run, pass an `Arc` of the storage.
    pub fn new(storage: impl VersionedSessionStorage + 's, id: impl Into<String>) -> Self {
        Self(Arc::new(Stored { id: id.into(), position: Mutex::default(), storage }))
    }

    /// Loads the conversation of the session. Returns an empty conversation if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns errors of the storage.
    pub async fn load(&self) -> Result<Conversation, StorageError> {
        let (session, revision) = match self.0.storage.load_versioned_dyn(&self.0.id).await {
            Err(StorageError::NotFound(_)) => {
                // FAULT a deleted session is appended to: without the line (store::deleted_session_is_created_again)
                *lock(&self.0.position) = None;
                return Ok(Conversation::new());
            }
            loaded => loaded?,
        };
        let (messages, state) = (session.messages.len(), session.state.clone());
        let is_valid = transcript::validate(&session.messages).is_ok();
        let conversation = Conversation::from_session(session);
        // No ledger has this number of rewrites, so a repaired history is stored as a whole.
        let rewrites = if is_valid { conversation.ledger.rewrites } else { usize::MAX };
        *lock(&self.0.position) = Some(Position { revision, messages, rewrites, state });
        Ok(conversation)
    }

    /// Stores a conversation in the session.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] if the session was changed elsewhere since this handle loaded or stored it. Other
    /// errors come from the storage.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session may or may not have been written. If it was, the next write may fail with
    /// [`StorageError::Conflict`].
    pub async fn save(&self, conversation: &Conversation) -> Result<(), StorageError> {
        self.write(&conversation.ledger, false).await
    }

    /// Returns an error if a run begins with approval decisions for which the stored conversation does not wait. This
    /// prevents that a copy of a pending approval is used a second time.
    pub(super) fn check_decisions(&self, ledger: &Ledger) -> Result<(), ApprovalError> {
        let known = lock(&self.0.position);
        let used = known.as_ref().and_then(|known| decided_before(ledger, &known.state));
        used.map_or(Ok(()), |id| Err(ApprovalError::AlreadyDecided { id }))
    }

    /// Stores the conversation. If `tools_begin` is set, calls that have not begun are stored as begun.
    pub(super) async fn write(
        &self,
        ledger: &Ledger,
        tools_begin: bool,
    ) -> Result<(), StorageError> {
        let Stored { id, position, storage } = &*self.0;
        let known = lock(position).clone();
        let state = known.as_ref().map(|known| known.state.clone()).unwrap_or_default();
        let (settled, state) = session_parts(ledger, state, tools_begin)?;
        // Appending sends only the new messages. It is possible if no stored message has changed.
        let is_appended =
            // FAULT a rewritten history is appended: without `known.rewrites == ledger.rewrites &&`
            |known: &Position| known.rewrites == ledger.rewrites && known.messages <= settled.len();
        let revision = match &known {
            Some(known) if is_appended(known) => {
                let new = settled.get(known.messages..).unwrap_or_default();
                // FAULT an append leaves the state as it was: `Some(&state)` -> `None`
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

/// Stores the conversation of a run before its next step. Does nothing if the run has no session.
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
