//! Errors of a database of runs.

use std::io;
use std::path::PathBuf;

use neuron_runtime::RunsError;
use neuron_sqlite::{Abort, SqliteError};
use neuron_types::{DurableError, LoopError, StorageError, check_session_id};

/// An error of a database of runs, or of a run in it.
///
/// Within a run it is [`DurableError::Other`] with this as its source, and [`DurableError::Cancelled`] for a run that was
/// cancelled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// No run can have this id.
    #[error("invalid run id {id:?}: {reason}")]
    InvalidId {
        /// The id, shortened.
        id: String,
        /// The damage.
        reason: String,
    },
    /// There is no such run.
    #[error("there is no run {id:?}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// Another context drives the run, in this process or another one. The run is free when
    /// [`drive`](crate::SqliteDurableContext::drive) has stored its end, that context is dropped, or that process has ended,
    /// however it ended, or has not renewed its lease in time.
    #[error("the run {id:?} is being driven by another context, in this process or another one")]
    Held {
        /// The run's id.
        id: String,
    },
    /// Another context has opened the run since. The lease of this context [expired](crate::RunBuilder::lease),
    /// or the folder of its lock was deleted. This context starts and writes nothing more.
    #[error(
        "the run {id:?} was opened by another context since: this one did not renew its lease in time, or \
         the folder of its lock was deleted"
    )]
    Superseded {
        /// The run's id.
        id: String,
    },
    /// The run was deleted while this context had it. It is not made again.
    #[error("the run {id:?} was deleted")]
    Deleted {
        /// The run's id.
        id: String,
    },
    /// The run was cancelled. [`SqliteRuns::retry`](crate::SqliteRuns::retry) lets it go on.
    ///
    /// A run that is driven meanwhile ends with [`DurableError::Cancelled`].
    #[error("the run {id:?} was cancelled; `retry` lets it go on")]
    Cancelled {
        /// The run's id.
        id: String,
    },
    /// The run has ended, cannot be revived, or the decisions do not fit its calls. [Every engine](crate::DurableRuns) has
    /// these errors.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The run is pinned to another version of the agent.
    #[error(
        "the run {id:?} is pinned to the agent version {pinned:?}, and was opened with the version {opened:?}: open \
         it with that version, or allow a changed agent"
    )]
    OtherVersion {
        /// The run's id.
        id: String,
        /// The version to which the run is pinned.
        pinned: String,
        /// The version with which the run was opened.
        opened: String,
    },
    /// The run has neither failed nor been cancelled, so there is nothing to take back.
    #[error("the run {id:?} has not failed")]
    NotFailed {
        /// The run's id.
        id: String,
    },
    /// The stored run was changed or damaged.
    #[error("the run {id:?} is damaged: {reason}")]
    Corrupt {
        /// The run's id.
        id: String,
        /// The damage.
        reason: String,
    },
    /// A value exceeds the maximum length of a stored value.
    #[error("{what} takes {length} bytes, where {limit} are allowed")]
    TooLong {
        /// The kind of the value.
        what: String,
        /// Its length in bytes.
        length: usize,
        /// The most bytes.
        limit: usize,
    },
    /// A value cannot be JSON, or is nested too deeply.
    #[error("{what} cannot be stored: {source}")]
    NotJson {
        /// The kind of the value.
        what: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// The file of a run's lock cannot be made or locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file or its folder.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] SqliteError),
}

impl JournalError {
    pub(crate) fn corrupt(id: &str, reason: impl Into<String>) -> Self {
        Self::Corrupt { id: id.into(), reason: reason.into() }
    }
}

impl From<JournalError> for Abort<JournalError> {
    fn from(error: JournalError) -> Self {
        Self::Own(error)
    }
}

impl From<JournalError> for DurableError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Cancelled { .. } => Self::Cancelled,
            error => Self::Other(Box::new(error)),
        }
    }
}

impl From<JournalError> for RunsError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::NotFound { id } => Self::NotFound { id },
            JournalError::Runs(error) => error,
            error => Self::Engine(Box::new(error)),
        }
    }
}

impl From<JournalError> for LoopError {
    fn from(error: JournalError) -> Self {
        Self::Durable(error.into())
    }
}

/// Returns `true` if the context of the run may not drive it any more.
pub(crate) fn is_lost(error: &DurableError) -> bool {
    match error {
        DurableError::Cancelled => true,
        DurableError::Other(source) => matches!(
            source.downcast_ref(),
            Some(JournalError::Superseded { .. } | JournalError::Deleted { .. })
        ),
        _ => false,
    }
}

/// Checks whether a run may have this id. The rule is that of sessions, [`check_session_id`].
pub(crate) fn check_run_id(id: &str) -> Result<(), JournalError> {
    match check_session_id(id) {
        Ok(()) => Ok(()),
        Err(StorageError::InvalidId { id, reason }) => Err(JournalError::InvalidId { id, reason }),
        Err(other) => Err(JournalError::InvalidId { id: String::new(), reason: other.to_string() }),
    }
}
