//! A policy for tower's `retry` layer.

use std::time::Duration;

use neuron_model::Backoff;
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
/// - Otherwise the delay starts at [`base_delay`](Self::base_delay) and doubles with each retry, up to
///   [`max_delay`](Self::max_delay). The jitter shortens it by up to a quarter, which spreads the retries of callers
///   that failed at the same time.
///
/// The defaults are 2 retries and the delays of [`Backoff`], which are those of the agent loop and of the vendors' own
/// libraries: 0.5 s to 8 s, and at most 60 s if the provider requests a delay.
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
    backoff: Backoff,
    /// Number of retries of the current call so far. tower clones the policy for each call.
    retries: u32,
}

impl RetryTransient {
    /// Creates a policy with the default values.
    #[must_use]
    pub fn new() -> Self {
        Self { max_retries: 2, backoff: Backoff::default(), retries: 0 }
    }

    /// Sets the maximum number of retries of a call, in addition to the first attempt. Default: 2.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets the delay before the first retry, which doubles with each retry. Default: 0.5 s.
    #[must_use]
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.backoff.base = delay;
        self
    }

    /// Sets the maximum delay before a retry, for errors that request no delay. Default: 8 s.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.backoff.max = delay;
        self
    }

    /// Sets the maximum delay that a provider may request. If the provider requests a longer delay, the call is not
    /// retried. Default: 60 s.
    #[must_use]
    pub fn max_retry_after(mut self, delay: Duration) -> Self {
        self.backoff.max_requested = delay;
        self
    }

    /// Disables the jitter. Use this for tests, or if there is only one caller.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.backoff.jitter = false;
        self
    }

    /// Returns the delay before the next attempt. Returns `None` if the call must not be retried after this error.
    fn delay(&self, error: &impl RetryableError) -> Option<Duration> {
        if self.retries >= self.max_retries || !error.is_retryable() {
            return None;
        }
        let retries = usize::try_from(self.retries).unwrap_or(usize::MAX);
        self.backoff.delay(retries, error.retry_after())
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
