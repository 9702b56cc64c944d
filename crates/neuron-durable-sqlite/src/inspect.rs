//! Reading a run for those who ask about it.

use chrono::{DateTime, Utc};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{ErrorRecord, PendingApproval, stored_json};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::JournalError;
use crate::run_info::{
    QueuedSignal, RunDetails, RunOutcome, RunStatus, RunSummary, StepInfo, StepKind, WaitsFor,
};
use crate::run_row::RunRow;
use crate::step_row::{StepRow, time};

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// What of a record matters here.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    error: Option<ErrorRecord>,
    #[serde(default, rename = "ok")]
    _ok: Option<IgnoredAny>,
}

/// Describes all runs, the oldest first. What cannot be read of one does not keep the others from the list.
pub(crate) fn list(connection: &Connection) -> Result<Vec<RunSummary>> {
    let described = |run: Result<RunRow>| match run.and_then(|run| summary(connection, &run)) {
        Err(Abort::Own(JournalError::Corrupt { id, reason })) => {
            Ok(RunSummary::damaged(id, reason))
        }
        described => described,
    };
    RunRow::all(connection)?.into_iter().map(described).collect()
}

/// Describes a run in a list.
fn summary(connection: &Connection, run: &RunRow) -> Result<RunSummary> {
    let mut select = connection.prepare_cached("SELECT count(*) FROM steps WHERE run = ?1")?;
    let steps: i64 = select.query_one([run.key], |row| row.get(0))?;
    // The last step alone: it says whether the run waits, and when something happened last.
    let last = StepRow::load(connection, (run.key, &run.id), steps.saturating_sub(1))?;
    summary_of(run, steps, &last)
}

fn summary_of(run: &RunRow, steps: i64, last: &[StepRow]) -> Result<RunSummary> {
    let at = last.iter().map(|step| step.ended_at.unwrap_or(step.begun_at)).max();
    let waits = last.last().is_some_and(|step| is_wait(step) && step.record.is_none());
    let status = match run.status {
        RunStatus::Running if waits => RunStatus::Waiting,
        status => status,
    };
    Ok(RunSummary {
        id: run.id.clone(),
        status,
        created_at: time(run.created_at),
        changed_at: time(run.changed_at.max(at.unwrap_or_default())),
        steps: usize::try_from(run.earlier_steps.saturating_add(steps)).unwrap_or_default(),
        execution: usize::try_from(run.execution).unwrap_or_default(),
        usage: outcome(run)?.and_then(|outcome| outcome.usage),
        damage: None,
    })
}

/// Tells all about a run but whether it is held; with its key.
pub(crate) fn details(connection: &Connection, id: &str) -> Result<(i64, RunDetails)> {
    let run = RunRow::get(connection, id)?;
    let steps = StepRow::load(connection, (run.key, id), 0)?;
    let outcome = outcome(&run)?;
    let count = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let details = RunDetails {
        summary: summary_of(&run, count, &steps)?,
        is_held: false,
        waits_for: waits_for(id, steps.last(), outcome.as_ref())?,
        steps: steps.iter().map(|step| step_info(id, step)).collect::<Result<_>>()?,
        signals: signals(connection, run.key)?,
        outcome,
    };
    Ok((run.key, details))
}

/// How a run ended, if it did.
pub(crate) fn outcome(run: &RunRow) -> Result<Option<RunOutcome>> {
    let outcome = run.outcome.as_deref().map(|json| stored_json::read(json.as_bytes()));
    let damaged = |error| JournalError::corrupt(&run.id, format!("its outcome: {error}"));
    Ok(outcome.transpose().map_err(damaged)?)
}

/// The stable name of the error that a step ended with.
pub(crate) fn error_of(id: &str, step: &StepRow) -> Result<Option<String>> {
    let json = step.record.as_deref().unwrap_or("{}");
    let head: Head = stored_json::read(json.as_bytes()).map_err(|error| {
        JournalError::corrupt(id, format!("the record of its step {}: {error}", step.key))
    })?;
    Ok(head.error.map(|error| error.kind))
}

fn step_info(id: &str, step: &StepRow) -> Result<StepInfo> {
    let Some(kind) = kind(step) else {
        return Err(JournalError::corrupt(id, format!("it has a step {:?}", step.key)).into());
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

/// What a step is; none for what no release writes.
pub(crate) fn kind(step: &StepRow) -> Option<StepKind> {
    match step.key.split('/').next()? {
        "model" => Some(StepKind::Model),
        "tools" => Some(StepKind::Tool),
        "signal" => Some(StepKind::Signal),
        "sleep" => Some(StepKind::Sleep),
        _ => None,
    }
}

fn is_wait(step: &StepRow) -> bool {
    matches!(kind(step), Some(StepKind::Signal | StepKind::Sleep))
}

fn waits_for(
    id: &str,
    last: Option<&StepRow>,
    outcome: Option<&RunOutcome>,
) -> Result<Option<WaitsFor>> {
    if let Some(pending) = outcome.and_then(|outcome| outcome.approval.clone()) {
        return Ok(Some(WaitsFor::Approval { pending }));
    }
    let Some(step) = last.filter(|step| step.record.is_none()) else {
        return Ok(None);
    };
    let deadline: Option<DateTime<Utc>> = step.deadline.map(time);
    Ok(match kind(step) {
        Some(StepKind::Signal) => {
            let pending = step.pending.as_deref();
            let approval =
                pending.map(|json| stored_json::read::<PendingApproval>(json.as_bytes()));
            let approval = approval.transpose().map_err(|error| {
                JournalError::corrupt(id, format!("the calls that it waits for: {error}"))
            })?;
            let name = step.name.clone().unwrap_or_default();
            Some(WaitsFor::Signal { name, deadline, approval: approval.map(Box::new) })
        }
        Some(StepKind::Sleep) => Some(WaitsFor::Time { until: deadline }),
        _ => None,
    })
}

fn signals(connection: &Connection, run: i64) -> Result<Vec<QueuedSignal>> {
    let mut select = connection
        .prepare_cached("SELECT name, sent_at FROM signals WHERE run = ?1 ORDER BY key")?;
    let rows = select.query_map([run], |row| {
        Ok(QueuedSignal { name: row.get(0)?, sent_at: time(row.get(1)?) })
    })?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}
