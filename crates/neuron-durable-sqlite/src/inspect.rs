//! Reads runs for [`SqliteRuns::list`](crate::SqliteRuns::list) and
//! [`SqliteRuns::inspect`](crate::SqliteRuns::inspect).

use neuron_durable::{RunStatus, RunSummary};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{ErrorRecord, stored_json};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::JournalError;
use crate::outcome::StoredOutcome;
use crate::run_info::{QueuedSignal, RunDetails, StepInfo, StepKind};
use crate::run_row::RunRow;
use crate::signal_row::SignalRow;
use crate::standing::Standing;
use crate::step_row::{StepRow, time};

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// The part of a step's record that inspection needs. The result is skipped while parsing.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    error: Option<ErrorRecord>,
    #[serde(default, rename = "ok")]
    _ok: Option<IgnoredAny>,
}

/// Returns the summaries of all runs, the oldest first. If a run cannot be read, its summary has the status damaged.
pub(crate) fn list(connection: &Connection) -> Result<Vec<RunSummary>> {
    let described = |run: Result<RunRow>| match run.and_then(|run| summary(connection, &run)) {
        Err(Abort::Own(JournalError::Corrupt { id, reason })) => {
            let mut damaged = RunSummary::new(id, RunStatus::Damaged);
            damaged.reason = Some(reason);
            Ok(damaged)
        }
        described => described,
    };
    RunRow::all(connection)?.into_iter().map(described).collect()
}

/// Returns the summary of a run, from its row and its last step alone.
fn summary(connection: &Connection, run: &RunRow) -> Result<RunSummary> {
    let (steps, last) = StepRow::last(connection, (run.key, &run.id))?;
    summary_of(run, steps, last.as_ref(), last.iter())
}

/// Returns the summary of a run. `count` is the number of steps in the current execution. The times of `steps`
/// determine the time of the last change.
fn summary_of<'a>(
    run: &'a RunRow,
    count: i64,
    last: Option<&'a StepRow>,
    steps: impl Iterator<Item = &'a StepRow>,
) -> Result<RunSummary> {
    let standing = Standing::of(run, last)?;
    let at = steps.map(|step| step.ended_at.unwrap_or(step.begun_at)).max();
    let mut summary = RunSummary::new(&run.id, standing.status);
    summary.created_at = Some(time(run.created_at));
    summary.changed_at = Some(time(run.changed_at.max(at.unwrap_or_default())));
    summary.waits_for = standing.waits_for()?;
    summary.reason = standing.reason();
    summary.agent_version.clone_from(&run.agent_version);
    summary.steps = usize::try_from(run.earlier_steps.saturating_add(count)).ok();
    summary.execution = usize::try_from(run.execution).ok();
    summary.usage = standing.outcome.and_then(|outcome| outcome.usage);
    Ok(summary)
}

/// Returns the key and the details of a run. `is_held` is always `false` here, and the caller sets it.
pub(crate) fn details(connection: &Connection, id: &str) -> Result<(i64, RunDetails)> {
    let run = RunRow::get(connection, id)?;
    let steps = StepRow::load(connection, (run.key, id), 0)?;
    let outcome = outcome(&run)?;
    let count = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let details = RunDetails {
        summary: summary_of(&run, count, steps.last(), steps.iter())?,
        is_held: false,
        steps: steps.iter().map(|step| step_info(id, step)).collect::<Result<_>>()?,
        signals: SignalRow::all(connection, (run.key, id))?.into_iter().map(queued).collect(),
        outcome: outcome.map(|outcome| outcome.into_outcome(id)),
    };
    Ok((run.key, details))
}

/// Parses the stored outcome of a run. Returns `None` if the run has not ended.
pub(crate) fn outcome(run: &RunRow) -> Result<Option<StoredOutcome>> {
    let outcome = run.outcome.as_deref().map(|json| stored_json::read(json.as_bytes()));
    let damaged = |error| JournalError::corrupt(&run.id, format!("its outcome: {error}"));
    Ok(outcome.transpose().map_err(damaged)?)
}

/// Returns the kind of the error with which a step ended. Returns `None` if the step has not ended, or ended without an
/// error.
pub(crate) fn error_of(id: &str, step: &StepRow) -> Result<Option<String>> {
    let json = step.record.as_deref().unwrap_or("{}");
    let head: Head = stored_json::read(json.as_bytes()).map_err(|error| {
        JournalError::corrupt(id, format!("the record of its step {}: {error}", step.key))
    })?;
    Ok(head.error.map(|error| error.kind))
}

/// Converts the row of a step. Returns [`JournalError::Corrupt`] if no release writes such a key.
fn step_info(id: &str, step: &StepRow) -> Result<StepInfo> {
    let Some(kind) = kind(step) else {
        return Err(JournalError::corrupt(
            id,
            format!("it has a step with the unknown key {:?}", step.key),
        )
        .into());
    };
    Ok(StepInfo {
        key: step.key.clone(),
        kind,
        name: step.name.clone(),
        effect: step.effect,
        idempotency_key: step.idempotency_key.clone(),
        attempts: usize::try_from(step.attempt).unwrap_or_default(),
        begun_at: time(step.begun_at),
        ended_at: step.ended_at.map(time),
        error: error_of(id, step)?,
        bytes: step.record.as_deref().map_or(0, str::len),
    })
}

/// Returns the kind of a step, from its key. Returns `None` if no release writes such a key.
pub(crate) fn kind(step: &StepRow) -> Option<StepKind> {
    match step.key.split('/').next()? {
        "model" => Some(StepKind::Model),
        "tools" => Some(StepKind::Tool),
        "signal" => Some(StepKind::Signal),
        "sleep" => Some(StepKind::Sleep),
        "value" => Some(StepKind::Value),
        _ => None,
    }
}

fn queued(signal: SignalRow) -> QueuedSignal {
    QueuedSignal { name: signal.name, sent_at: time(signal.sent_at) }
}
