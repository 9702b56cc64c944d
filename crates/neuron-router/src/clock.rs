//! The clock of pauses and latencies.

use std::time::Duration;

#[cfg(not(target_family = "wasm"))]
pub(crate) use tokio::time::Instant;
#[cfg(target_family = "wasm")]
pub(crate) use web_time::Instant;

/// Maximum delay, about 30 years. It replaces longer delays, because the clock cannot represent their end.
const MAX_DELAY: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Returns the time that is `delay` after `now`.
pub(crate) fn later(now: Instant, delay: Duration) -> Instant {
    now + delay.min(MAX_DELAY)
}
