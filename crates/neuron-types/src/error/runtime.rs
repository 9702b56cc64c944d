//! Errors of session storage and of sandboxes.

use crate::{BoxError, CommandOutput, SandboxLimit, ToolError};

/// The error of a [`SessionStorage`](crate::SessionStorage).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The session does not exist.
    #[error("session not found: {0}")]
    NotFound(String),
    /// Another writer changed the session since it was read, or its id exists already. Nothing was written. Load the
    /// session again and repeat the change.
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
        /// The id, shortened.
        id: String,
        /// The reason why it is invalid.
        reason: String,
    },
    /// The stored data is not a complete session. It is left unchanged.
    #[error("{location} is not a whole session: {reason}; it is left as it is")]
    Corrupt {
        /// The file or the row.
        location: String,
        /// The problem of the data.
        reason: String,
    },
    /// A newer version wrote the stored data. It is left unchanged.
    #[error("{location} has format version {found}, and this version reads up to {supported}")]
    UnsupportedVersion {
        /// The file or the database.
        location: String,
        /// Version of the data.
        found: u64,
        /// The newest supported version.
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

/// A failure to serialise or to parse JSON.
impl From<serde_json::Error> for StorageError {
    fn from(error: serde_json::Error) -> Self {
        Self::Serialization(error.to_string())
    }
}

/// The error of a [`Sandbox`](crate::Sandbox).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The tool's own error. Callers receive it unchanged.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The tool failed inside the sandbox.
    #[error("execution failed in the sandbox: {0}")]
    ExecutionFailed(String),
    /// The tool and all processes that it had started were stopped.
    #[error("stopped: it needed more than {limit}")]
    LimitExceeded {
        /// The exceeded limit.
        limit: SandboxLimit,
        /// The output until then.
        output: Box<CommandOutput>,
    },
    /// The sandbox could not be set up or torn down, or refuses a tool that it cannot confine.
    #[error("sandbox setup failed: {0}")]
    SetupFailed(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

/// Returns a tool's own error unchanged. Any other error becomes the source of [`ToolError::ExecutionFailed`].
impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Tool(error) => error,
            error => Self::ExecutionFailed(Box::new(error)),
        }
    }
}
