//! [`Progress`], which sends the progress reports of a call and drops reports whose value does not increase.

use std::sync::{Mutex, PoisonError};

use rmcp::model::ProgressToken;

use super::outbox::Outbox;
use crate::wire;

/// Sends the progress reports of one call, with values that increase as the protocol requires.
pub(crate) struct Progress {
    /// The client's progress token, by which the client recognises the request that a report belongs to.
    token: ProgressToken,
    /// The last reported value, initially negative infinity.
    last: Mutex<f64>,
}

impl Progress {
    /// Creates the state for a call that has reported no progress. `token` is the client's progress token.
    pub(crate) fn new(token: ProgressToken) -> Self {
        Self { token, last: Mutex::new(f64::NEG_INFINITY) }
    }

    /// Queues a progress report. Drops the report if `progress` is not finite or is not greater than the last value.
    pub(crate) fn report(
        &self,
        outbox: &Outbox,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.is_finite() || progress <= *last {
            return;
        }
        *last = progress;
        // Queued while the lock is held, so that concurrent reports are sent in increasing order.
        outbox.push(wire::progress::notification(self.token.clone(), progress, total, message));
    }
}
