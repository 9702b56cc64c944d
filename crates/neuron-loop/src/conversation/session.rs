//! Storing a conversation in a session while it runs.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex};

use neuron_types::{
    ApprovalError, HistoryKey, Session, SessionRevision, SessionState, StorageError,
    VersionedSessionStorage, VersionedSessionStorageDyn, transcript,
};

use super::{Conversation, decided_before, session_parts};
use crate::ledger::Ledger;
use crate::lock::lock;

/// Key of the id of the last write in [`SessionState::custom`]. It tells a write of a handle from one of another process
/// that stored the same.
const WRITE_KEY: &str = "neuron.write";

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
    known: Mutex<Known>,
    storage: S,
}

/// What a handle knows about its session.
#[derive(Clone, Default)]
struct Known {
    /// The session as it was last loaded or stored. `None` if the session does not exist, or was neither loaded nor
    /// stored.
    position: Option<(SessionRevision, Content)>,
    /// The last write, if it has not succeeded. It failed, was dropped, or is still running. It may have changed the
    /// session.
    attempt: Option<Content>,
}

/// What a write stores.
#[derive(Clone)]
struct Content {
    /// The key of the conversation's messages. A conversation with another key is stored as a whole.
    key: Option<HistoryKey>,
    /// Number of messages that are stored.
    messages: usize,
    /// The state of the session. It may contain values that the loop does not know.
    state: SessionState,
}

impl<'s> SessionHandle<'s> {
    /// Creates a handle for a session. The session need not exist. The handle may borrow the storage. For a run that
    /// must not borrow, such as an owned run, pass an `Arc` of the storage.
    pub fn new(storage: impl VersionedSessionStorage + 's, id: impl Into<String>) -> Self {
        Self(Arc::new(Stored { id: id.into(), known: Mutex::default(), storage }))
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
                *lock(&self.0.known) = Known::default();
                return Ok(Conversation::new());
            }
            loaded => loaded?,
        };
        let (messages, state) = (session.messages.len(), session.state.clone());
        let is_valid = transcript::validate(&session.messages).is_ok();
        let conversation = Conversation::from_session(session);
        // A repaired history has other messages than the session, so it is stored as a whole.
        // FAULT a repaired history is appended: `is_valid` -> `true` (store::repaired_session_is_stored_as_a_whole)
        let key = conversation.ledger.messages().key().filter(|_| is_valid);
        let position = Some((revision, Content { key, messages, state }));
        *lock(&self.0.known) = Known { position, attempt: None };
        Ok(conversation)
    }

    /// Stores a conversation in the session. Only new messages are written if the session has the beginning of this
    /// conversation. Otherwise the conversation replaces the session's messages, for example after an edit.
    ///
    /// After an error, the conversation still has everything. Call `save` again, or go on with the conversation: the
    /// next write stores what is missing.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] if the session was changed elsewhere since this handle loaded or stored it. Other
    /// errors come from the storage.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session may or may not have been written. The next write finds out which.
    pub async fn save(&self, conversation: &Conversation) -> Result<(), StorageError> {
        self.write(&conversation.ledger, false).await
    }

    /// Returns an error if a run begins with approval decisions for which the stored conversation does not wait. This
    /// prevents that a copy of a pending approval is used a second time.
    pub(crate) fn check_decisions(&self, ledger: &Ledger) -> Result<(), ApprovalError> {
        let Known { position, attempt } = &*lock(&self.0.known);
        let Some((_, stored)) = position else {
            return Ok(());
        };
        let is_own =
            |content: &Content| content.key.is_some() && content.key == ledger.messages().key();
        // The conversation that was last written is no copy. It knows itself which of its calls wait, also after a
        // write that failed.
        // FAULT a failed write makes every decision a used one: `[Some(stored), attempt.as_ref()]` -> `[Some(stored)]`
        //     (store::copy_of_a_pause_that_was_not_stored_is_accepted)
        let contents = [Some(stored), attempt.as_ref()].into_iter().flatten();
        if contents.clone().any(is_own) {
            return Ok(());
        }
        let used: Option<Vec<String>> =
            contents.map(|content| decided_before(ledger, &content.state)).collect();
        match used.and_then(|mut used| used.pop()) {
            Some(id) => Err(ApprovalError::AlreadyDecided { id }),
            None => Ok(()),
        }
    }

    /// Stores the conversation. If `tools_begin` is set, calls that have not begun are stored as begun.
    pub(crate) async fn write(
        &self,
        ledger: &Ledger,
        tools_begin: bool,
    ) -> Result<(), StorageError> {
        let Stored { id, known, storage } = &*self.0;
        self.find_out().await?;
        let position = lock(known).position.clone();
        let state = position.as_ref().map(|(_, known)| known.state.clone()).unwrap_or_default();
        let (settled, mut state) = session_parts(ledger, state, tools_begin)?;
        state.custom.insert(WRITE_KEY.to_owned(), random_id("write").into());
        let content = Content { key: ledger.messages().key(), messages: settled.len(), state };
        // FAULT a write whose result was lost is a conflict: without the line
        lock(known).attempt = Some(content.clone());
        // Appending sends only the new messages. It is possible if the session has the beginning of these messages.
        let is_beginning =
            // FAULT an edited conversation is appended: without `known.key == content.key &&`
            //     (store::rewritten_history_is_written_as_a_whole)
            |known: &Content| known.key == content.key && known.messages <= settled.len();
        let written = match &position {
            Some((revision, known)) if is_beginning(known) => {
                let new = settled.get(known.messages..).unwrap_or_default();
                // FAULT an append leaves the state as it was: `Some(&content.state)` -> `None`
                storage.append_dyn(id, new, Some(&content.state), revision).await
            }
            known => {
                let mut session = Session::new(id, content.state.cwd.clone());
                session.messages = settled.to_vec();
                session.state = content.state.clone();
                match known {
                    Some((revision, _)) => storage.update_dyn(&session, revision).await,
                    None => storage.create_dyn(&session).await,
                }
            }
        };
        if let Err(StorageError::Conflict { .. }) = written {
            // Nothing was written.
            lock(known).attempt = None;
        }
        *lock(known) = Known { position: Some((written?, content)), attempt: None };
        Ok(())
    }

    /// Finds out whether the last write changed the session, if that write failed or was dropped.
    async fn find_out(&self) -> Result<(), StorageError> {
        let Stored { id, known, storage } = &*self.0;
        let Some(attempt) = lock(known).attempt.clone() else {
            return Ok(());
        };
        let loaded = match storage.load_versioned_dyn(id).await {
            Err(StorageError::NotFound(_)) => None,
            loaded => Some(loaded?),
        };
        let known = &mut *lock(known);
        known.attempt = None;
        // Otherwise the next write has a conflict if another writer changed the session.
        if let Some((session, revision)) = loaded
            // FAULT the write of another is taken for the own: without the line
            //     (store::write_of_another_is_not_taken_for_the_own)
            && session.state.custom.get(WRITE_KEY) == attempt.state.custom.get(WRITE_KEY)
        {
            known.position = Some((revision, attempt));
        }
        Ok(())
    }
}

/// Returns an id that no other call returns.
pub(crate) fn random_id(kind: &str) -> String {
    // The hasher's keys are random for every `RandomState`.
    format!("{kind}-{:016x}", RandomState::new().build_hasher().finish())
}

impl fmt::Debug for SessionHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHandle").field("id", &self.0.id).finish_non_exhaustive()
    }
}
