//! Tests of provider errors in a stream. `StreamError` must keep their variant, text and sources, even if it was
//! cloned.

use std::error::Error;
use std::time::Duration;

use neuron_types::{ContextError, LoopError, ProviderError, StreamError, ToolError};

#[derive(Debug, thiserror::Error)]
#[error("connection reset")]
struct Reset(#[source] std::io::Error);

fn reset() -> Box<Reset> {
    Box::new(Reset(std::io::Error::other("errno 104")))
}

/// Returns an error of each variant.
fn provider_errors() -> Vec<ProviderError> {
    use ProviderError as E;
    let wait = Duration::from_secs(2);
    vec![
        E::Network(reset()),
        E::RateLimit { retry_after: Some(wait) },
        E::ModelLoading("cold".into()),
        E::Timeout(wait),
        E::ServiceUnavailable("529".into()),
        E::Authentication("key".into()),
        E::InvalidRequest("bad".into()),
        E::ContextWindowExceeded("long".into()),
        E::ModelNotFound("m".into()),
        E::InsufficientResources("quota".into()),
        E::StreamError("cut".into()),
        E::Other(reset()),
    ]
}

/// Returns the texts of an error and of all its sources, from the error itself to the innermost source.
fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
    let sources = std::iter::successors(Some(error), |&error| error.source());
    sources.map(ToString::to_string).collect()
}

#[track_caller]
fn check_same(error: &ProviderError, original: &ProviderError) {
    assert_eq!(error.kind(), original.kind());
    assert_eq!(error.is_retryable(), original.is_retryable());
    assert_eq!(error.retry_after(), original.retry_after());
    assert_eq!(chain(error), chain(original));
}

#[test]
fn stream_error_has_class_and_text_of_its_provider_error() {
    for (error, original) in provider_errors().into_iter().zip(provider_errors()) {
        let error = StreamError::from(error);
        assert_eq!(error.kind(), original.kind());
        assert_eq!(error.is_retryable(), original.is_retryable());
        assert_eq!(error.retry_after(), original.retry_after());
        assert_eq!(error.message(), original.to_string());
        assert_eq!(chain(&error), chain(&original));
        check_same(error.as_provider().unwrap(), &original);
        assert!(error.as_loop().is_none());
    }
}

#[test]
fn sole_owner_recovers_the_original_provider_error() {
    for (error, original) in provider_errors().into_iter().zip(provider_errors()) {
        let error = ProviderError::from(StreamError::from(error));
        check_same(&error, &original);
        if let ProviderError::Network(source) | ProviderError::Other(source) = error {
            assert!(source.is::<Reset>());
        }
    }
}

#[test]
fn shared_error_converts_to_an_equal_copy() {
    for (error, original) in provider_errors().into_iter().zip(provider_errors()) {
        let shared = StreamError::from(error);
        check_same(&ProviderError::from(shared.clone()), &original);
        // The result of a conversion can be converted again.
        let again = StreamError::from(ProviderError::from(shared.clone()));
        check_same(&ProviderError::from(again.clone()), &original);
        assert_eq!(shared.message(), again.message());
    }
}

#[test]
fn provider_error_of_a_run_is_unwrapped() {
    let wrappings: [fn(ProviderError) -> LoopError; 2] =
        [LoopError::Provider, |error| LoopError::Context(ContextError::Provider(error))];
    for wrap in wrappings {
        for (error, original) in provider_errors().into_iter().zip(provider_errors()) {
            let text = wrap(error).to_string();
            let run = StreamError::from(wrap(provider_error_like(&original)));
            assert_eq!(run.message(), text);
            assert_eq!(run.is_retryable(), original.is_retryable());
            assert_eq!(run.retry_after(), original.retry_after());
            check_same(run.as_provider().unwrap(), &original);
            check_same(&ProviderError::from(run.clone()), &original);
            check_same(&ProviderError::from(run), &original);
        }
    }
}

fn provider_error_like(original: &ProviderError) -> ProviderError {
    let same = |error: &ProviderError| error.kind() == original.kind();
    provider_errors().into_iter().find(same).unwrap()
}

#[test]
fn other_errors_of_a_run_stay_intact() {
    for alive in [false, true] {
        let run = StreamError::from(LoopError::Tool(ToolError::ExecutionFailed(reset())));
        assert_eq!(run.kind(), "Tool");
        assert!(run.as_provider().is_none() && run.as_loop().is_some());
        let texts = [
            "tool error: execution failed: connection reset",
            "execution failed: connection reset",
            "connection reset",
            "errno 104",
        ];
        assert_eq!(chain(&run), texts);
        let held = alive.then(|| run.clone());
        let error = ProviderError::from(run);
        assert_eq!((error.kind(), error.is_retryable()), ("Other", false));
        assert_eq!(chain(&error), texts);
        drop(held);
    }
}

#[test]
fn text_errors_keep_their_class() {
    let error = StreamError::retryable("the line broke");
    assert_eq!((error.kind(), error.message()), ("StreamError", "the line broke".into()));
    assert!(error.source().is_none());
    let held = error.clone();
    for error in [error, held] {
        assert!(error.is_retryable());
        let error = ProviderError::from(error);
        assert!(
            matches!(error, ProviderError::ServiceUnavailable(text) if text == "the line broke")
        );
    }
    // A `ProviderError::StreamError` would be retried.
    let error = StreamError::non_retryable("bad frame");
    assert!(error.is_final());
    let error = ProviderError::from(error);
    assert_eq!((error.kind(), error.to_string()), ("Other", "bad frame".into()));
}

#[test]
fn debug_shows_the_inner_error() {
    assert_eq!(
        format!("{:?}", StreamError::retryable("x")),
        r#"StreamError { message: "x", retryable: true }"#
    );
    assert_eq!(
        format!("{:?}", StreamError::from(LoopError::MaxTurns(3))),
        "StreamError(MaxTurns(3))"
    );
    assert_eq!(
        format!("{:?}", StreamError::from(ProviderError::StreamError("x".into()))),
        r#"StreamError(StreamError("x"))"#
    );
}
