//! A policy for tower's `retry` layer.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Sleep;
use tower::retry::Policy;

use crate::RetryableError;

#[cfg(test)]
mod tests;

/// A policy for tower's `retry` layer, which retries a call after a transient error.
///
/// If an error [is retryable](RetryableError::is_retryable), the call is retried after a delay:
///
/// - If the provider requests a delay ([`retry_after`](RetryableError::retry_after)), exactly this delay is used. If
///   the requested delay is longer than [`max_retry_after`](Self::max_retry_after), the error is returned immediately.
/// - Otherwise the delay is random, between zero and a bound. The bound starts at [`base_delay`](Self::base_delay) and
///   doubles with each retry, up to [`max_delay`](Self::max_delay). The jitter spreads the retries of callers that
///   failed at the same time.
///
/// The defaults are 2 retries, a base delay of 0.5 s, a maximum delay of 8 s, and a maximum requested delay of 60 s.
/// The vendors' own libraries have the same defaults.
///
/// Retries are counted separately for each call. A streamed call is retried only until its stream starts. Later errors
/// are events of the stream, because the reader has already received deltas.
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
    /// Maximum number of retries of a call.
    max_retries: u32,
    /// Upper bound of the random delay before the first retry. The bound doubles with each further retry.
    base_delay: Duration,
    /// Maximum delay before a retry, if the provider requests no delay.
    max_delay: Duration,
    /// Maximum delay that a provider may request. If it requests a longer delay, the call is not retried.
    max_retry_after: Duration,
    /// `true` if each delay is random between zero and its upper bound. `false` if each delay equals the bound.
    jitter: bool,
    /// Number of retries of the current call so far. tower clones the policy for each call.
    retries: u32,
}

impl RetryTransient {
    /// Creates a policy with the default values.
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

    /// Sets the bound of the delay before the first retry. The bound doubles with each retry. Default: 0.5 s.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.base_delay = delay;
        self
    }

    /// Sets the maximum delay before a retry, for errors that request no delay. Default: 8 s.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets the maximum delay that a provider may request. If the provider requests a longer delay, the call is not
    /// retried. Default: 60 s.
    #[must_use]
    pub fn max_retry_after(mut self, delay: Duration) -> Self {
        self.max_retry_after = delay;
        self
    }

    /// Disables the jitter, so that each delay is equal to its bound. Use this for tests, or if there is only one
    /// caller.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// Returns the delay before the next attempt. Returns `None` if the call must not be retried after this error.
    fn delay(&self, error: &impl RetryableError) -> Option<Duration> {
        if self.retries >= self.max_retries || !error.is_retryable() {
            return None;
        }
        match error.retry_after() {
            // Ignore a requested delay of zero, because many callers would retry at the same time.
            None | Some(Duration::ZERO) => Some(self.backoff()),
            Some(delay) => (delay <= self.max_retry_after).then_some(delay),
        }
    }

    /// Returns the delay before the next attempt if the provider requests no delay.
    fn backoff(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.retries).unwrap_or(u32::MAX);
        let bound = self.base_delay.saturating_mul(factor).min(self.max_delay);
        match self.jitter {
            // `RandomState` hashes with random keys, which is random enough for jitter.
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

/// Returns a duration from zero up to `bound`, selected by `random`. `random` must be uniformly distributed over all
/// values of `u64`.
fn fraction_of(bound: Duration, random: u64) -> Duration {
    // An `f64` has 53 bits of precision. This gives a number from 0 to less than 1.
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    // For a bound near the maximum `Duration`, the rounded product may exceed the maximum.
    Duration::try_from_secs_f64(bound.as_secs_f64() * fraction).unwrap_or(bound)
}
