//! Management of the stored runs of any durable engine ([`DurableRuns`]).

use std::fmt;
use std::future::Future;

use chrono::{DateTime, Utc};
use neuron_types::{
    ApprovalDecisions, ApprovalError, BoxError, PendingApproval, TokenUsage, WasmCompatSend,
    WasmCompatSync,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Lists, inspects, cancels and signals the runs of a durable engine, from any process.
///
/// The engines for SQLite, Restate and Temporal implement this trait, so one operator's tool works with all of them.
pub trait DurableRuns: WasmCompatSend + WasmCompatSync {
    /// Lists all runs that the engine stores, oldest first. A damaged run is included with the status
    /// [`RunStatus::Damaged`].
    ///
    /// # Errors
    ///
    /// [`RunsError::Engine`] if the engine failed.
    fn list(&self) -> impl Future<Output = Result<Vec<RunSummary>, RunsError>> + WasmCompatSend;

    /// Returns the summary of a run.
    ///
    /// # Errors
    ///
    /// [`RunsError::NotFound`] if no run has this id. [`RunsError::Engine`] if the engine failed.
    fn inspect(
        &self,
        id: &str,
    ) -> impl Future<Output = Result<RunSummary, RunsError>> + WasmCompatSend;

    /// Sends a signal to a run. The signal is stored until the run receives it.
    ///
    /// # Errors
    ///
    /// - [`RunsError::Ended`] if the run would never receive the signal. The run has ended, or its wait for decisions
    ///   has passed its deadline. Runs of some engines, such as SQLite's, stop while no process drives them. Such an
    ///   engine also returns this error if the deadline of any other wait has passed and no process has driven the run
    ///   since.
    /// - [`RunsError::NotFound`] if no run has this id.
    /// - [`RunsError::Engine`] if the engine failed.
    fn signal(
        &self,
        id: &str,
        name: &str,
        value: Value,
    ) -> impl Future<Output = Result<(), RunsError>> + WasmCompatSend;

    /// Sends decisions to a run that waits for them. Checks them against the pending calls first.
    ///
    /// The run checks them again when it receives them, together with edited arguments and signatures. If it then does
    /// not accept them, for example because other decisions came first, it logs the reason and keeps waiting.
    ///
    /// # Errors
    ///
    /// - [`RunsError::Approval`] if the run does not wait for decisions, or the decisions do not match its pending
    ///   calls.
    /// - [`RunsError::Ended`] if the run ended because nobody decided. Use [`revive`](Self::revive) then.
    /// - Others as in [`signal`](Self::signal).
    fn decide(
        &self,
        id: &str,
        decisions: ApprovalDecisions,
    ) -> impl Future<Output = Result<(), RunsError>> + WasmCompatSend {
        async move {
            let summary = self.inspect(id).await?;
            let Some(WaitEvent::Approval { signal, pending }) =
                summary.waits_for.map(|waits_for| waits_for.event)
            else {
                return Err(ApprovalError::NothingPending.into());
            };
            let signal = signal.ok_or_else(|| RunsError::Ended {
                id: id.to_owned(),
                reason: "it ended without decisions; pass them to `revive`".into(),
            })?;
            if let Some(pending) = pending {
                pending.check(&decisions)?;
            }
            let decisions = serde_json::to_value(decisions);
            let decisions = decisions.map_err(|error| RunsError::Engine(Box::new(error)))?;
            self.signal(id, &signal, decisions).await
        }
    }

    /// Cancels a run. If a process drives the run, the run ends at its next step.
    ///
    /// # Errors
    ///
    /// - [`RunsError::Ended`] if the run has already ended.
    /// - [`RunsError::NotFound`] if no run has this id.
    /// - [`RunsError::Engine`] if the engine failed.
    fn cancel(&self, id: &str) -> impl Future<Output = Result<(), RunsError>> + WasmCompatSend;

    /// Continues a run that ended because nobody decided on its pending tool calls before the deadline. Returns the id
    /// of the continued run. Some engines give it a new id.
    ///
    /// # Errors
    ///
    /// - [`RunsError::NotRevivable`] if the run did not end because the deadline for its decisions passed.
    /// - [`RunsError::Approval`] if the decisions do not match the run's pending calls.
    /// - [`RunsError::NotFound`] if no run has this id.
    /// - [`RunsError::Engine`] if the engine failed.
    fn revive(
        &self,
        id: &str,
        decisions: ApprovalDecisions,
    ) -> impl Future<Output = Result<String, RunsError>> + WasmCompatSend;
}

/// The state of a durable run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The run has not ended. Either a process drives it, or it was interrupted. An interrupted run continues when a
    /// process drives it again.
    Running,
    /// The run waits for a signal, a time or an approval. [`RunSummary::waits_for`] describes the wait.
    Waiting,
    /// The run ended with a result.
    Done,
    /// The run ended with an error, which is in [`RunSummary::reason`].
    Failed,
    /// The run was cancelled.
    Cancelled,
    /// The run cannot continue, for example because the agent changed so that it does not fit the journal.
    /// [`RunSummary::reason`] contains the cause. The run continues once the cause is removed.
    Stalled,
    /// The stored data of the run was edited or damaged. [`RunSummary::reason`] contains the details.
    Damaged,
}

