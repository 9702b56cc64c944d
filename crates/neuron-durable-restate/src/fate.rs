//! Records the reason for which an invocation must end, for example a cancellation ([`Fate`]).

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use neuron_types::DurableError;

/// Records the reason for which an invocation must end. The agent's code may ignore or convert the error of a step, and
/// the invocation then still ends for this reason. Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Set if the invocation was cancelled. Restate reports a cancellation only once.
    cancelled: Arc<AtomicBool>,
    /// The first difference between the run and its journal.
    differs: Arc<OnceLock<DurableError>>,
    /// Text of the error of Restate or this crate that ended the run of an agent inside a tool call.
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

    /// Returns the recorded difference between the run and its journal as an error, if there is one.
    pub(crate) fn check(&self) -> Result<(), DurableError> {
        self.differs.get().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Records the error of the engine that ended the run of an agent inside a tool call.
    pub(crate) fn fail(&self, error: &DurableError) {
        let _ = self.failed.set(error.to_string());
    }

    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Returns the difference between the run and its journal as text. Returns `None` if no difference was recorded.
    pub(crate) fn differs(&self) -> Option<String> {
        self.differs.get().map(ToString::to_string)
    }
}
