//! When a call is retried, and after how long.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Sleep;
use tower::retry::Policy;

use crate::RetryableError;

#[cfg(test)]
mod tests;

/// Retries calls that failed with an error that may pass: a policy for tower's `retry`.
///
/// An error that [is retryable](RetryableError::is_retryable) is retried
///
/// - after exactly the time that the provider asks for
///   ([`retry_after`](RetryableError::retry_after)), unless that is longer than
///   [`max_retry_after`](Self::max_retry_after): then the error is returned at once;
/// - else after a random time between nothing and a bound that doubles with each retry, from
///   [`base_delay`](Self::base_delay) to [`max_delay`](Self::max_delay), so that many callers who
///   failed together do not come back together.
///
/// The defaults are those of the vendors' own libraries: 2 retries, 0.5 s, 8 s, and 60 s.
///
/// Counts are per call. Of a stream, only the beginning is retried: once it has begun, an error is
/// an event in it, and what was shown cannot be taken back.
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
    /// How often this call has been retried. tower clones the policy for each call.
    retries: u32,
}

impl RetryTransient {
    /// Makes a policy with the defaults.
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

    /// Sets how often one call is retried: 2 unless set. The attempts are one more.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the bound of the first wait: 0.5 s unless set.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = delay;
        self
    }

    /// Sets what the doubled bound does not exceed: 8 s unless set.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets the longest wait that a provider may ask for: 60 s unless set. A call that would have
    /// to wait longer is not retried.
    #[must_use]
    pub fn max_retry_after(mut self, delay: Duration) -> Self {
        self.max_retry_after = delay;
        self
    }

    /// Waits exactly the doubled bound instead of a random part of it: for tests, and for callers
    /// that are alone.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Returns how long to wait before the next attempt, or `None` for none.
    fn delay(&self, error: &impl RetryableError) -> Option<Duration> {
        if self.retries >= self.max_retries || !error.is_retryable() {
            return None;
        }
        match error.retry_after() {
            // "Now" is no hint: many callers would come back together.
            None | Some(Duration::ZERO) => Some(self.backoff()),
            Some(delay) => (delay <= self.max_retry_after).then_some(delay),
        }
    }

    fn backoff(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.retries).unwrap_or(u32::MAX);
        let bound = self.base_delay.saturating_mul(factor).min(self.max_delay);
        match self.jitter {
            true => part_of(bound, RandomState::new().hash_one(self.retries)),
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

/// A part of a duration, as large as a random number among all numbers.
fn part_of(bound: Duration, random: u64) -> Duration {
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    // Rounding can only exceed what fits where the bound is that large.
    Duration::try_from_secs_f64(bound.as_secs_f64() * fraction).unwrap_or(bound)
}