impl RunStatus {
    /// Returns `true` if the run has ended, which is [`Done`](Self::Done), [`Failed`](Self::Failed) or
    /// [`Cancelled`](Self::Cancelled).
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

/// Summary of a run that a durable engine stores.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunSummary {
    /// Id of the run, by which the engine finds it.
    pub id: String,
    /// The state of the run.
    pub status: RunStatus,
    /// Time at which the run was created. `None` if the engine does not store it.
    pub created_at: Option<DateTime<Utc>>,
    /// Time of the last change to the run. `None` if the engine does not store it.
    pub changed_at: Option<DateTime<Utc>>,
    /// The event that the run waits for. `None` if the run does not wait.
    pub waits_for: Option<WaitsFor>,
    /// Reason why the run failed, stalled or is damaged. `None` for other runs.
    pub reason: Option<String>,
    /// Version of the agent that the run requires. `None` if the run is not bound to a version.
    pub agent_version: Option<String>,
    /// Number of steps, such as model calls, in all executions of the run. `None` if the engine does not count them.
    pub steps: Option<usize>,
    /// Number of times that the run has continued as a new execution with a new journal. `None` if the engine does not
    /// count executions.
    pub execution: Option<usize>,
    /// Tokens used by the run. `None` if the run did not end with a result, or if the engine does not store token
    /// counts.
    pub usage: Option<TokenUsage>,
}

impl RunSummary {
    /// Creates a summary with an id and a status. All other fields are `None`.
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

/// A wait of a run, with the event that ends it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WaitsFor {
    /// Time at which the wait began. `None` if the engine does not store it.
    pub since: Option<DateTime<Utc>>,
    /// Time at which the wait ends. `None` if the wait has no deadline, or the engine does not know it.
    pub deadline: Option<DateTime<Utc>>,
    /// The event that ends the wait.
    pub event: WaitEvent,
}

impl WaitsFor {
    /// Creates a wait for an event, without a start time and a deadline.
    #[must_use]
    pub fn new(event: WaitEvent) -> Self {
        Self { since: None, deadline: None, event }
    }
}

/// An event that ends a wait.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WaitEvent {
    /// A signal, sent with [`DurableRuns::signal`].
    Signal {
        /// Name of the signal.
        name: String,
    },
    /// Decisions on the run's pending calls, which run only after an approval.
    Approval {
        /// Name of the signal with which to send the [`ApprovalDecisions`]. `None` if the run ended with
        /// [`LoopError::ApprovalRequired`](neuron_types::LoopError::ApprovalRequired). Its program must then resume it
        /// with the decisions.
        signal: Option<String>,
        /// The pending calls with their arguments, without the conversation. [`DurableRuns::list`] returns `None` if
        /// the engine would need a separate request for each run.
        pending: Option<Box<PendingApproval>>,
    },
    /// Only the [deadline](WaitsFor::deadline) ends the wait, as in a sleep.
    Time,
}

/// An error of [`DurableRuns`].
///
/// # Causes and fixes
///
#[doc = include_str!("../errors/runs_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// There is no run with this id.
    #[error("there is no run {id:?}")]
    NotFound {
        /// Id that was requested.
        id: String,
    },
    /// The run or its wait ended, so the signal or cancellation has no effect.
    #[error("the run {id:?} accepts no signal or cancellation any more: {reason}")]
    Ended {
        /// Id of the run.
        id: String,
        /// Text that says what ended, when, and what to do next.
        reason: String,
    },
    /// The run cannot be [revived](DurableRuns::revive), because it did not end while it waited for decisions.
    #[error("the run {id:?} cannot be revived: {reason}")]
    NotRevivable {
        /// Id of the run.
        id: String,
        /// Description of the run's state, which explains why the run cannot be revived.
        reason: String,
    },
    /// The decisions do not match the run's pending calls.
    #[error(transparent)]
    Approval(#[from] neuron_types::ApprovalError),
    /// The durable engine failed.
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
