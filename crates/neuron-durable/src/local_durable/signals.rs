//! Signals to a local durable context ([`LocalSignals`]).

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron_types::DurableError;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Sends signals to a [`LocalDurableContext`](super::LocalDurableContext). Get it with the context's method
/// [`signals`](super::LocalDurableContext::signals). Clones send to the same context.
///
/// Each signal is stored until it is received. Signals with the same name are received in the order in which they were
/// sent.
#[derive(Clone, Default)]
pub struct LocalSignals(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Signals that were not received yet, by name, oldest first.
    waiting: Mutex<HashMap<String, VecDeque<Value>>>,
    /// Wakes all waiting receivers when a signal is sent.
    sent: Notify,
}

impl LocalSignals {
    /// Sends a signal with this name. The signal is stored until the context receives it.
    ///
    /// # Errors
    ///
    /// Returns an error if `signal` cannot be serialised as JSON.
    pub fn send(
        &self,
        name: impl Into<String>,
        signal: impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let signal = serde_json::to_value(signal)?;
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(name.into()).or_default().push_back(signal);
        drop(waiting);
        self.0.sent.notify_waiters();
        Ok(())
    }

    /// Waits for the oldest signal of a name. Returns `None` at the timeout.
    ///
    /// # Errors
    ///
    /// Returns an error if no signal is stored and there is no tokio runtime. The timeout requires tokio's clock.
    pub(super) async fn receive(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<Value>, DurableError> {
        if let Some(signal) = self.take(name) {
            return Ok(Some(signal));
        }
        if Handle::try_current().is_err() {
            let text = "waiting for a signal needs a tokio runtime, by whose clock the wait ends";
            return Err(DurableError::Other(text.into()));
        }
        Ok(tokio::time::timeout(timeout, self.next(name)).await.ok())
    }

    /// Waits without a timeout for the oldest signal of a name, and removes it.
    async fn next(&self, name: &str) -> Value {
        loop {
            // Registered before the check, so that a signal between the check and the wait is not missed.
            let sent = self.0.sent.notified();
            if let Some(signal) = self.take(name) {
                return signal;
            }
            sent.await;
        }
    }

    /// Removes the oldest signal of a name. Returns `None` if there is no signal.
    fn take(&self, name: &str) -> Option<Value> {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let signals = waiting.get_mut(name)?;
        let signal = signals.pop_front();
        if signals.is_empty() {
            waiting.remove(name);
        }
        signal
    }
}

impl fmt::Debug for LocalSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count: usize = waiting.values().map(VecDeque::len).sum();
        f.debug_struct("LocalSignals").field("waiting", &count).finish_non_exhaustive()
    }
}
