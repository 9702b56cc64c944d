//! Tests of the retry decisions.

use std::time::Duration;

use neuron_types::{ProviderError, RetryPolicy, ToolEffect, ToolError};

use super::{another_model_call, another_tool_call, server_policy};

fn policy() -> RetryPolicy {
    RetryPolicy {
        initial_interval: Duration::from_millis(10),
        backoff_coefficient: 2.0,
        maximum_attempts: 3,
        maximum_interval: Duration::from_secs(1),
        non_retryable_errors: vec!["ServiceUnavailable".into()],
    }
}

#[track_caller]
fn check_model(error: ProviderError, attempt: u32, expected: Option<Option<u64>>) {
    let asked = another_model_call(&error, Some(&policy()), attempt);
    let wait = asked.as_ref().map(|failure| failure.next_retry_delay());
    assert_eq!(wait, expected.map(|wait| wait.map(Duration::from_millis)));
    if let Some(failure) = asked {
        assert_eq!(failure.type_name(), Some(error.kind()));
        assert!(!failure.is_non_retryable());
    }
}

#[test]
fn model_call_is_retried_only_for_retryable_errors() {
    let after =
        |millis| ProviderError::RateLimit { retry_after: Some(Duration::from_millis(millis)) };
    check_model(ProviderError::RateLimit { retry_after: None }, 1, Some(None));
    check_model(after(700), 1, Some(Some(700)));
    check_model(after(700), 2, Some(Some(700)));
    check_model(after(700), 3, None);
    check_model(after(1001), 1, None);
    check_model(ProviderError::Timeout(Duration::from_secs(1)), 1, Some(None));
    check_model(ProviderError::StreamError("cut".into()), 1, Some(None));
    check_model(ProviderError::InvalidRequest("bad".into()), 1, None);
    check_model(ProviderError::Authentication("who".into()), 1, None);
    check_model(ProviderError::ServiceUnavailable("named".into()), 1, None);

    let error = ProviderError::RateLimit { retry_after: None };
    assert!(another_model_call(&error, None, 1).is_none());
    let for_ever = RetryPolicy { maximum_attempts: 0, ..policy() };
    assert!(another_model_call(&error, Some(&for_ever), 1_000).is_some());
}

#[test]
fn tool_call_is_retried_only_if_its_effect_allows() {
    let failed = || ToolError::ExecutionFailed("broken".into());
    let asked = |error: ToolError, effect, attempt| {
        another_tool_call(&error, effect, Some(&policy()), attempt).is_some()
    };
    assert!(asked(failed(), ToolEffect::Pure, 1));
    assert!(asked(failed(), ToolEffect::Idempotent, 2));
    assert!(!asked(failed(), ToolEffect::Idempotent, 3));
    assert!(!asked(failed(), ToolEffect::AtMostOnce, 1));
    assert!(!asked(ToolError::ModelRetry("say it better".into()), ToolEffect::Pure, 1));
    assert!(!asked(ToolError::InvalidInput("no".into()), ToolEffect::Pure, 1));
    assert!(another_tool_call(&failed(), ToolEffect::Pure, None, 1).is_none());
}

#[test]
fn server_policy_has_extra_attempts_for_lost_workers() {
    assert_eq!(server_policy(None).maximum_attempts(), 11);
    assert_eq!(server_policy(Some(&policy())).maximum_attempts(), 13);
    let for_ever = RetryPolicy { maximum_attempts: 0, ..policy() };
    assert_eq!(server_policy(Some(&for_ever)).maximum_attempts(), 0);
    let odd = RetryPolicy {
        initial_interval: Duration::ZERO,
        backoff_coefficient: 0.0,
        maximum_interval: Duration::ZERO,
        ..policy()
    };
    let sent = server_policy(Some(&odd));
    assert_eq!(sent.initial_interval(), Duration::from_millis(1));
    assert_eq!(sent.backoff_coefficient(), 1.0);
    assert_eq!(sent.maximum_interval(), Some(Duration::from_millis(1)));
}
