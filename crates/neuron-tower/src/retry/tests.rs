//! Tests of the policy's delays and of the classification of errors, without a service.

use neuron_model::{EmbeddingError, ProviderError};
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
fn delays_are_those_of_the_settings() {
    let policy = RetryTransient::new().without_jitter().max_retries(u32::MAX);
    let delay = |policy: &RetryTransient, error| policy.delay(&error);
    assert_eq!(delay(&policy, unavailable()), Some(millis(500)));
    assert_eq!(delay(&policy, limited(millis(60_000))), Some(millis(60_000)));
    assert_eq!(delay(&policy, limited(millis(60_001))), None);
    let policy = policy.base_delay(millis(3)).max_delay(millis(5)).max_retry_after(millis(7));
    let policy = RetryTransient { retries: 1, ..policy };
    assert_eq!(delay(&policy, unavailable()), Some(millis(5)));
    assert_eq!(delay(&policy, limited(Duration::ZERO)), Some(millis(5)));
    assert_eq!(delay(&policy, limited(millis(7))), Some(millis(7)));
    assert_eq!(delay(&policy, limited(millis(8))), None);
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
