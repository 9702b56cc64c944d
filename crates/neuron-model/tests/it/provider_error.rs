//! Tests of the delay that a provider requests, for each variant of `ProviderError`.

use std::time::Duration;

use neuron_model::{ProviderError, StreamError};

#[test]
fn transient_errors_keep_the_delay() {
    for millis in [0, 1, 250, 1_000, 1_500, 86_400_000] {
        let delay = Duration::from_millis(millis);
        for error in [
            ProviderError::RateLimit { retry_after: None },
            ProviderError::ServiceUnavailable("529 overloaded (request id r)".into()),
            ProviderError::ModelLoading("503: wait, retry after the model is there".into()),
        ] {
            let kind = error.kind();
            assert_eq!(error.retry_after(), None);
            let error = error.with_retry_after(delay);
            assert_eq!((error.kind(), error.retry_after()), (kind, Some(delay)));
            let shared = StreamError::from(error);
            assert_eq!(shared.retry_after(), Some(delay));
            assert_eq!(ProviderError::from(shared.clone()).retry_after(), Some(delay));
        }
    }
}

#[test]
fn later_delay_replaces_the_earlier_one() {
    let error = ProviderError::ServiceUnavailable("busy".into());
    let error = error.with_retry_after(Duration::from_secs(3));
    let error = error.with_retry_after(Duration::from_millis(1500));
    assert_eq!(error.to_string(), "service unavailable: busy, retry after 1.5s");
    assert_eq!(error.retry_after(), Some(Duration::from_millis(1500)));
}

#[test]
fn permanent_errors_have_no_delay() {
    let error = ProviderError::InvalidRequest("bad, retry after 3s".into());
    assert_eq!(error.retry_after(), None);
    let error = error.with_retry_after(Duration::from_secs(4));
    assert_eq!(error.to_string(), "invalid request: bad, retry after 3s");
    for text in ["x, retry after s", "x, retry after -1s", "x, retry after 2", "retry after 2s", ""]
    {
        assert_eq!(ProviderError::ServiceUnavailable(text.into()).retry_after(), None, "{text}");
    }
}
