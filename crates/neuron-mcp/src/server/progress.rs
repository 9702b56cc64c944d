//! Progress reports of a call.

use std::sync::{Mutex, PoisonError};

use rmcp::model::ProgressToken;

use super::outbox::Outbox;
use crate::wire;

/// The progress of one call, as reported to the client.
pub(crate) struct Progress {
    token: ProgressToken,
    /// The last reported value. The protocol requires increasing values.
    last: Mutex<f64>,
}

impl Progress {
    pub(crate) fn new(token: ProgressToken) -> Self {
        Self { token, last: Mutex::new(f64::NEG_INFINITY) }
    }

    /// Reports progress, unless the value has not increased.
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
        // Pushed under the lock, so that concurrent reports stay in order.
        outbox.push(wire::progress::notification(self.token.clone(), progress, total, message));
    }
}
