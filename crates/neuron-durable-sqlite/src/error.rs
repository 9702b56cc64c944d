//! Errors of a database of runs ([`JournalError`]).

use std::io;
use std::path::PathBuf;

use neuron_durable::RunsError;
use neuron_sqlite::{Abort, SqliteError};
use neuron_types::{DurableError, LoopError, StorageError, check_session_id};

/// An error of a database of runs, or of a run in it.
///
/// A step that fails with a `JournalError` returns [`DurableError::Other`] with the `JournalError` as its source. A
/// step that fails with [`Cancelled`](Self::Cancelled) returns [`DurableError::Cancelled`].
///
/// # Causes and fixes
///
#[doc = include_str!("../errors/journal_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The id is not a valid run id.
    #[error("invalid run id {id:?}: {reason}")]
    InvalidId {
        /// The invalid id, shortened.
        id: String,
        /// The rule that the id breaks.
        reason: String,
    },
    /// The run does not exist.
    #[error("there is no run {id:?}")]
    NotFound {
        /// The run's id.
        id: String,
    },
    /// Another context drives the run, in this process or another one.
    ///
    /// The run can be opened in these cases:
    ///
    /// - [`drive`](crate::SqliteDurableContext::drive) has stored the end of the run.
    /// - The other context is dropped.
    /// - The process of the other context has ended, or has not renewed its lease in time.
    #[error(
        "the run {id:?} is being driven by another context, in this process or another one: wait until that context \
         has ended, or stop it"
    )]
    Held {
        /// The run's id.
        id: String,
    },
    /// Another context has opened the run since this context opened it. The lease of this context
    /// [expired](crate::DurableOptions::lease), or the folder of its lock was deleted.
    ///
    /// This context starts no further step and writes nothing more.
    #[error(
        "the run {id:?} was opened by another context since: this one did not renew its lease in time, or \
         the folder of its lock was deleted"
    )]
    Superseded {
        /// The run's id.
        id: String,
    },
    /// The run was deleted while this context held it. The context does not create the run again.
    #[error("the run {id:?} was deleted")]
    Deleted {
        /// The run's id.
        id: String,
    },
    /// The run was cancelled. Call [`SqliteRuns::retry`](crate::SqliteRuns::retry) to continue it.
    ///
    /// A run that is cancelled while an agent executes it ends with [`DurableError::Cancelled`].
    #[error("the run {id:?} was cancelled; `retry` lets it go on")]
    Cancelled {
        /// The run's id.
        id: String,
    },
    /// An error that [every durable engine](crate::DurableRuns) can return, for example:
    ///
    /// - The run has ended, so it accepts no signal or cancellation.
    /// - [`SqliteRuns::revive`](crate::SqliteRuns::revive) cannot continue the run.
    /// - The approval decisions do not match the pending tool calls of the run.
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
    /// The run was submitted before with another start or another input.
    #[error(
        "the run {id:?} was submitted before with another start or input: submit the new one with another id"
    )]
    OtherStart {
        /// The run's id.
        id: String,
    },
    /// The run has neither failed nor been cancelled, so it cannot be retried.
    #[error("the run {id:?} has not failed")]
    NotFailed {
        /// The run's id.
        id: String,
    },
    /// The stored data of the run was changed or damaged.
    #[error("the run {id:?} is damaged: {reason}")]
    Corrupt {
        /// The run's id.
        id: String,
        /// The damage that was found.
        reason: String,
    },
    /// A value is longer than a stored value may be.
    #[error("{what} takes {length} bytes, where {limit} are allowed")]
    TooLong {
        /// Name of the value.
        what: String,
        /// Length of the value in bytes.
        length: usize,
        /// Maximum length in bytes.
        limit: usize,
    },
    /// A value cannot be converted to or from JSON, or is nested too deeply.
    #[error("{what} cannot be stored: {source}")]
    NotJson {
        /// Name of the value.
        what: &'static str,
        /// The error of the JSON serialiser or parser.
        source: serde_json::Error,
    },
    /// The lock file of a run cannot be created, opened or locked.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// Path of the lock file, of its folder, or of the database.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] SqliteError),
}

impl JournalError {
    /// Creates a [`Corrupt`](Self::Corrupt) error for a run.
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

/// Returns `true` if the error means that the run was cancelled, taken over by another context, or deleted. The context
/// of the error must not continue the run.
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

/// Checks that `id` is a valid run id. The rule is the one of session ids, [`check_session_id`].
pub(crate) fn check_run_id(id: &str) -> Result<(), JournalError> {
    match check_session_id(id) {
        Ok(()) => Ok(()),
        Err(StorageError::InvalidId { id, reason }) => Err(JournalError::InvalidId { id, reason }),
        Err(other) => Err(JournalError::InvalidId { id: String::new(), reason: other.to_string() }),
    }
}
