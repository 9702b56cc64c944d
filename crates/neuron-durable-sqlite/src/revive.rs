//! Continuing a run with decisions that arrive after the deadline of its wait ([`revive`]).

use chrono::Utc;
use neuron_durable::RunsError;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{ApprovalDecisions, PendingApproval};
use serde_json::Value;

use crate::JournalError;
use crate::lock::Locks;
use crate::run_row::RunRow;
use crate::signal_row::SignalRow;
use crate::standing::{Standing, Wait, pending};
use crate::step_row::{StepRow, millis};
use crate::waits::received;

/// Changes the journal as if the decisions about a run's pending tool calls had arrived in time, and sets the run to
/// running. `value` is the JSON of `decisions`.
pub(crate) fn revive(
    connection: &Connection,
    id: &str,
    decisions: &ApprovalDecisions,
    value: Value,
    locks: &Locks,
) -> Result<(), Abort<JournalError>> {
    let mut run = RunRow::get(connection, id)?;
    let not_revivable =
        |reason| JournalError::Runs(RunsError::NotRevivable { id: id.into(), reason });
    if locks.is_held(run.key)? {
        return Err(JournalError::Held { id: id.into() }.into());
    }
    let (_, last) = StepRow::last(connection, (run.key, id))?;
    let standing = Standing::of(&run, last.as_ref())?;
    let (step, pending): (&StepRow, Option<PendingApproval>) = match standing.wait() {
        Wait::Unanswered(step) => {
            (step, standing.outcome.as_ref().and_then(|end| end.approval.as_deref().cloned()))
        }
        Wait::Over(step) if SignalRow::is_queued(connection, run.key, name(step))? => {
            let reason = "decisions came in time, and it goes on with them once it is opened";
            return Err(not_revivable(reason.to_owned()).into());
        }
        Wait::Over(step) => (step, pending(id, step)?),
        Wait::Open(step) if step.pending.is_some() => {
            let reason = "it still waits for decisions: send them as a signal";
            return Err(not_revivable(reason.to_owned()).into());
        }
        _ => {
            let end = standing.end().unwrap_or_else(|| format!("it is {}", standing.status));
            let reason = format!("it did not end in a wait for decisions: {end}");
            return Err(not_revivable(reason).into());
        }
    };
    let pending =
        pending.ok_or_else(|| not_revivable("its last wait was not for decisions".to_owned()))?;
    pending.check(decisions).map_err(|error| JournalError::Runs(error.into()))?;
    let now = millis(Utc::now()).max(step.ended_at.unwrap_or(step.begun_at));
    let record =
        received(Some(value), now).map_err(|error| JournalError::corrupt(id, error.to_string()))?;
    let decided = step.clone().ended(record, now);
    // Removes signals that arrived after the deadline and before the end of the run.
    while SignalRow::take(connection, (run.key, id), name(step))?.is_some() {}
    step.delete(connection, run.key)?;
    decided.insert(connection, run.key)?;
    run.reopen();
    run.changed_at = now;
    run.update(connection)
}

/// Returns the name of the signal for which a step waits.
fn name(step: &StepRow) -> &str {
    step.name.as_deref().unwrap_or_default()
}
