//! Work that blocks, away from the executor.

use std::io;
use std::sync::{Arc, Weak};

use neuron_types::StorageError;
use tokio::runtime::Handle;

/// The caller that waits for the work.
pub(super) struct Caller(Weak<()>);

impl Caller {
    /// Returns an error if the caller is gone. Then nothing may change, because the work may come after later
    /// work of the same caller.
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

/// Does work on a thread for blocking work if there is a tokio runtime, else here and now.
///
/// # Cancel safety
///
/// Dropped, it leaves the work to notice that nobody waits.
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
    // It fails when the runtime shuts down.
    done.unwrap_or_else(|error| Err(StorageError::Other(error.into())))
}
