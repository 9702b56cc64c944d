//! Runs as the server's tables and the register have them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use neuron_runtime::{RunStatus, RunSummary, WaitEvent, WaitsFor};
use neuron_types::stored_json;
use serde::Deserialize;

use crate::RunOutcome;
use crate::register::{ENDED, Ended, VERSION, WAIT, Waiting};

/// Restate's codes of failures of the connection.
const NOT_REACHED: [&str; 2] = ["RT0001", "RT0010"];

/// An invocation.
#[derive(Debug, Deserialize)]
pub(super) struct Row {
    pub(super) id: String,
    status: String,
    completion_result: Option<String>,
    completion_failure: Option<String>,
    last_failure: Option<String>,
    last_failure_error_code: Option<String>,
    invoked_by_id: Option<String>,
    created_at: DateTime<Utc>,
    modified_at: DateTime<Utc>,
}

/// The entry of a run in the register.
#[derive(Debug, Default)]
pub(super) struct Entry {
    waiting: Option<Waiting>,
    agent_version: Option<String>,
    ended: Option<Ended>,
}

impl Entry {
    /// Reads a value of the state. A value that a newer release wrote may be unreadable.
    pub(super) fn read(&mut self, key: &str, json: &str) {
        let json = json.as_bytes();
        match key {
            WAIT => self.waiting = stored_json::read(json).ok(),
            VERSION => self.agent_version = stored_json::read(json).ok(),
            ENDED => self.ended = stored_json::read(json).ok(),
            _ => {}
        }
    }
}

/// A run with its first invocation, the newest one and its entry in the register.
#[derive(Debug)]
pub(super) struct Run {
    first: Row,
    newest: Option<Row>,
    /// Number of invocations after the first.
    continued: usize,
    entry: Entry,
}

impl Run {
    /// Finds for each first invocation those that went on with the run, the oldest first.
    pub(super) fn all(
        roots: Vec<Row>,
        next: Vec<Row>,
        mut entry: impl FnMut(&Row) -> Entry,
    ) -> Vec<Self> {
        let mut index: HashMap<String, usize> =
            roots.iter().enumerate().map(|(index, row)| (row.id.clone(), index)).collect();
        let run = |first: Row| {
            let entry = entry(&first);
            Self { first, newest: None, continued: 0, entry }
        };
        let mut runs: Vec<Self> = roots.into_iter().map(run).collect();
        for row in next {
            let before = row.invoked_by_id.as_ref().and_then(|id| index.get(id)).copied();
            if let Some((run, before)) = before.and_then(|at| Some((runs.get_mut(at)?, at))) {
                index.insert(row.id.clone(), before);
                run.newest = Some(row);
                run.continued += 1;
            }
        }
        runs
    }

    pub(super) fn id(&self) -> &str {
        &self.first.id
    }

    pub(super) fn created_at(&self) -> DateTime<Utc> {
        self.first.created_at
    }

    pub(super) fn has_ended(&self) -> bool {
        self.first.status == "completed"
    }

    fn has_failed(&self) -> bool {
        self.first.completion_result.as_deref() == Some("failure")
    }

    /// Returns a text with the end of a run that has ended. The outcome is used if the register does not have the end yet.
    pub(super) fn end(&self, outcome: Option<&RunOutcome>) -> String {
        let at = self.first.modified_at;
        match (&self.first.completion_failure, &self.entry.ended) {
            (Some(failure), _) => format!("it ended with {failure} at {}", at.to_rfc3339()),
            (None, Some(ended)) => ended.text(),
            (None, None) => Ended::new(at, outcome).text(),
        }
    }

    /// Returns `true` if there is an outcome to read. For a list, the register suffices for a run with a result.
    pub(super) fn has_outcome(&self, needs_outcome: bool) -> bool {
        let is_result = self.entry.ended.as_ref().is_some_and(|ended| ended.error.is_none());
        self.has_ended() && !self.has_failed() && (needs_outcome || !is_result)
    }

    pub(super) fn summary(self, outcome: Option<RunOutcome>) -> RunSummary {
        let mut summary = RunSummary::new(self.id(), RunStatus::Running);
        let newest = self.newest.as_ref().unwrap_or(&self.first);
        summary.created_at = Some(self.created_at());
        summary.changed_at = Some(newest.modified_at.max(self.first.modified_at));
        summary.execution = Some(self.continued);
        if self.has_ended() {
            self.end_of(&mut summary, outcome);
        } else if let Some(row) = [newest, &self.first].into_iter().find(|row| row.stands_still()) {
            summary.status = RunStatus::Stalled;
            summary.reason = row.failure();
        } else if let Some(waiting) = self.entry.waiting.filter(|waiting| !waiting.is_over()) {
            summary.status = RunStatus::Waiting;
            summary.waits_for = Some(waits_for(waiting));
        } else if newest.status == "backing-off" {
            summary.reason = newest.failure();
        }
        summary.agent_version = self.entry.agent_version;
        summary
    }

    fn end_of(&self, summary: &mut RunSummary, outcome: Option<RunOutcome>) {
        if let Some(failure) = &self.first.completion_failure {
            let is_cancelled = failure.starts_with("[409");
            summary.status = if is_cancelled { RunStatus::Cancelled } else { RunStatus::Failed };
            summary.reason = Some(failure.clone());
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
        let Some(outcome) = outcome else { return };
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
    /// Returns `true` if Restate retries the invocation because of the agent's own failure, or has paused it.
    fn stands_still(&self) -> bool {
        match self.status.as_str() {
            "paused" => true,
            "backing-off" => {
                let code = self.last_failure_error_code.as_deref().unwrap_or_default();
                self.last_failure.is_some() && !NOT_REACHED.contains(&code)
            }
            _ => false,
        }
    }

    /// Returns the last failure. The server repeats it in further lines.
    fn failure(&self) -> Option<String> {
        let failure = self.last_failure.as_deref()?;
        Some(failure.lines().next().unwrap_or(failure).to_owned())
    }
}

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
