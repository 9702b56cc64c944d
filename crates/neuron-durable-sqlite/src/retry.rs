//! Reopening a run that failed or was cancelled ([`retry`]).

use neuron_durable::RunStatus;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;

use crate::JournalError;
use crate::inspect::{error_of, kind, outcome};
use crate::lock::Locks;
use crate::run_info::StepKind;
use crate::run_row::RunRow;
use crate::step_row::StepRow;

/// Sets a failed or cancelled run to running. Removes the failure of its last step or tool batch, so that this step
/// runs again.
///
/// Returns an error if a context holds the run, or if the run has neither failed nor been cancelled.
pub(crate) fn retry(
    connection: &Connection,
    id: &str,
    locks: &Locks,
) -> Result<(), Abort<JournalError>> {
    let mut run = RunRow::get(connection, id)?;
    if locks.is_held(run.key)? {
        return Err(JournalError::Held { id: id.into() }.into());
    }
    if !matches!(run.status, RunStatus::Failed | RunStatus::Cancelled) {
        return Err(JournalError::NotFailed { id: id.into() }.into());
    }
    let ended_with = outcome(&run)?.and_then(|outcome| outcome.error_kind).unwrap_or_default();
    undo(connection, (run.key, id), &ended_with)?;
    run.reopen();
    run.update(connection)
}

/// Removes the failures from the last step or tool batch of a journal, so that these steps run again. If the call of an
/// agent failed, does the same in its nested journal. `ended_with` is the kind of the error that ended the run.
fn undo(
    connection: &Connection,
    (run, id): (i64, &str),
    ended_with: &str,
) -> Result<(), Abort<JournalError>> {
    let steps = StepRow::load(connection, (run, id), 0)?;
    let last = steps.last().map(batch);
    for step in steps.iter().filter(|step| Some(batch(step)) == last) {
        let Some(error) = error_of(id, step)? else {
            continue;
        };
        let is_tool = kind(step) == Some(StepKind::Tool);
        if is_tool && ended_with != "Tool" && ended_with != error {
            // Another error ended the run. The model was meant to receive this failure as the result of the call, so it
            // stays.
            continue;
        }
        step.delete(connection, run)?;
        if is_tool {
            // The intent of the call stays, so an at-most-once call does not run again.
            let begun = StepRow { ended_at: None, record: None, ..step.clone() };
            begun.insert(connection, run)?;
            if let Some(inside) = RunRow::find(connection, &format!("{id}/{}", step.key))? {
                undo(connection, (inside.key, &inside.id), ended_with)?;
            }
        }
    }
    Ok(())
}

/// Returns the part of a step's key that all calls of a tool batch have in common. Other steps have no such part, and
/// their whole key is returned.
fn batch(step: &StepRow) -> &str {
    match kind(step) {
        Some(StepKind::Tool) => step.key.rsplit_once('/').map_or(&step.key, |(batch, _)| batch),
        _ => &step.key,
    }
}
