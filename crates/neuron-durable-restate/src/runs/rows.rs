//! Combines invocations and register entries into runs ([`Run`]). Both are rows of the Restate server's SQL tables.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use neuron_durable::{RunOutcome, RunStatus, RunSummary, WaitEvent, WaitsFor};
use neuron_types::stored_json;
use serde::Deserialize;
use serde_json::Value;

use crate::continuation::HANDLER as RESUME;
use crate::definition::RUN;
use crate::register::{ENDED, Ended, VERSION, WAIT, Waiting};

/// Restate's error codes for a failed connection to the service.
const NOT_REACHED: [&str; 2] = ["RT0001", "RT0010"];

/// A row of the query for invocations, which describes one invocation of a run or of its tool calls.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    /// Id of the invocation.
    #[serde(rename = "id")]
    pub(super) invocation: String,
    /// Id of the run to which the invocation belongs.
    run: String,
    /// Number of times that the run had continued as new when this invocation began. Zero for the first invocation.
    number: usize,
    handler: String,
    status: String,
    completion_result: Option<String>,
    completion_failure: Option<String>,
    last_failure: Option<String>,
    last_failure_error_code: Option<String>,
    created_at: DateTime<Utc>,
    modified_at: DateTime<Utc>,
}

/// The entry of a run in the register.
#[derive(Debug, Default)]
pub(super) struct Entry {
    waiting: Option<Waiting>,
    agent_version: Option<String>,
    ended: Option<Ended>,
    /// Error text if a part of the entry cannot be parsed. `None` if all of the entry was parsed.
    unreadable: Option<String>,
}

impl Entry {
    /// Parses a value of the entry. If the value cannot be parsed, for example because a newer release wrote it, the
    /// entry is marked as unreadable.
    pub(super) fn read(&mut self, key: &str, json: Option<&str>) {
        let json = json.unwrap_or_default().as_bytes();
        let read = match key {
            WAIT => stored_json::read(json).map(|waiting| self.waiting = waiting),
            VERSION => stored_json::read(json).map(|version| self.agent_version = version),
            ENDED => stored_json::read(json).map(|ended| self.ended = ended),
            _ => return,
        };
        if let Err(error) = read {
            let text = format!("its entry `{key}` in the register cannot be read: {error}");
            self.unreadable = Some(text);
        }
    }

    /// Returns `true` if Restate will remove the entry by a scheduled call, so this client need not remove it.
    pub(super) fn is_removed_later(&self) -> bool {
        self.ended.is_some()
    }
}

/// A run with its first and its latest invocation, and its entry in the register.
#[derive(Debug)]
pub(super) struct Run {
    first: Row,
    /// The latest invocation. `None` if the run has only its first invocation.
    newest: Option<Row>,
    /// Invocations of tool calls that have not ended, including calls of nested agents.
    calls: Vec<Row>,
    entry: Entry,
}

impl Run {
    /// Groups invocations by run, and returns the runs, the oldest first. In `rows`, an invocation must precede the
    /// invocations that continue it. The closure `entry` receives the id of a run and returns its register entry.
    pub(super) fn all(rows: Vec<Row>, mut entry: impl FnMut(&str) -> Entry) -> Vec<Self> {
        let (firsts, others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.handler == RUN);
        let first = |first: Row| {
            let entry = entry(&first.run);
            (first.run.clone(), Self { first, newest: None, calls: Vec::new(), entry })
        };
        let mut runs: BTreeMap<String, Self> = firsts.into_iter().map(first).collect();
        for row in others {
            match runs.get_mut(&row.run) {
                Some(run) if row.handler == RESUME => run.newest = Some(row),
                Some(run) => run.calls.push(row),
                None => {}
            }
        }
        let mut runs: Vec<Self> = runs.into_values().collect();
        runs.sort_by_key(|run| run.first.created_at);
        runs
    }

    pub(super) fn id(&self) -> &str {
        &self.first.run
    }

    pub(super) fn has_ended(&self) -> bool {
        self.first.status == "completed"
    }

    fn has_failed(&self) -> bool {
        self.first.completion_result.as_deref() == Some("failure")
    }

    /// Describes the end of a run for an error text.
    pub(super) fn end(&self) -> String {
        let at = self.first.modified_at.to_rfc3339();
        match (&self.first.completion_failure, &self.entry.ended) {
            (Some(failure), _) => format!("it ended with {failure} at {at}"),
            (None, Some(ended)) => ended.text(),
            (None, None) => format!("it ended at {at}"),
        }
    }

    /// Returns `true` if the outcome of the run must be read from the server.
    ///
    /// Callers that only list runs pass `false` for `needs_outcome`. For a run that ended with a result, the register
    /// then has enough data.
    pub(super) fn has_outcome(&self, needs_outcome: bool) -> bool {
        let is_result = self.entry.ended.as_ref().is_some_and(|ended| ended.error.is_none());
        self.has_ended() && !self.has_failed() && (needs_outcome || !is_result)
    }

