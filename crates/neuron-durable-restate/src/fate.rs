//! [`Fate`]: the end of an invocation.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use neuron_types::DurableError;

/// What becomes of an invocation, whatever the agent makes of the errors that it saw. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Restate tells of a cancellation once.
    cancelled: Arc<AtomicBool>,
    differs: Arc<OnceLock<DurableError>>,
    /// What of the engine ended the run of an agent inside a tool call.
    failed: Arc<OnceLock<String>>,
}

impl Fate {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }

    /// Notes that the run is not the one that the journal holds.
    pub(crate) fn differ(&self, error: &DurableError) {
        let _ = self.differs.set(error.again());
    }

    /// Checks that the run is the one that the journal holds.
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

    /// Where the run is not the one that the journal holds.
    pub(crate) fn differs(&self) -> Option<String> {
        self.differs.get().map(ToString::to_string)
    }
}
