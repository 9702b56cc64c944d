//! A view of the runs of any durable engine for operators, [`DurableRuns`].

use std::fmt;
use std::future::Future;

use chrono::{DateTime, Utc};
use neuron_types::{
    ApprovalDecisions, BoxError, PendingApproval, TokenUsage, WasmCompatSend, WasmCompatSync,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lists, inspects, cancels and signals the runs of a durable engine, from any process.
///
/// SQLite, Restate and Temporal implement it, so an operator's page is written once.
pub trait DurableRuns: WasmCompatSend + WasmCompatSync {
    /// Lists all runs that the engine keeps, the oldest first. A damaged run is listed as
    /// [damaged](RunStatus::Damaged) and hides no other.
    ///
    /// # Errors
    ///
    /// [`RunsError::Engine`].
    fn list(&self) -> impl Future<Output = Result<Vec<RunSummary>, RunsError>> + WasmCompatSend;

    /// Describes a run.
    ///
    /// # Errors
    ///
    /// [`RunsError::NotFound`] and [`RunsError::Engine`].
    fn inspect(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<RunSummary, RunsError>> + WasmCompatSend;

    /// Sends a signal to a run. The signal waits until the run receives it.
    ///
    /// # Errors
    ///
    /// [`RunsError::Ended`] if nobody would receive the signal: the run ended, or its wait for decisions did at the
    /// deadline. An engine whose runs stand still without a process, as SQLite's, says so after any other wait too, until a
    /// process drives the run. [`RunsError::NotFound`] and [`RunsError::Engine`].
    fn signal(
        &self,
        id: &str,
        name: &str,
        value: Value,
    ) -> impl Future<Output = Result<(), RunsError>> + WasmCompatSend;

    /// Cancels a run. A run that is driven ends at its next step.
    ///
    /// # Errors
    ///
    /// [`RunsError::Ended`], [`RunsError::NotFound`] and [`RunsError::Engine`].
    fn cancel(&self, id: &str) -> impl Future<Output = Result<(), RunsError>> + WasmCompatSend;

    /// Lets a run go on that ended because nobody decided on its calls in time. Returns the id under which it goes on.
    ///
    /// # Errors
    ///
    /// [`RunsError::NotRevivable`] if the run did not end so; [`RunsError::Approval`] if the decisions do not fit its
    /// calls; [`RunsError::NotFound`] and [`RunsError::Engine`].
    fn revive(
        &self,
        id: &str,
        decisions: ApprovalDecisions,
    ) -> impl Future<Output = Result<String, RunsError>> + WasmCompatSend;
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The run has not ended. A process drives it, or it was interrupted and goes on when a process takes it.
    Running,
    /// The run waits for a signal, a time or an approval ([`RunSummary::waits_for`]).
    Waiting,
    /// The run ended with a result.
    Done,
    /// The run ended with an error ([`RunSummary::reason`]).
    Failed,
    /// The run was cancelled.
    Cancelled,
    /// The run cannot continue with its current agent or journal ([`RunSummary::reason`]), for example because
    /// the agent changed. It continues once the cause is removed.
    Stalled,
    /// The stored run was changed or damaged ([`RunSummary::reason`]).
    Damaged,
}

impl RunStatus {
    /// Returns `true` if the run has ended.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// A run of a durable engine.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run's id.
    pub id: String,
    /// The state of the run.
    pub status: RunStatus,
    /// Time at which the run was created, if the engine knows it.
    pub created_at: Option<DateTime<Utc>>,
    /// Time of the newest change, if the engine knows it.
    pub changed_at: Option<DateTime<Utc>>,
    /// The wait of a run that [waits](RunStatus::Waiting), or that stands still in one.
    pub waits_for: Option<WaitsFor>,
    /// Text that says why the run failed, stands still or is damaged.
    pub reason: Option<String>,
    /// Version of the agent to which the run is pinned, if it is.
    pub agent_version: Option<String>,
    /// Number of steps in all executions of the run, if the engine counts them.
    pub steps: Option<usize>,
    /// Number of times that the run continued as new, if the engine counts them.
    pub execution: Option<usize>,
    /// Tokens of a run that ended with a result, if the engine keeps them.
    pub usage: Option<TokenUsage>,
}

impl RunSummary {
    /// Creates a summary with an id and a status. The other fields are empty.
    pub fn new(id: impl Into<String>, status: RunStatus) -> Self {
        Self {
            id: id.into(),
            status,
            created_at: None,
            changed_at: None,
            waits_for: None,
            reason: None,
            agent_version: None,
            steps: None,
            execution: None,
            usage: None,
        }
    }
}

/// The wait of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WaitsFor {
    /// Time at which the wait began, if the engine knows it.
    pub since: Option<DateTime<Utc>>,
    /// Time at which the wait ends. `None` if the wait has no end, or the engine does not know it.
    pub deadline: Option<DateTime<Utc>>,
    /// The event that ends the wait.
    pub event: WaitEvent,
}

impl WaitsFor {
    /// Creates a wait without times.
    #[must_use]
    pub fn new(event: WaitEvent) -> Self {
        Self { since: None, deadline: None, event }
    }
}

/// The event that ends a wait.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WaitEvent {
    /// A signal, which [`DurableRuns::signal`] sends.
    Signal {
        /// The signal's name.
        name: String,
    },
    /// Decisions on calls that need an approval.
    Approval {
        /// Name of the signal with the [`ApprovalDecisions`]. `None` if the run ended with
        /// [`LoopError::ApprovalRequired`](neuron_types::LoopError::ApprovalRequired), and its program decides.
        signal: Option<String>,
        /// The calls with their arguments, without the conversation. `None` in a list of an engine that reads them run by
        /// run.
        pending: Option<Box<PendingApproval>>,
    },
    /// The [deadline](WaitsFor::deadline) alone.
    Time,
}

/// An error of [`DurableRuns`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// There is no run with this id.
    #[error("there is no run {id:?}")]
    NotFound {
        /// The id.
        id: String,
    },
    /// The run ended, or its wait did. The reason says which, when and how to go on.
    #[error("the run {id:?} takes this no more: {reason}")]
    Ended {
        /// The run's id.
        id: String,
        /// Text that says what ended, and when.
        reason: String,
    },
    /// The run did not end in a wait for decisions.
    #[error("the run {id:?} cannot be revived: {reason}")]
    NotRevivable {
        /// The run's id.
        id: String,
        /// Text that says how the run stands.
        reason: String,
    },
    /// The decisions do not fit the calls that wait.
    #[error(transparent)]
    Approval(#[from] neuron_types::ApprovalError),
    /// The engine failed.
    #[error("the durable engine failed: {0}")]
    Engine(#[source] BoxError),
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stalled => "stalled",
            Self::Damaged => "damaged",
        })
    }
}
