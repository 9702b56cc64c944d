//! How far a call has come, for the client that asked to be told.

use std::sync::{Mutex, PoisonError};

use rmcp::model::ProgressToken;

use super::outbox::Outbox;
use crate::wire;

/// What the client was told of one call.
pub(crate) struct Progress {
    token: ProgressToken,
    /// What was told last: the protocol wants it to grow.
    last: Mutex<f64>,
}

impl Progress {
    pub(crate) fn new(token: ProgressToken) -> Self {
        Self { token, last: Mutex::new(f64::NEG_INFINITY) }
    }

    /// Tells the client, unless it was told as much already.
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
        // Still locked: threads that report at the same time keep their order.
        outbox.push(wire::progress::notification(self.token.clone(), progress, total, message));
    }
}
