//! The error of session storage.

use crate::BoxError;

/// The error of a [`SessionStorage`](crate::SessionStorage).
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/storage_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The session does not exist.
    #[error("session not found: {0}")]
    NotFound(String),
    /// Another writer changed the session after it was loaded. For a new session, the id already exists.
    ///
    /// Nothing was written. Load the session again and repeat the change.
    #[error(
        "session {id} was changed or created by another writer; read it again and repeat the change"
    )]
    Conflict {
        /// Id of the session.
        id: String,
    },
    /// The session id is invalid.
    #[error("invalid session id {id:?}: {reason}")]
    InvalidId {
        /// The id, shortened to 64 characters.
        id: String,
        /// The reason why the id is invalid.
        reason: String,
    },
    /// The stored data is not a complete session. The storage does not change the data.
    #[error("{location} is not a whole session: {reason}; it is left as it is")]
    Corrupt {
        /// The file or the database row that contains the data.
        location: String,
        /// The reason why the data is not a session.
        reason: String,
    },
    /// The stored data was written by a newer version. The storage does not change the data.
    #[error(
        "{location} has format version {found}, and this version reads up to {supported}: update neuron, or store the \
         sessions elsewhere"
    )]
    UnsupportedVersion {
        /// The file or the database that contains the data.
        location: String,
        /// Format version of the data.
        found: u64,
        /// The newest format version that this version of neuron supports.
        supported: u64,
    },
    /// The session could not be serialised or deserialised.
    #[error("serialization error: {0}")]
    Serialization(String),
    /// An I/O operation failed.
    #[error("I/O error: {0}")]
    Io(#[from] std::io::Error),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

/// Converts into [`StorageError::Serialization`].
impl From<serde_json::Error> for StorageError {
    fn from(error: serde_json::Error) -> Self {
        Self::Serialization(error.to_string())
    }
}
