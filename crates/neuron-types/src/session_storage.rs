//! The traits of what stores sessions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::{
    Message, Session, SessionState, SessionSummary, StorageError, WasmBoxedFuture, WasmCompatSend,
    WasmCompatSync,
};

/// Stores sessions.
///
/// # Contract
///
/// - [`save`](Self::save) is all or nothing: after a crash the old or the new version is there.
/// - `save` is last writer wins. Where several may write one session, see
///   [`VersionedSessionStorage`].
/// - An id that [`check_session_id`](crate::check_session_id) refuses is refused, whatever the storage:
///   so sessions can move from one to another.
/// - A session that cannot be read is an error, and is never overwritten. [`list`](Self::list) describes it with
///   its [damage](SessionSummary::damage), and [`delete`](Self::delete) deletes it.
///
/// `neuron_conformance` has a suite that holds a storage to it.
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
    /// [`StorageError::InvalidId`]; else the storage's.
    fn save(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;

    /// Reads a session.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] when there is none with this id, [`StorageError::InvalidId`]; else the
    /// storage's.
    fn load(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<Session, StorageError>> + WasmCompatSend;

    /// Describes all sessions, without building their messages, in the order of their ids.
    ///
    /// A damaged session is listed with its [damage](SessionSummary::damage) and is no error.
    ///
    /// # Errors
    ///
    /// The storage's.
    fn list(
        &self,
    ) -> impl Future<Output = Result<Vec<SessionSummary>, StorageError>> + WasmCompatSend;

    /// Deletes a session, also a damaged one.
    ///
    /// # Errors
    ///
    /// [`StorageError::NotFound`] when there is none with this id, [`StorageError::InvalidId`]; else the
    /// storage's.
    fn delete(&self, id: &str) -> impl Future<Output = Result<(), StorageError>> + WasmCompatSend;
}

/// Stores sessions that several writers share: it notices when a session was changed between reading
/// and writing.
///
/// Every write gives the session another [`SessionRevision`]. Who writes says which revision they
/// know; if it is not the stored one any more, nothing is written.
///
/// # Contract
///
/// - [`update`](Self::update) and [`append`](Self::append) write only if the stored session has the
///   revision expected, else they return [`StorageError::Conflict`]. Comparing and writing is one
///   step, for writers in other processes too.
/// - No two writes give one revision, also if a session was deleted and created again between them.
/// - What holds for [`SessionStorage::save`] after a crash holds for all of them.
///
/// # Example
///
/// ```
/// use neuron_types::{Message, StorageError, VersionedSessionStorage};
///
/// /// Adds a message, however many others write to the session.
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
    /// Writes a session whose id is free.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] when there is one with this id, [`StorageError::InvalidId`]; else the
    /// storage's.
    fn create(
        &self,
        session: &Session,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Reads a session and its revision.
    ///
    /// # Errors
    ///
    /// As [`SessionStorage::load`].
    fn load_versioned(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<(Session, SessionRevision), StorageError>> + WasmCompatSend;

    /// Reads the revision of a session alone.
    ///
    /// # Errors
    ///
    /// As [`SessionStorage::load`].
    fn revision(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Writes a session in place of the one stored, if that has the revision expected.
    ///
    /// # Errors
    ///
    /// [`StorageError::Conflict`] when it has another one, [`StorageError::NotFound`] when there is no
    /// session with this id any more, [`StorageError::InvalidId`]; else the storage's.
    fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;

    /// Adds messages to a session, and replaces its state if one is given, if the stored session has
    /// the revision expected. [`Session::updated_at`] becomes the current time.
    ///
    /// A database writes the new messages alone, however long the session is.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> impl Future<Output = Result<SessionRevision, StorageError>> + WasmCompatSend;
}

type Written<'a> = WasmBoxedFuture<'a, Result<SessionRevision, StorageError>>;

/// The object-safe twin of [`VersionedSessionStorage`], for a pointer to a storage of any type.
pub trait VersionedSessionStorageDyn: WasmCompatSend + WasmCompatSync {
    /// [`VersionedSessionStorage::load_versioned`].
    fn load_versioned_dyn<'a>(
        &'a self,
        id: &'a str,
    ) -> WasmBoxedFuture<'a, Result<(Session, SessionRevision), StorageError>>;

    /// [`VersionedSessionStorage::create`].
    fn create_dyn<'a>(&'a self, session: &'a Session) -> Written<'a>;

    /// [`VersionedSessionStorage::update`].
    fn update_dyn<'a>(&'a self, session: &'a Session, expected: &'a SessionRevision)
    -> Written<'a>;

    /// [`VersionedSessionStorage::append`].
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

/// Which version of a stored session something is. It has a meaning only for the storage that gave it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionRevision(String);

impl SessionRevision {
    /// Makes a revision from what a storage tells versions apart by.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns what it was made from: to keep it in a form of a web page, for instance.
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
