//! The waits of a run for the query `neuron_waits_for` ([`Waits`]).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use neuron_runtime::{WaitEvent, WaitsFor};
use neuron_types::PendingApproval;
use serde::{Deserialize, Serialize};

/// The most bytes of a summary. The server takes 400.
const LONGEST_SUMMARY: usize = 200;

/// The summary of the timer of a wait for decisions. Without a worker, it alone tells what the timer ends. `None` if the
/// signal's name is too long.
pub(crate) fn summary(signal: &str) -> Option<String> {
    let summary = format!("decisions by the signal {signal:?}");
    Some(summary).filter(|summary| summary.len() <= LONGEST_SUMMARY)
}

/// The waits of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waits {
    /// The wait that goes on.
    pub(crate) now: Option<Wait>,
    /// The signals whose last wait for decisions ended without them, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ended: BTreeMap<String, DateTime<Utc>>,
}

/// A wait of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// Time at which the wait began.
    pub(crate) since: DateTime<Utc>,
    /// Time at which the wait ends. `None` if it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// Name of the signal that ends the wait. `None` if the deadline alone does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// The calls to decide on, without the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<PendingApproval>,
}

impl From<Wait> for WaitsFor {
    fn from(wait: Wait) -> Self {
        let event = match (wait.signal, wait.pending) {
            (signal, Some(pending)) => {
                WaitEvent::Approval { signal, pending: Some(Box::new(pending)) }
            }
            (Some(name), None) => WaitEvent::Signal { name },
            (None, None) => WaitEvent::Time,
        };
        let mut waits_for = Self::new(event);
        waits_for.since = Some(wait.since);
        waits_for.deadline = wait.deadline;
        waits_for
    }
}
