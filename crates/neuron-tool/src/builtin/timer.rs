//! The clock of time limits, rates and caches. It is tokio's, and that of JavaScript on wasm32.

#[cfg(not(target_family = "wasm"))]
pub(super) use tokio::time::Instant;
#[cfg(target_family = "wasm")]
pub(super) use web_time::Instant;

/// Returns `true` if timers run here. They need a tokio runtime, or JavaScript on wasm32.
pub(super) fn is_running() -> bool {
    #[cfg(target_family = "wasm")]
    let is_running = cfg!(target_os = "unknown");
    #[cfg(not(target_family = "wasm"))]
    let is_running = tokio::runtime::Handle::try_current().is_ok();
    is_running
}
