//! Errors between a program and Temporal ([`TemporalError`]).

use neuron_types::BoxError;

use crate::RunFailure;

/// An error between a program and Temporal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemporalError {
    /// The worker could not be made, or ended by itself.
    #[error("worker: {0}")]
    Worker(#[source] BoxError),
    /// There is no run with this id.
    #[error("there is no run `{id}`")]
    NotFound {
        /// The workflow's id.
        id: String,
    },
    /// The run has ended, and takes neither a signal nor a cancellation.
    #[error("the run `{id}` has ended: {reason}")]
    AlreadyEnded {
        /// The workflow's id.
        id: String,
        /// Text that says how and when it ended.
        reason: String,
    },
    /// A run with this id is there already.
    #[error("a run `{id}` is there already")]
    AlreadyStarted {
        /// The workflow's id.
        id: String,
    },
    /// The run ended with an error.
    #[error("the run failed: {}", .0.message)]
    Failed(Box<RunFailure>),
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run was terminated or timed out, so it could not end by itself.
    #[error("the run was ended from outside: {0}")]
    Ended(String),
    /// The history of a run does not fit this code.
    #[error("replay differs from the history: {0}")]
    NonDeterminism(String),
    /// The server could not be asked, or its answer could not be read.
    #[error("temporal: {0}")]
    Other(#[source] BoxError),
}
