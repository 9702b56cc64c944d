//! The clock of an invocation, which has the same time on replay ([`Clock`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use chrono::{DateTime, Utc};

/// The time of the latest record, in milliseconds since 1970. Clones share the time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Moves the clock forward to a time. Ignores an earlier time.
    pub(crate) fn note(&self, millis: i64) {
        self.0.fetch_max(millis, SeqCst);
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(SeqCst)).unwrap_or_default()
    }
}
