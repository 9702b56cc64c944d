//! The traits of session storages.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::{
    Message, Session, SessionState, SessionSummary, StorageError, WasmBoxedFuture, WasmCompatSend,
    WasmCompatSync,
};

/// A storage of sessions.
///
/// # Contract
///
/// - [`save`](Self::save) is atomic. After a crash, either the old or the new version of the session is stored.
/// - Concurrent calls of `save` overwrite each other, and the last call wins. For concurrent writers see
///   [`VersionedSessionStorage`].
/// - A storage refuses the ids that [`check_session_id`](crate::check_session_id) refuses, so that every session can be
///   moved to any other storage.
/// - If a session is damaged, [`load`](Self::load) returns an error, and `save` does not overwrite the session.
///   [`list`](Self::list) returns its summary with the [damage](SessionSummary::damage), and [`delete`](Self::delete)
///   deletes it.
///
/// `neuron_conformance` has a test suite for this contract.
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
    /// Stores a session. A stored session with the same id is replaced.
    ///
    /// # Errors
    ///
    /// [`StorageError::InvalidId`] if the id is invalid, and errors of the storage.
    fn save(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;

    /// Loads a session.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] if the session does not exist, [`StorageError::InvalidId`] if the id is invalid, and
    /// errors of the storage.
    fn load(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<Session, StorageError>> + WasmCompatSend;

    /// Lists the summaries of all sessions in the order of their ids, without loading the messages.
    ///
    /// A damaged session causes no error, and its summary contains the [damage](SessionSummary::damage).
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn list(
        &self,
    ) -> impl Future<Output = Result<Vec<SessionSummary>, StorageError>> + WasmCompatSend;

    /// Deletes a session, even if the session is damaged.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] if the session does not exist, [`StorageError::InvalidId`] if the id is invalid, and
    /// errors of the storage.
    fn delete(&self, id: &str) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;
}

/// A storage of sessions with optimistic concurrency control, for sessions with several writers.
///
/// Every write gives the session a new [`SessionRevision`]. A writer passes the revision that it loaded. If another
/// writer has changed the stored session since then, the revisions differ and nothing is written.
///
/// # Contract
///
/// - [`update`](Self::update) and [`append`](Self::append) write only if the stored session has the expected revision.
///   Otherwise they return [`StorageError::Conflict`]. The comparison and the write are one atomic step, even if other
///   processes write to the storage.
/// - A revision is never reused, even if a session is deleted and created again.
/// - All writes are atomic like [`SessionStorage::save`]. After a crash, either the old or the new version is stored.
///
/// # Example
///
/// ```
/// use neuron_types::{Message, StorageError, VersionedSessionStorage};
///
/// /// Appends a message to a session with concurrent writers.
/// async fn add<S: VersionedSessionStorage>(storage: &S, id: &str, text: &str) -> Result<(), StorageError> {
///     loop {
///         let revision = storage.revision(id).await?;
///         match storage.append(id, &[Message::user(text)], None, &revision).await {
///             Err(StorageError::Conflict { .. }) => continue,
///             appended => return appended.map(drop),
///         }
///     }
/// }
/// ```
pub trait VersionedSessionStorage: SessionStorage {
    /// Stores a new session and returns its revision.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] if a session with the id exists, [`StorageError::InvalidId`] if the id is invalid,
    /// and errors of the storage.
    fn create(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Loads a session and its revision.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStorage::load`].
    fn load_versioned(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<(Session, SessionRevision), StorageError>> + WasmCompatSend;

    /// Loads the revision of a session, without the session itself.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStorage::load`].
    fn revision(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Replaces the stored session if it has the revision `expected`. Returns the new revision.
    ///
    /// # Errors
    ///
    /// - [`StorageError::Conflict`] if the stored session has another revision.
    /// - [`StorageError::NotFound`] if the session does not exist.
    /// - [`StorageError::InvalidId`] if the id is invalid.
    /// - Errors of the storage.
    fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Appends messages to the stored session if it has the revision `expected`. Returns the new revision.
    ///
    /// If `state` is not `None`, it replaces the state of the session. [`Session::updated_at`] is set to the current
    /// time. Unlike [`update`](Self::update), a database storage writes only the new messages.
    ///
    /// # Errors
    ///
    /// The errors of [`update`](Self::update).
    fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;
}

/// The boxed future of a write, with the new revision.
type Written<'a> = WasmBoxedFuture<'a, Result<SessionRevision, StorageError>>;

/// Object-safe form of [`VersionedSessionStorage`], for storages that are chosen at run time.
pub trait VersionedSessionStorageDyn: WasmCompatSend + WasmCompatSync {
    /// Calls [`VersionedSessionStorage::load_versioned`].
    fn load_versioned_dyn<'a>(
        &'a self,
        id: &'a str,
    ) -> WasmBoxedFuture<'a, Result<(Session, SessionRevision), StorageError>>;

    /// Calls [`VersionedSessionStorage::create`].
    fn create_dyn<'a>(&'a self, session: &'a Session) -> Written<'a>;

    /// Calls [`VersionedSessionStorage::update`].
    fn update_dyn<'a>(&'a self, session: &'a Session, expected: &'a SessionRevision)
    -> Written<'a>;

    /// Calls [`VersionedSessionStorage::append`].
    fn append_dyn<'a>(
        &'a self,
        id: &'a str,
        messages: &'a [Message],
        state: Option<&'a SessionState>,
        expected: &'a SessionRevision,
    ) -> Written<'a>;
}

