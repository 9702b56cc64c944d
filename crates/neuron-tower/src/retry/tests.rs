//! Tests of the policy's delays and of the classification of errors, without a service.

use neuron_types::{EmbeddingError, ProviderError};
use tower::BoxError;
use tower::load_shed::error::Overloaded;
use tower::timeout::error::Elapsed;

use super::*;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn unavailable() -> ProviderError {
    ProviderError::ServiceUnavailable("busy".into())
}

fn limited(retry_after: Duration) -> ProviderError {
    ProviderError::RateLimit { retry_after: Some(retry_after) }
}

#[test]
fn bound_doubles_up_to_its_maximum() {
    let policy = RetryTransient::new().without_jitter().max_retries(u32::MAX);
    let bounds: Vec<Duration> = (0..7)
        .filter_map(|retries| RetryTransient { retries, ..policy.clone() }.delay(&unavailable()))
        .collect();
    assert_eq!(bounds, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].map(millis));
}

#[test]
fn huge_counts_and_durations_do_not_exceed_the_bound() {
    for (base, max) in [
        (millis(1), Duration::MAX),
        (Duration::MAX, Duration::MAX),
        (Duration::ZERO, Duration::MAX),
        (Duration::MAX, Duration::ZERO),
    ] {
        for retries in [0, 1, 31, 32, 33, u32::MAX - 1] {
            let policy =
                RetryTransient::new().max_retries(u32::MAX).base_delay(base).max_delay(max);
            let policy = RetryTransient { retries, ..policy };
            assert!(policy.delay(&unavailable()).unwrap() <= max);
        }
    }
}

#[test]
fn jitter_is_any_fraction_of_the_bound() {
    let bound = Duration::from_secs(8);
    assert_eq!(fraction_of(bound, 0), Duration::ZERO);
    assert_eq!(fraction_of(bound, u64::MAX / 2 + 1), Duration::from_secs(4));
    assert!(fraction_of(bound, u64::MAX) <= bound);
    assert!(fraction_of(bound, u64::MAX) > millis(7_999));
    assert!(fraction_of(Duration::MAX, u64::MAX) <= Duration::MAX);

    let policy = RetryTransient::new();
    let delays: Vec<Duration> = (0..64).filter_map(|_| policy.delay(&unavailable())).collect();
    assert!(delays.iter().all(|delay| *delay <= millis(500)));
    assert!(delays.windows(2).any(|pair| pair[0] != pair[1]), "64 equal random numbers");
}

#[test]
fn retry_after_is_obeyed_exactly_or_not_retried() {
    let policy = RetryTransient::new().max_retry_after(millis(2_000));
    assert_eq!(policy.delay(&limited(millis(1))), Some(millis(1)));
    assert_eq!(policy.delay(&limited(millis(2_000))), Some(millis(2_000)));
    assert_eq!(policy.delay(&limited(millis(2_001))), None);
    assert_eq!(policy.delay(&limited(Duration::MAX)), None);

    let policy = policy.without_jitter();
    assert_eq!(policy.delay(&limited(Duration::ZERO)), Some(millis(500)));
    assert_eq!(policy.delay(&ProviderError::RateLimit { retry_after: None }), Some(millis(500)));
}

#[test]
fn retries_end_at_the_maximum() {
    let policy = RetryTransient::new();
    assert!(RetryTransient { retries: 1, ..policy.clone() }.delay(&unavailable()).is_some());
    assert!(RetryTransient { retries: 2, ..policy.clone() }.delay(&unavailable()).is_none());
    assert!(policy.max_retries(0).delay(&limited(millis(1))).is_none());
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
