//! The delays between the attempts of a call.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The delays before the retries of a call.
///
/// If the provider requests a delay, exactly this delay is used. Otherwise the delay starts at `base` and doubles with
/// each retry, up to `max`. The jitter shortens it by up to a quarter, which spreads the retries of callers that failed
/// at the same time.
///
/// The default values are those of the vendors' own libraries:
/// <https://github.com/openai/openai-python/blob/main/src/openai/_constants.py>.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_model::Backoff;
///
/// let backoff = Backoff { jitter: false, ..Backoff::default() };
/// assert_eq!(backoff.delay(0, None), Some(Duration::from_millis(500)));
/// assert_eq!(backoff.delay(9, None), Some(Duration::from_secs(8)));
/// assert_eq!(backoff.delay(0, Some(Duration::from_secs(3))), Some(Duration::from_secs(3)));
/// assert_eq!(backoff.delay(0, Some(Duration::from_secs(3_600))), None, "give up");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first retry. Default: 0.5 s.
    pub base: Duration,
    /// Maximum delay before a retry, if the provider requests no delay. Default: 8 s.
    pub max: Duration,
    /// Maximum delay that a provider may request. If it requests a longer delay, the call is not retried. Default: 60 s.
    pub max_requested: Duration,
    /// Shortens each delay that the provider did not request by a random part, up to a quarter. Default: `true`.
    pub jitter: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            max: Duration::from_secs(8),
            max_requested: Duration::from_secs(60),
            jitter: true,
        }
    }
}

impl Backoff {
    /// Returns the delay before the next attempt. Returns `None` if the call must not be retried, because the requested
    /// delay is too long.
    ///
    /// `retries` is the number of retries of the call so far. `requested` is the delay that the provider requests. A
    /// request of zero is ignored, because many callers would retry at the same time.
    #[must_use]
    pub fn delay(&self, retries: usize, requested: Option<Duration>) -> Option<Duration> {
        if let Some(requested) = requested.filter(|delay| !delay.is_zero()) {
            // FAULT a provider that asks for three seconds is not asked again: `self.max_requested` ->
            //     `self.max_requested / 1_000`
            return (requested <= self.max_requested).then_some(requested);
        }
        let factor = u32::try_from(retries).ok().and_then(|retries| 1_u32.checked_shl(retries));
        let factor = factor.unwrap_or(u32::MAX);
        let delay = self.base.saturating_mul(factor).min(self.max);
        // `RandomState` hashes with random keys, which is random enough for jitter.
        let random = || RandomState::new().hash_one(retries);
        Some(if self.jitter { shortened(delay, random()) } else { delay })
    }
}

/// Shortens a delay by up to a quarter. `random` must be uniformly distributed over all values of `u64`.
fn shortened(delay: Duration, random: u64) -> Duration {
    // An `f64` has 53 bits of precision. This gives a number from 0 to less than 1.
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    // For a delay near the maximum `Duration`, the rounded product may exceed the maximum.
    let part = Duration::try_from_secs_f64(delay.as_secs_f64() * 0.25 * fraction);
    delay.saturating_sub(part.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn delay_doubles_up_to_its_maximum() {
        let backoff = Backoff { jitter: false, ..Backoff::default() };
        let delays: Vec<Duration> = (0..7).filter_map(|it| backoff.delay(it, None)).collect();
        assert_eq!(delays, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map(millis));
    }

    #[test]
    fn huge_counts_and_durations_do_not_exceed_the_maximum() {
        for (base, max) in [
            (millis(1), Duration::MAX),
            (Duration::MAX, Duration::MAX),
            (Duration::ZERO, Duration::MAX),
            (Duration::MAX, Duration::ZERO),
        ] {
            for retries in [0, 1, 31, 32, 33, usize::MAX] {
                let backoff = Backoff { base, max, ..Backoff::default() };
                assert!(backoff.delay(retries, None).unwrap() <= max);
            }
        }
    }

    #[test]
    fn jitter_takes_at_most_a_quarter() {
        let bound = Duration::from_secs(8);
        assert_eq!(shortened(bound, 0), bound);
        assert_eq!(shortened(bound, u64::MAX / 2 + 1), Duration::from_secs(7));
        assert!(shortened(bound, u64::MAX) >= Duration::from_secs(6));
        assert!(shortened(bound, u64::MAX) < millis(6_001));
        let delays: Vec<_> = (0..64).map(|_| Backoff::default().delay(0, None)).collect();
        assert!(delays.windows(2).any(|pair| pair[0] != pair[1]), "64 equal random numbers");
    }

    #[test]
    fn requested_delay_is_obeyed_exactly_or_not_retried() {
        let backoff = Backoff { max_requested: millis(2_000), jitter: false, ..Backoff::default() };
        let delay = |requested| backoff.delay(0, Some(requested));
        assert_eq!(delay(millis(1)), Some(millis(1)));
        assert_eq!(delay(millis(2_000)), Some(millis(2_000)));
        assert_eq!(delay(millis(2_001)), None);
        assert_eq!(delay(Duration::MAX), None);
        assert_eq!(delay(Duration::ZERO), Some(millis(500)));
    }
}
