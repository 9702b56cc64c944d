//! Waiting by the clock, where there is one.

use std::future::Future;
use std::time::Duration;

/// Waits, if there is a clock to wait by.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn wait(duration: Duration) -> impl Future<Output = ()> {
    async move {
        if !duration.is_zero() && tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(target_family = "wasm")]
pub(crate) fn wait(_duration: Duration) -> impl Future<Output = ()> {
    std::future::ready(())
}
