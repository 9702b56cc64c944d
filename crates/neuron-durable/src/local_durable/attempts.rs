//! Counts the attempts of a model call or a tool call. Limits the time of each attempt, and computes the delays between
//! attempts.

use std::future::Future;
use std::time::Duration;

use neuron_types::clock::{self, within};
use neuron_types::{ActivityOptions, RetryPolicy};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Counts the attempts of one activity, and computes the delays between them from its retry policy.
pub(super) struct Attempts {
    policy: Option<RetryPolicy>,
    /// Number of attempts of the activity that were started, including the first.
    begun: u32,
    /// Delay before the next attempt.
    interval: Duration,
}

impl Attempts {
    pub(super) fn new(options: &ActivityOptions) -> Self {
        let policy = options.retry_policy.clone();
        let interval = policy.as_ref().map(|policy| policy.initial_interval).unwrap_or_default();
        Self { policy, begun: 1, interval }
    }

    /// Counts the next attempt, and returns the delay before it. `asked` is the minimum delay that the provider
    /// requested. Returns `None` in these cases:
    ///
    /// - No attempt is left.
    /// - The retry policy does not repeat errors of this `kind`.
    /// - `asked` exceeds the maximum interval of the policy.
    pub(super) fn next(&mut self, kind: &str, asked: Option<Duration>) -> Option<Duration> {
        let policy = self.policy.as_ref()?;
        let is_last = policy.maximum_attempts != 0 && self.begun >= policy.maximum_attempts;
        let longest = policy.maximum_interval;
        let asked = asked.unwrap_or_default();
        if is_last || asked > longest || policy.non_retryable_errors.iter().any(|own| own == kind) {
            return None;
        }
        let wait = self.interval.min(longest);
        self.interval = grown(wait, policy.backoff_coefficient).unwrap_or(longest);
        self.begun = self.begun.saturating_add(1);
        Some(wait.max(asked))
    }

    /// Returns the number of attempts of the activity that were started, including the first.
    pub(super) fn begun(&self) -> usize {
        usize::try_from(self.begun).unwrap_or(usize::MAX)
    }
}

/// Multiplies a delay by the backoff coefficient. Returns `None` if the product does not fit a [`Duration`]. A
/// coefficient that is below one or not a number counts as one.
fn grown(interval: Duration, coefficient: f64) -> Option<Duration> {
    let seconds = interval.as_secs_f64() * coefficient.max(1.0);
    Duration::try_from_secs_f64(seconds).ok()
}

/// The timeout of one attempt. Time counts only while [`hold`](Self::hold) is polled.
pub(super) struct TimeLimit {
    /// Full timeout of the attempt.
    whole: Duration,
    /// Part of the timeout that is left.
    left: Duration,
}

impl TimeLimit {
    pub(super) fn new(whole: Duration) -> Self {
        Self { whole, left: whole }
    }

    /// Returns the timeout of the whole attempt, for errors.
    pub(super) fn whole(&self) -> Duration {
        self.whole
    }

    /// Polls `work` for at most the time that is left. Returns `None` if this time ends first. Outside of a tokio
    /// runtime there is no timeout.
    pub(super) async fn hold<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        if Handle::try_current().is_err() {
            return Some(work.await);
        }
        let start = Instant::now();
        let done = within(self.left, work).await;
        self.left = self.left.saturating_sub(start.elapsed());
        done
    }
}

/// Sleeps on tokio's clock. Outside of a tokio runtime it returns immediately and logs a warning.
pub(super) async fn sleep(duration: Duration) {
    if !clock::sleep(duration).await && !duration.is_zero() {
        tracing::warn!(?duration, "there is no tokio runtime, so the delay is skipped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            maximum_attempts: 0,
            maximum_interval: Duration::from_secs(5),
            non_retryable_errors: vec!["Network".into()],
        }
    }

    fn attempts(policy: RetryPolicy) -> Attempts {
        Attempts::new(&ActivityOptions { retry_policy: Some(policy), ..Default::default() })
    }

    /// Asserts that the first six delays between attempts are `expected`, in seconds.
    #[track_caller]
    fn check(policy: RetryPolicy, expected: &[u64]) {
        let mut attempts = attempts(policy);
        let waits = std::iter::from_fn(|| attempts.next("Timeout", None)).take(6);
        assert_eq!(waits.map(|wait| wait.as_secs()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn delays_grow_up_to_the_maximum() {
        check(policy(), &[1, 2, 4, 5, 5, 5]);
        check(RetryPolicy { maximum_attempts: 3, ..policy() }, &[1, 2]);
        check(RetryPolicy { maximum_attempts: 1, ..policy() }, &[]);
        check(RetryPolicy { initial_interval: Duration::from_secs(9), ..policy() }, &[5; 6]);
    }

    #[test]
    fn invalid_coefficient_counts_as_one_and_infinity_as_the_maximum() {
        for coefficient in [f64::NAN, f64::NEG_INFINITY, -3.0, 0.0, 0.5] {
            check(RetryPolicy { backoff_coefficient: coefficient, ..policy() }, &[1; 6]);
        }
        for coefficient in [f64::INFINITY, f64::MAX] {
            let policy = RetryPolicy { backoff_coefficient: coefficient, ..policy() };
            check(policy, &[1, 5, 5, 5, 5, 5]);
        }
    }

    #[test]
    fn requested_delay_is_kept_up_to_the_maximum() {
        let wait =
            |seconds| attempts(policy()).next("RateLimit", Some(Duration::from_secs(seconds)));
        assert_eq!(wait(0), Some(Duration::from_secs(1)));
        assert_eq!(wait(5), Some(Duration::from_secs(5)));
        assert_eq!(wait(6), None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_counts_only_while_work_is_polled() {
        let mut limit = TimeLimit::new(Duration::from_secs(3));
        let two_seconds = || tokio::time::sleep(Duration::from_secs(2));
        assert_eq!(limit.hold(two_seconds()).await, Some(()));
        two_seconds().await;
        assert_eq!(limit.hold(std::future::ready(7)).await, Some(7));
        assert_eq!(limit.hold(two_seconds()).await, None);
        // Work that is ready immediately succeeds even without time left.
        assert_eq!(limit.hold(std::future::ready(7)).await, Some(7));
        assert_eq!(limit.whole(), Duration::from_secs(3));
    }
}
