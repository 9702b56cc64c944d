//! What goes wrong in session storage and in sandboxes.

use crate::{BoxError, CommandOutput, SandboxLimit, ToolError};

/// What goes wrong in a [`SessionStorage`](crate::SessionStorage).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is no such session.
    #[error("session not found: {0}")]
    NotFound(String),
    /// The session was changed by somebody else since it was read, or its id is taken: nothing was
    /// written. Read it again and repeat the change.
    #[error(
        "session {id} was changed or created by another writer; read it again and repeat the change"
    )]
    Conflict {
        /// The session.
        id: String,
    },
    /// The id is not one that a session may have.
    #[error("invalid session id {id:?}: {reason}")]
    InvalidId {
        /// The id, shortened.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What is stored there is no session, or not a whole one. It is left as it is.
    #[error("{location} is not a whole session: {reason}; it is left as it is")]
    Corrupt {
        /// Where: a file, or a row.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What is stored there was written by a newer version. It is left as it is.
    #[error("{location} has format version {found}, and this version reads up to {supported}")]
    UnsupportedVersion {
        /// Where: a file, or a database.
        location: String,
        /// Its version.
        found: u64,
        /// The newest that can be read.
        supported: u64,
    },
    /// The session could not be written or read as data.
    #[error("serialization error: {0}")]
    Serialization(String),
    /// The file system failed.
    #[error("I/O error: {0}")]
    Io(#[from] std::io::Error),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

/// What cannot be written as JSON, or read from it.
impl From<serde_json::Error> for StorageError {
    fn from(error: serde_json::Error) -> Self {
        Self::Serialization(error.to_string())
    }
}

/// What goes wrong in a [`Sandbox`](crate::Sandbox).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The tool's own error, which a caller gets as it is.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The tool failed inside the sandbox.
    #[error("execution failed in the sandbox: {0}")]
    ExecutionFailed(String),
    /// The tool was stopped, and everything that it had started.
    #[error("stopped: it needed more than {limit}")]
    LimitExceeded {
        /// What it exceeded.
        limit: SandboxLimit,
        /// What it had written until then.
        output: Box<CommandOutput>,
    },
    /// The sandbox could not be set up or taken down, or cannot confine the tool and refuses it.
    #[error("sandbox setup failed: {0}")]
    SetupFailed(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

/// A tool's own error as it is; any other as the source of [`ToolError::ExecutionFailed`].
impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Tool(error) => error,
            error => Self::ExecutionFailed(Box::new(error)),
        }
    }
}
