//! What goes wrong in session storage and in sandboxes.

use crate::BoxError;

/// What goes wrong in a [`SessionStorage`](crate::SessionStorage).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// There is no such session.
    #[error("session not found: {0}")]
    NotFound(String),
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

/// What goes wrong in a [`Sandbox`](crate::Sandbox).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The tool failed inside the sandbox.
    #[error("execution failed in the sandbox: {0}")]
    ExecutionFailed(String),
    /// The sandbox could not be set up or taken down.
    #[error("sandbox setup failed: {0}")]
    SetupFailed(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}
