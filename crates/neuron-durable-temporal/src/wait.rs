//! The waits of a run, as the query `neuron_waits_for` returns them ([`Waits`]).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use neuron_durable::{WaitEvent, WaitsFor};
use neuron_types::PendingApproval;
use serde::{Deserialize, Serialize};

/// Maximum length of a timer's summary in bytes. The server accepts up to 400 bytes.
const LONGEST_SUMMARY: usize = 200;

/// Returns the summary of the timer that limits a wait for decisions. Returns `None` if the name of the signal is too
/// long for it.
///
/// `TemporalRuns::missed` finds the timer in the history by this text.
pub(crate) fn summary(signal: &str) -> Option<String> {
    let summary = format!("decisions by the signal {signal:?}");
    Some(summary).filter(|summary| summary.len() <= LONGEST_SUMMARY)
}

/// The current wait of a run, and the waits for decisions that ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waits {
    /// The current wait. `None` if the run does not wait.
    pub(crate) now: Option<Wait>,
    /// Times at which waits for decisions ended without decisions, by the name of the signal. A later wait for the same
    /// signal removes the entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ended: BTreeMap<String, DateTime<Utc>>,
}

/// A wait of a run for a signal, for decisions or for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// Start of the wait.
    pub(crate) since: DateTime<Utc>,
    /// End of the wait. `None` if the wait has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<DateTime<Utc>>,
    /// Name of the signal that ends the wait. `None` if only the deadline ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// The pending calls without the conversation, if the wait is for decisions.
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
