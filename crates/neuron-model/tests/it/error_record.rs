//! Tests of `ErrorRecord`, the journaled form of errors.

use std::time::Duration;

use neuron_model::{ErrorRecord, ProviderError, ToolError, Unsent};

#[track_caller]
fn stored(record: ErrorRecord) -> ErrorRecord {
    let text = serde_json::to_string(&record).unwrap();
    let read: ErrorRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(read, record);
    read
}

#[test]
fn provider_errors_keep_kind_text_and_class() {
    use ProviderError as E;
    let wait = Duration::from_millis(2500);
    for error in [
        E::Network("reset".into()),
        E::Network(Box::new(Unsent("refused".into()))),
        E::RateLimit { retry_after: Some(wait) },
        E::RateLimit { retry_after: None },
        E::ModelLoading("cold".into()),
        E::ModelLoading("cold".into()).with_retry_after(wait),
        E::Timeout(wait),
        E::ServiceUnavailable("529".into()),
        E::ServiceUnavailable("529".into()).with_retry_after(wait),
        E::Authentication("key".into()),
        E::InvalidRequest("bad".into()),
        E::ContextWindowExceeded("long".into()),
        E::ModelNotFound("m".into()),
        E::InsufficientResources("quota".into()),
        E::StreamError("cut".into()),
        E::Other("else".into()),
    ] {
        let replayed = stored(ErrorRecord::from(&error)).into_provider_error();
        assert_eq!(replayed.kind(), error.kind());
        assert_eq!(replayed.to_string(), error.to_string());
        assert_eq!(replayed.is_retryable(), error.is_retryable());
        assert_eq!(replayed.retry_after(), error.retry_after());
        assert_eq!(replayed.takes_no_tokens(), error.takes_no_tokens());
        // The record of a replayed error must be the same, because an error may be journaled again.
        assert_eq!(ErrorRecord::from(&replayed), ErrorRecord::from(&error));
    }
}

#[test]
fn tool_errors_keep_kind_and_text() {
    use ToolError as E;
    for error in [
        E::NotFound("t".into()),
        E::InvalidInput("bad".into()),
        E::ExecutionFailed("disk".into()),
        E::PermissionDenied("no".into()),
        E::Cancelled,
        E::ModelRetry("again".into()),
        E::HookTerminated("enough".into()),
    ] {
        let replayed = stored(ErrorRecord::from(&error)).into_tool_error();
        assert_eq!(replayed.kind(), error.kind());
        assert_eq!(replayed.to_string(), error.to_string());
        assert_eq!(ErrorRecord::from(&replayed), ErrorRecord::from(&error));
    }
}

#[test]
fn unknown_kind_becomes_the_catch_all() {
    let record = || -> ErrorRecord {
        serde_json::from_str(r#"{"kind":"Weather","detail":"rain","cloud":9}"#).unwrap()
    };
    let provider = record().into_provider_error();
    assert_eq!((provider.kind(), provider.to_string()), ("Other", "rain".into()));
    assert_eq!(record().into_tool_error().to_string(), "execution failed: rain");
}

#[test]
fn uncertain_tool_error_is_uncertain_on_replay() {
    use neuron_model::UncertainEffect;
    use std::io;
    let late =
        ToolError::ExecutionFailed(Box::new(io::Error::new(io::ErrorKind::TimedOut, "late")));
    let uncertain = ToolError::ExecutionFailed(Box::new(UncertainEffect("cut".into())));
    for error in [late, uncertain] {
        let replayed = stored(ErrorRecord::from(&error)).into_tool_error();
        assert!(error.is_uncertain() && replayed.is_uncertain());
        assert_eq!(replayed.to_string(), error.to_string());
    }
    let failed = ToolError::ExecutionFailed("disk".into());
    assert!(!failed.is_uncertain() && !ToolError::Cancelled.is_uncertain());
    assert!(!serde_json::to_string(&ErrorRecord::from(&failed)).unwrap().contains("uncertain"));
}

/// Regression test. Before the fix, the record of a request that was not sent had only the text. On a durable engine
/// its estimated tokens counted.
#[test]
fn request_that_was_not_sent_is_not_sent_on_replay() {
    let unsent = ProviderError::Network(Box::new(Unsent("refused".into())));
    let replayed = stored(ErrorRecord::from(&unsent)).into_provider_error();
    assert!(!replayed.was_sent() && replayed.takes_no_tokens());
    let old = r#"{"kind":"Network","detail":"refused"}"#;
    let old: ErrorRecord = serde_json::from_str(old).unwrap();
    assert!(old.into_provider_error().was_sent());
    let reset = ErrorRecord::from(&ProviderError::Network("reset".into()));
    assert!(!serde_json::to_string(&reset).unwrap().contains("unsent"));
}
