//! Runs blocking work outside of the executor ([`blocking`]).

use std::io;
use std::sync::{Arc, Weak};

use neuron_types::StorageError;
use tokio::runtime::Handle;

/// Lets blocking work detect that the future of its caller was dropped. The future owns the value behind the weak
/// reference.
pub(super) struct Caller(Weak<()>);

impl Caller {
    /// Returns an error if the caller's future was dropped. The work must then change nothing. Otherwise it could
    /// happen after work that the same caller started later.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let text = "nobody waits for this write any more";
        match self.0.strong_count() {
            0 => Err(StorageError::Io(io::Error::new(io::ErrorKind::Interrupted, text))),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(super) fn gone() -> Self {
        Self(Weak::new())
    }
}

/// Runs `work` on a blocking thread of the tokio runtime. Runs it on the calling thread if there is no runtime.
///
/// # Cancel safety
///
/// If the future is dropped, `work` continues until it calls [`Caller::check`], which returns an error.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Caller) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let waiting = Arc::new(());
    let caller = Caller(Arc::downgrade(&waiting));
    let Ok(runtime) = Handle::try_current() else {
        return work(&caller);
    };
    let done = runtime.spawn_blocking(move || work(&caller)).await;
    drop(waiting);
    // The work is cancelled if the runtime shuts down before it starts, and fails if it panics.
    done.unwrap_or_else(|error| Err(StorageError::Other(error.into())))
}
