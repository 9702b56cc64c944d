//! Running what blocks where it holds up nobody.

use std::panic;

use tokio::runtime::Handle;

/// Runs something that blocks on a thread that the runtime has for it, or on this one where there is no
/// runtime. It runs to its end also if the future is dropped. Returns nothing if the runtime shut down
/// before it began.
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
