//! The retry policy.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Sleep;
use tower::retry::Policy;

use crate::RetryableError;

#[cfg(test)]
mod tests;

/// A policy for tower's `retry` that retries calls with temporary errors.
///
/// An error that [is retryable](RetryableError::is_retryable) is retried after a delay:
///
/// - The delay is exactly the time that the provider requests ([`retry_after`](RetryableError::retry_after)). If that
///   is longer than [`max_retry_after`](Self::max_retry_after), the error is returned at once.
/// - Without such a request the delay is random, between zero and a bound that doubles with each retry, from
///   [`base_delay`](Self::base_delay) to [`max_delay`](Self::max_delay). The jitter spreads callers that failed at the
///   same time.
///
/// The defaults are those of the vendors' own libraries, which are 2 retries, 0.5 s, 8 s, and 60 s.
///
/// Retries are counted per call. Of a stream, only the beginning is retried. Later errors are events of the stream,
/// because shown output cannot be taken back.
///
/// # Example
///
/// ```
/// # use std::time::Duration;
/// use neuron_tower::{ProviderService, RetryTransient, ServiceProvider};
/// use tower::ServiceBuilder;
///
/// # let provider = neuron_testing::ScriptedProvider::default();
/// let policy = RetryTransient::new().max_retries(5).max_delay(Duration::from_secs(30));
/// let service = ServiceBuilder::new().retry(policy).service(ProviderService::new(provider));
/// let provider = ServiceProvider::new(service);
/// ```
#[derive(Debug, Clone)]
pub struct RetryTransient {
    max_retries: u32,
    base_delay: Duration,
    max_delay: Duration,
    max_retry_after: Duration,
    jitter: bool,
    /// The number of retries of this call. tower clones the policy for each call.
    retries: u32,
}

impl RetryTransient {
    /// Creates a policy with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_retries: 2,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            max_retry_after: Duration::from_secs(60),
            jitter: true,
            retries: 0,
        }
    }

    /// Sets the maximum number of retries of a call, in addition to the first attempt. Default: 2.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the bound of the first delay. Default: 0.5 s.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = delay;
        self
    }

    /// Sets the maximum of the doubled bound. Default: 8 s.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets the maximum delay that a provider may request. A call with a longer delay is not retried. Default: 60 s.
    #[must_use]
    pub fn max_retry_after(mut self, delay: Duration) -> Self {
        self.max_retry_after = delay;
        self
    }

    /// Disables the jitter, so that each delay is exactly the doubled bound. For tests, and for a single caller.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Returns the delay before the next attempt. `None` if the call is not retried.
    fn delay(&self, error: &impl RetryableError) -> Option<Duration> {
        if self.retries >= self.max_retries || !error.is_retryable() {
            return None;
        }
        match error.retry_after() {
            // A requested delay of zero is ignored, because many callers would return at the same time.
            None | Some(Duration::ZERO) => Some(self.backoff()),
            Some(delay) => (delay <= self.max_retry_after).then_some(delay),
        }
    }

    fn backoff(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.retries).unwrap_or(u32::MAX);
        let bound = self.base_delay.saturating_mul(factor).min(self.max_delay);
        match self.jitter {
            true => fraction_of(bound, RandomState::new().hash_one(self.retries)),
            false => bound,
        }
    }
}

impl Default for RetryTransient {
    fn default() -> Self {
        Self::new()
    }
}

impl<Q, R, E> Policy<Q, R, E> for RetryTransient
where
    Q: Clone,
    E: RetryableError,
{
    type Future = Sleep;

    fn retry(&mut self, _: &mut Q, result: &mut Result<R, E>) -> Option<Sleep> {
        let error = result.as_ref().err()?;
        let delay = self.delay(error)?;
        self.retries += 1;
        tracing::debug!(%error, ?delay, retry = self.retries, "a call is retried");
        Some(tokio::time::sleep(delay))
    }

    fn clone_request(&mut self, request: &Q) -> Option<Q> {
        Some(request.clone())
    }
}

/// Returns a random fraction of a duration. `random` is uniform over all `u64`.
fn fraction_of(bound: Duration, random: u64) -> Duration {
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    // Rounding may exceed the maximum duration, if the bound is that large.
    Duration::try_from_secs_f64(bound.as_secs_f64() * fraction).unwrap_or(bound)
}
