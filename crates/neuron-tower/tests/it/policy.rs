//! Tests of the delays of the policy and of the classification of errors, without a service.

use std::time::Duration;

use neuron_tower::{RetryTransient, RetryableError};
use neuron_types::{EmbeddingError, ProviderError};
use tokio::time::Instant;
use tower::BoxError;
use tower::load_shed::error::Overloaded;
use tower::retry::Policy;
use tower::timeout::error::Elapsed;

use crate::support::{limited, millis, unavailable};

/// Returns the delay before the next attempt after this error. Returns `None` if the call is not retried. The clock
/// must be paused.
fn delay(policy: &mut RetryTransient, error: ProviderError) -> Option<Duration> {
    let sleep = policy.retry(&mut (), &mut Err::<(), _>(error))?;
    Some(sleep.deadline() - Instant::now())
}

#[tokio::test(start_paused = true)]
async fn bound_doubles_up_to_its_maximum() {
    let mut policy = RetryTransient::new().without_jitter().max_retries(u32::MAX);
    let bounds: Vec<Duration> = (0..7).filter_map(|_| delay(&mut policy, unavailable())).collect();
    assert_eq!(bounds, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map(millis));
}

#[tokio::test(start_paused = true)]
async fn huge_counts_and_durations_do_not_exceed_the_bound() {
    for (base, max) in [
        (millis(1), Duration::MAX),
        (Duration::MAX, Duration::MAX),
        (Duration::ZERO, Duration::MAX),
        (Duration::MAX, Duration::ZERO),
    ] {
        let policy = RetryTransient::new().max_retries(u32::MAX).base_delay(base).max_delay(max);
        for mut policy in [policy.clone(), policy.without_jitter()] {
            // More than the 32 doublings of a `u32`.
            for _ in 0..40 {
                assert!(delay(&mut policy, unavailable()).unwrap() <= max);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_is_any_fraction_of_the_bound() {
    let bound = Duration::from_secs(8);
    let policy = RetryTransient::new().base_delay(bound).max_delay(bound);
    let mut delays: Vec<Duration> =
        (0..1_000).filter_map(|_| delay(&mut policy.clone(), unavailable())).collect();
    delays.sort();
    assert_eq!(delays.len(), 1_000);
    assert!(delays[0] < bound / 16 && delays[999] > bound / 16 * 15, "{delays:?}");
    assert!(delays[999] <= bound);
    let middle = delays[500].as_secs_f64();
    assert!((3.0..5.0).contains(&middle), "{middle}");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_exactly_or_not_retried() {
    let policy = RetryTransient::new().max_retry_after(millis(2_000));
    let first = |policy: &RetryTransient, error| delay(&mut policy.clone(), error);
    assert_eq!(first(&policy, limited(millis(1))), Some(millis(1)));
    assert_eq!(first(&policy, limited(millis(2_000))), Some(millis(2_000)));
    assert_eq!(first(&policy, limited(millis(2_001))), None);
    assert_eq!(first(&policy, limited(Duration::MAX)), None);

    let policy = policy.without_jitter();
    assert_eq!(first(&policy, limited(Duration::ZERO)), Some(millis(500)));
    assert_eq!(first(&policy, ProviderError::RateLimit { retry_after: None }), Some(millis(500)));
}

#[tokio::test(start_paused = true)]
async fn retries_end_at_the_maximum() {
    let mut policy = RetryTransient::new();
    assert!(delay(&mut policy, unavailable()).is_some());
    assert!(delay(&mut policy, unavailable()).is_some());
    assert!(delay(&mut policy, unavailable()).is_none());
    assert!(delay(&mut RetryTransient::new().max_retries(0), limited(millis(1))).is_none());
}

#[test]
fn boxed_error_has_classification_of_its_source() {
    #[track_caller]
    fn check(error: impl Into<BoxError>, retryable: bool, retry_after: Option<Duration>) {
        let error = error.into();
        assert_eq!(
            (error.is_retryable(), error.retry_after()),
            (retryable, retry_after),
            "{error}"
        );
    }
    use ProviderError as E;
    check(E::Network("reset".into()), true, None);
    check(limited(millis(7)), true, Some(millis(7)));
    check(E::ModelLoading("m".into()), true, None);
    check(E::Timeout(millis(7)), true, None);
    check(unavailable(), true, None);
    check(E::Authentication("no".into()), false, None);
    check(E::InvalidRequest("no".into()), false, None);
    check(E::ModelNotFound("m".into()), false, None);
    check(E::InsufficientResources("pay".into()), false, None);
    check(E::StreamError("cut".into()), false, None);
    check(E::Other("odd".into()), false, None);

    check(EmbeddingError::RateLimit { retry_after: Some(millis(7)) }, true, Some(millis(7)));
    check(EmbeddingError::Network("reset".into()), true, None);
    check(EmbeddingError::InvalidRequest("no".into()), false, None);

    check(Elapsed::new(), true, None);
    check(Overloaded::new(), true, None);
    check("anything else", false, None);
}
