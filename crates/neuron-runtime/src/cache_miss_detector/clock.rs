//! The clock that measures the time between two model calls.

#[cfg(not(target_family = "wasm"))]
pub(super) use tokio::time::Instant;
#[cfg(target_family = "wasm")]
pub(super) use web_time::Instant;
