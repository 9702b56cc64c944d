//! Runs blocking work outside of the executor.

use std::panic;

use tokio::runtime::Handle;

/// Runs blocking work on a blocking thread of the tokio runtime, or on the calling thread if there is no runtime.
/// Returns `None` if the runtime shut down before the work began. If the future is dropped, the work still runs to its
/// end.
pub(crate) async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let Ok(runtime) = Handle::try_current() else {
        return Some(work());
    };
    match runtime.spawn_blocking(work).await {
        Ok(result) => Some(result),
        Err(error) => match error.try_into_panic() {
            Ok(payload) => panic::resume_unwind(payload),
            Err(_stopped) => None,
        },
    }
}
