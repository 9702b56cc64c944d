//! The present state of a run ([`Standing`]), which is derived from its row, its last step and the current time. It
//! tells the status, the open wait and the signals that the run accepts.

use chrono::{DateTime, SecondsFormat, Utc};
use neuron_durable::{RunStatus, WaitEvent, WaitsFor};
use neuron_sqlite::Abort;
use neuron_types::{PendingApproval, stored_json};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::JournalError;
use crate::inspect::{kind, outcome};
use crate::outcome::StoredOutcome;
use crate::run_info::StepKind;
use crate::run_row::RunRow;
use crate::step_row::{StepRow, millis, time};

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// The state of a run at the moment when it was read.
#[derive(Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) status: RunStatus,
    pub(crate) outcome: Option<StoredOutcome>,
    run: &'a RunRow,
    wait: Wait<'a>,
}

/// The state of a run's last step, if the step is a wait.
#[derive(Debug)]
pub(crate) enum Wait<'a> {
    /// Any other state, for example if the last step is not a wait.
    None,
    /// The wait has not ended, and its deadline has not passed.
    Open(&'a StepRow),
    /// The deadline of the wait has passed, and no process has driven the run since.
    Over(&'a StepRow),
    /// The run ended, because no decision about the pending tool calls arrived before the deadline of the wait.
    Unanswered(&'a StepRow),
}

/// The stored record of a step that waited for a signal. `ok` has the signal, or is empty if the wait ended at its
/// deadline. `ok` is `None` if the wait failed.
#[derive(Deserialize)]
struct Received {
    #[serde(default)]
    ok: Option<Vec<IgnoredAny>>,
}

/// Returns `true` if a step is a wait for a signal that ended at its deadline without a signal.
pub(crate) fn is_unanswered(step: &StepRow) -> Result<bool> {
    let Some(record) = step.record.as_deref().filter(|_| kind(step) == Some(StepKind::Signal))
    else {
        return Ok(false);
    };
    let received = stored_json::read::<Received>(record.as_bytes());
    Ok(received.is_ok_and(|received| received.ok.is_some_and(|signals| signals.is_empty())))
}

impl<'a> Standing<'a> {
    /// Determines the state of a run from its row and its last step. Pass `None` for `last` if the run has no steps.
    pub(crate) fn of(run: &'a RunRow, last: Option<&'a StepRow>) -> Result<Self> {
        let outcome = outcome(run)?;
        let asks = outcome.as_ref().is_some_and(|outcome| outcome.approval.is_some());
        let wait = match last {
            Some(step) if asks && is_unanswered(step)? => Wait::Unanswered(step),
            Some(step)
                if matches!(run.status, RunStatus::Running | RunStatus::Stalled)
                    && is_open(step) =>
            {
                match step.deadline.is_some_and(|deadline| deadline <= millis(Utc::now())) {
                    true => Wait::Over(step),
                    false => Wait::Open(step),
                }
            }
            _ => Wait::None,
        };
        let status = match (run.status, &wait) {
            (RunStatus::Running, Wait::Open(_)) => RunStatus::Waiting,
            (status, _) => status,
        };
        Ok(Self { status, outcome, run, wait })
    }

    pub(crate) fn wait(&self) -> &Wait<'a> {
        &self.wait
    }

    /// Returns the event for which the run waits, or `None` if it waits for none. A stalled run may wait too.
    pub(crate) fn waits_for(&self) -> Result<Option<WaitsFor>> {
        let step = match self.wait {
            Wait::Open(step) => step,
            _ if self.status == RunStatus::Waiting => {
                let pending = self.outcome.as_ref().and_then(|outcome| outcome.approval.clone());
                let mut waits_for = WaitsFor::new(WaitEvent::Approval { signal: None, pending });
                waits_for.since = Some(time(self.run.changed_at));
                return Ok(Some(waits_for));
            }
            _ => return Ok(None),
        };
        let name = step.name.clone().unwrap_or_default();
        let event = match (kind(step), pending(&self.run.id, step)?) {
            (Some(StepKind::Sleep), _) => WaitEvent::Time,
            (_, Some(pending)) => {
                WaitEvent::Approval { signal: Some(name), pending: Some(Box::new(pending)) }
            }
            (_, None) => WaitEvent::Signal { name },
        };
        let mut waits_for = WaitsFor::new(event);
        waits_for.since = Some(time(step.begun_at));
        waits_for.deadline = step.deadline.map(time);
        Ok(Some(waits_for))
    }

    /// Returns a text with the reason why the run does not accept a signal with this name. Returns `None` if the run
    /// accepts the signal.
    ///
    /// A run accepts no signals after its end. Before its end it refuses only a signal whose wait has passed its
    /// deadline.
    pub(crate) fn refuses(&self, name: &str) -> Option<String> {
        match self.wait {
            Wait::Over(step) if step.name.as_deref() == Some(name) => {
                let at = shown(step.deadline.map(time));
                Some(match step.pending {
                    Some(_) => format!(
                        "its wait for decisions ended at its deadline, {at}; `revive` lets it go on with them"
                    ),
                    None => format!("its wait for the signal `{name}` ended at its deadline, {at}"),
                })
            }
            _ => self.end(),
        }
    }

    /// Returns the text of the error with which the run ended or stalled. Returns `None` if there is no such error.
    pub(crate) fn reason(&self) -> Option<String> {
        match (self.status, &self.wait) {
            (RunStatus::Failed, Wait::Unanswered(_)) => self.end(),
            (RunStatus::Failed | RunStatus::Cancelled | RunStatus::Stalled, _) => {
                self.outcome.as_ref().and_then(|outcome| outcome.error.clone())
            }
            _ => None,
        }
    }

    /// Describes the end of the run in words, for an error text. Returns `None` if the run has not ended.
    pub(crate) fn end(&self) -> Option<String> {
        let at = shown(Some(time(self.run.changed_at)));
        let error = || self.outcome.as_ref().and_then(|end| end.error.clone()).unwrap_or_default();
        match (self.status, &self.wait) {
            (_, Wait::Unanswered(step)) if self.status.is_end() => {
                let deadline = shown(step.deadline.map(time));
                Some(format!(
                    "nobody decided on its calls before the deadline, {deadline}, so it ended; `revive` lets it go \
                     on with the decisions"
                ))
            }
            (RunStatus::Done, _) => Some(format!("it ended with a result at {at}")),
            (RunStatus::Cancelled, _) => {
                Some(format!("it was cancelled at {at}; `retry` lets it go on"))
            }
            (RunStatus::Failed, _) => {
                Some(format!("it failed at {at}: {}; `retry` lets it go on", error()))
            }
            _ => None,
        }
    }
}

/// Parses the tool calls whose approval the step waits for. Returns `None` if the step does not wait for an approval.
pub(crate) fn pending(id: &str, step: &StepRow) -> Result<Option<PendingApproval>> {
    let pending = step.pending.as_deref();
    let pending = pending.map(|json| stored_json::read::<PendingApproval>(json.as_bytes()));
    Ok(pending.transpose().map_err(|error| {
        JournalError::corrupt(id, format!("the calls that it waits for: {error}"))
    })?)
}

/// Returns `true` if the step is a wait that has not ended.
fn is_open(step: &StepRow) -> bool {
    step.record.is_none() && matches!(kind(step), Some(StepKind::Signal | StepKind::Sleep))
}

/// Formats a time for an error text. Returns an empty string without a time.
fn shown(time: Option<DateTime<Utc>>) -> String {
    time.map_or_else(String::new, |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}
