//! Signals for a run that waits, [`LocalSignals`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron_types::DurableError;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// A sender of signals to a [`LocalDurableContext`](super::LocalDurableContext), from its method
/// [`signals`](super::LocalDurableContext::signals). Clones send to the same context.
///
/// Signals wait, in order, until they are received.
#[derive(Clone, Default)]
pub struct LocalSignals(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Signals that were not received yet, oldest first, by name.
    waiting: Mutex<HashMap<String, VecDeque<Value>>>,
    sent: Notify,
}

impl LocalSignals {
    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// When it cannot be written as JSON.
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

    /// Waits for the oldest signal of a name. `None` if there is none in time.
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

    async fn next(&self, name: &str) -> Value {
        loop {
            // From here on a signal is noticed, also one that comes before the wait.
            let sent = self.0.sent.notified();
            if let Some(signal) = self.take(name) {
                return signal;
            }
            sent.await;
        }
    }

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
