//! The version of the agent to which a run is pinned ([`pin`]).

use neuron_durable::{ChangedAgent, RunStatus};
use neuron_sqlite::Abort;

use crate::JournalError;
use crate::inspect::outcome;
use crate::outcome::StoredOutcome;
use crate::run_builder::RunOptions;
use crate::run_row::RunRow;
use crate::texts::to_json;

/// Error kind in the outcome of a run that was opened with another version of its agent.
const KIND: &str = "AgentVersion";

/// The result of comparing the version of a run with the version of its agent.
pub(crate) enum Pin {
    /// The run can be opened, because the versions are equal or a difference is allowed.
    Fits,
    /// The versions differ, and the run cannot be opened. Store the row, because the status of an unfinished run may
    /// have changed to [`RunStatus::Stalled`].
    Differs(JournalError),
}

/// Compares the agent's version in `options` with the version to which the run is pinned. Pins the run to the agent's
/// version if it has no version yet, or if the options allow a changed agent.
pub(crate) fn pin(run: &mut RunRow, options: &RunOptions) -> Result<Pin, Abort<JournalError>> {
    let Some(opened) = &options.durable.agent_version else {
        return Ok(Pin::Fits);
    };
    match &run.agent_version {
        Some(pinned)
            if pinned != opened && options.durable.changed_agent == ChangedAgent::Refuse =>
        {
            let error = JournalError::OtherVersion {
                id: run.id.clone(),
                pinned: pinned.clone(),
                opened: opened.clone(),
            };
            // A waiting run keeps its outcome, which has the calls to decide on.
            if matches!(run.status, RunStatus::Running | RunStatus::Stalled) {
                let outcome = StoredOutcome::error(KIND, error.to_string());
                run.outcome = Some(to_json("the outcome of the run", &outcome)?);
                run.status = RunStatus::Stalled;
            }
            Ok(Pin::Differs(error))
        }
        _ => {
            run.agent_version = Some(opened.clone());
            let is_stalled = run.status == RunStatus::Stalled;
            if is_stalled && outcome(run)?.and_then(|end| end.error_kind).as_deref() == Some(KIND) {
                run.status = RunStatus::Running;
                run.outcome = None;
            }
            Ok(Pin::Fits)
        }
    }
}