    /// Returns the summary of the run. `outcome` is the outcome of the run, if it was read.
    pub(super) fn summary(self, outcome: serde_json::Result<Option<RunOutcome>>) -> RunSummary {
        let mut summary = RunSummary::new(self.id(), RunStatus::Running);
        let newest = self.newest.as_ref().unwrap_or(&self.first);
        summary.created_at = Some(self.first.created_at);
        summary.changed_at = Some(newest.modified_at.max(self.first.modified_at));
        summary.execution = Some(newest.number);
        if self.has_ended() {
            self.end_of(&mut summary, outcome);
        } else if let Some(row) = self.that_stands_still() {
            summary.status = RunStatus::Stalled;
            summary.reason = row.failure();
        } else if self.entry.unreadable.is_some() {
            (summary.status, summary.reason) = (RunStatus::Damaged, self.entry.unreadable);
        } else if let Some(waiting) = self.entry.waiting.filter(|waiting| !waiting.is_over()) {
            summary.status = RunStatus::Waiting;
            summary.waits_for = Some(waits_for(waiting));
        } else if newest.status == "backing-off" {
            summary.reason = newest.failure();
        }
        summary.agent_version = self.entry.agent_version;
        summary
    }

    /// Returns a stalled invocation of the run or of one of its tool calls. Returns `None` if no invocation is stalled.
    fn that_stands_still(&self) -> Option<&Row> {
        let rows = self.newest.iter().chain([&self.first]).chain(&self.calls);
        rows.into_iter().find(|row| row.stands_still())
    }

    /// Sets the status, the reason and the token usage in the summary of a run that has ended.
    fn end_of(&self, summary: &mut RunSummary, outcome: serde_json::Result<Option<RunOutcome>>) {
        if let Some(failure) = &self.first.completion_failure {
            let is_cancelled = failure.starts_with("[409");
            summary.status = if is_cancelled { RunStatus::Cancelled } else { RunStatus::Failed };
            summary.reason = Some(failure.clone());
            return;
        }
        let lacks = match &outcome {
            Err(error) => Some(format!("its outcome cannot be read: {error}")),
            Ok(None) if self.entry.ended.is_none() => Some("its outcome is not kept".to_owned()),
            Ok(_) => None,
        };
        if lacks.is_some() {
            (summary.status, summary.reason) = (RunStatus::Damaged, lacks);
            return;
        }
        summary.status = RunStatus::Done;
        if let Some(ended) = &self.entry.ended {
            summary.usage.clone_from(&ended.usage);
            if ended.error.is_some() {
                summary.status = RunStatus::Failed;
                summary.reason.clone_from(&ended.error);
            }
        }
        let Ok(Some(outcome)) = outcome else { return };
        if let Some(error) = outcome.error {
            summary.status = RunStatus::Failed;
            summary.reason = Some(error.text);
        }
        summary.usage = outcome.result.map(|result| result.usage).or(summary.usage.take());
        if let Some(pending) = outcome.pending {
            let pending = Box::new(pending.without_messages());
            let event = WaitEvent::Approval { signal: None, pending: Some(pending) };
            summary.waits_for = Some(WaitsFor::new(event));
        }
    }
}

impl Row {
    pub(super) fn is_paused(&self) -> bool {
        self.status == "paused"
    }

    /// Sets the failure of a paused invocation from the pause event. The text ends with the request that resumes the
    /// invocation.
    pub(super) fn explain_pause(&mut self, event: &str) {
        let event: Option<Value> = serde_json::from_str(event).ok();
        let failure = event.as_ref().and_then(|it| it.pointer("/last_failure/error_message"));
        let failure = failure.and_then(|text| text.as_str()?.lines().next()).unwrap_or("paused");
        let text =
            format!("{failure}. It goes on after `PATCH /invocations/{}/resume`", self.invocation);
        self.last_failure = Some(text);
    }

    /// Returns `true` if the invocation is paused, or if Restate retries the invocation after a failure of the agent's
    /// code. A retry after a failed connection does not count.
    fn stands_still(&self) -> bool {
        match self.status.as_str() {
            _ if self.is_paused() => true,
            "backing-off" => {
                let code = self.last_failure_error_code.as_deref().unwrap_or_default();
                self.last_failure.is_some() && !NOT_REACHED.contains(&code)
            }
            _ => false,
        }
    }

    /// Returns the first line of the last failure. The server repeats the failure in further lines.
    fn failure(&self) -> Option<String> {
        let failure = self.last_failure.as_deref()?;
        Some(failure.lines().next().unwrap_or(failure).to_owned())
    }
}

/// Converts a wait that the register stores into the form that a run summary shows.
fn waits_for(waiting: Waiting) -> WaitsFor {
    let Waiting { signal, pending, since, deadline } = waiting;
    let event = match (signal, pending) {
        (signal, Some(pending)) => WaitEvent::Approval { signal, pending: Some(Box::new(pending)) },
        (Some(name), None) => WaitEvent::Signal { name },
        (None, None) => WaitEvent::Time,
    };
    let mut waits_for = WaitsFor::new(event);
    (waits_for.since, waits_for.deadline) = (since, deadline);
    waits_for
}