impl<S: VersionedSessionStorage> VersionedSessionStorageDyn for S {
    fn load_versioned_dyn<'a>(
        &'a self,
        id: &'a str,
    ) -> WasmBoxedFuture<'a, Result<(Session, SessionRevision), StorageError>> {
        Box::pin(self.load_versioned(id))
    }

    fn create_dyn<'a>(&'a self, session: &'a Session) -> Written<'a> {
        Box::pin(self.create(session))
    }

    fn update_dyn<'a>(
        &'a self,
        session: &'a Session,
        expected: &'a SessionRevision,
    ) -> Written<'a> {
        Box::pin(self.update(session, expected))
    }

    fn append_dyn<'a>(
        &'a self,
        id: &'a str,
        messages: &'a [Message],
        state: Option<&'a SessionState>,
        expected: &'a SessionRevision,
    ) -> Written<'a> {
        Box::pin(self.append(id, messages, state, expected))
    }
}

/// A revision of a stored session. Every write creates a new revision.
///
/// The content is opaque. Only the storage that created the revision can interpret it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionRevision(String);

impl SessionRevision {
    /// Creates a revision from the storage's version token.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the storage's version token, for example to send the revision to a browser and back.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionRevision").field(&self.0).finish()
    }
}

macro_rules! forward_through_pointer {
    ($($pointer:ty),*) => {$(
        impl<S: SessionStorage + ?Sized> SessionStorage for $pointer {
            fn save(
                &self,
                session: &Session,
            ) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend {
                (**self).save(session)
            }

            fn load(
                &self,
                id: &str,
            ) -> impl Future<Output = Result<Session, StorageError>> + WasmCompatSend {
                (**self).load(id)
            }

            fn list(
                &self,
            ) -> impl Future<Output = Result<Vec<SessionSummary>, StorageError>> + WasmCompatSend {
                (**self).list()
            }

            fn delete(
                &self,
                id: &str,
            ) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend {
                (**self).delete(id)
            }
        }

        impl<S: VersionedSessionStorage + ?Sized> VersionedSessionStorage for $pointer {
            fn create(
                &self,
                session: &Session,
            ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend {
                (**self).create(session)
            }

            fn load_versioned(
                &self,
                id: &str,
            ) -> impl Future<Output = Result<(Session, SessionRevision), StorageError>> + WasmCompatSend
            {
                (**self).load_versioned(id)
            }

            fn revision(
                &self,
                id: &str,
            ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend {
                (**self).revision(id)
            }

            fn update(
                &self,
                session: &Session,
                expected: &SessionRevision,
            ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend {
                (**self).update(session, expected)
            }

            fn append(
                &self,
                id: &str,
                messages: &[Message],
                state: Option<&SessionState>,
                expected: &SessionRevision,
            ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend {
                (**self).append(id, messages, state, expected)
            }
        }
    )*};
}

forward_through_pointer!(&S, Arc<S>);
