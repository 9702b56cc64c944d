//! Errors of workers and runs on Temporal ([`TemporalError`]).

use neuron_types::BoxError;

/// An error of a worker, a run or a request to the Temporal server.
///
/// # Causes and fixes
///
#[doc = include_str!("../errors/temporal_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemporalError {
    /// The worker could not be created, or ended by itself.
    #[error("worker: {0}")]
    Worker(#[source] BoxError),
    /// The run does not exist.
    #[error("there is no run `{id}`")]
    NotFound {
        /// The id of the run, which is also the id of its workflow.
        id: String,
    },
    /// The run has ended and cannot be signalled or cancelled.
    #[error("the run `{id}` has ended: {reason}")]
    AlreadyEnded {
        /// The id of the run, which is also the id of its workflow.
        id: String,
        /// Text with the status, the time and the reason of the end.
        reason: String,
    },
    /// A run with this id has already been started.
    #[error("a run `{id}` is there already")]
    AlreadyStarted {
        /// The id of the run, which is also the id of its workflow.
        id: String,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run was terminated or timed out.
    #[error("the run was ended from outside: {0}")]
    Ended(String),
    /// The steps of the agent differ from the history of the run.
    #[error("replay differs from the history: {0}")]
    NonDeterminism(String),
    /// The request to the server failed, or its response could not be read.
    #[error("temporal: {0}")]
    Other(#[source] BoxError),
}
