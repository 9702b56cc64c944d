//! The end of an invocation ([`Fate`]).

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use neuron_types::DurableError;

/// The end of an invocation, independent of the agent's reaction to the errors that it received. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Restate tells of a cancellation once.
    cancelled: Arc<AtomicBool>,
    differs: Arc<OnceLock<DurableError>>,
    /// The failure of the engine that ended the run of an agent inside a tool call.
    failed: Arc<OnceLock<String>>,
}

impl Fate {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }

    /// Records that the run differs from the journal.
    pub(crate) fn differ(&self, error: &DurableError) {
        let _ = self.differs.set(error.again());
    }

    /// Checks that the run does not differ from the journal.
    pub(crate) fn check(&self) -> Result<(), DurableError> {
        self.differs.get().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Notes what of the engine ended the run of an agent inside a tool call.
    pub(crate) fn fail(&self, error: &DurableError) {
        let _ = self.failed.set(error.to_string());
    }

    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Returns the difference between the run and the journal.
    pub(crate) fn differs(&self) -> Option<String> {
        self.differs.get().map(ToString::to_string)
    }
}
