//! Tests of embedding errors, their retries and their conversion from provider errors.

use std::time::Duration;

use neuron_model::{EmbeddingError, ProviderError};

#[track_caller]
fn check(error: ProviderError, kind: &str, retryable: bool, text: &str) {
    let error = EmbeddingError::from(error);
    assert_eq!((error.kind(), error.is_retryable()), (kind, retryable));
    assert_eq!(error.to_string(), text);
}

#[test]
fn converted_provider_error_keeps_class_and_text() {
    use ProviderError as E;
    check(E::Network("reset".into()), "Network", true, "network error: reset");
    check(E::RateLimit { retry_after: None }, "RateLimit", true, "rate limited");
    check(E::Timeout(Duration::from_secs(3)), "Timeout", true, "timeout after 3s");
    check(
        E::ServiceUnavailable("503: down".into()),
        "ServiceUnavailable",
        true,
        "service unavailable: 503: down",
    );
    check(E::ModelLoading("m".into()), "ServiceUnavailable", true, "service unavailable: m");
    check(E::Authentication("401".into()), "Authentication", false, "authentication failed: 401");
    check(E::InvalidRequest("400".into()), "InvalidRequest", false, "invalid request: 400");
    check(
        E::ModelNotFound("404: m".into()),
        "InvalidRequest",
        false,
        "invalid request: model not found: 404: m",
    );
    check(
        E::InsufficientResources("quota".into()),
        "InsufficientResources",
        false,
        "insufficient resources: quota",
    );
    check(E::StreamError("cut".into()), "Other", false, "stream error: cut");
    check(E::Other("odd".into()), "Other", false, "odd");
}

#[test]
fn converted_provider_error_keeps_the_delay() {
    let retry_after = Some(Duration::from_secs(7));
    let error = EmbeddingError::from(ProviderError::RateLimit { retry_after });
    assert_eq!(error.retry_after(), retry_after);
    for busy in [ProviderError::ServiceUnavailable, ProviderError::ModelLoading] {
        let error = busy("why".into()).with_retry_after(Duration::from_secs(7));
        assert_eq!(EmbeddingError::from(error).retry_after(), retry_after);
    }
    assert_eq!(EmbeddingError::from(ProviderError::Other("x".into())).retry_after(), None);
}
