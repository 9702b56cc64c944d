//! Retries of activities. The server applies a retry policy. After each failed attempt, the activity also decides if it
//! may be retried.

use std::time::Duration;

use neuron_types::{DurableError, ErrorRecord, ProviderError, RetryPolicy, ToolEffect, ToolError};
use temporalio_sdk::ApplicationFailure;

/// Number of attempts that are added to a retry policy for lost workers, which the server counts as failed attempts.
/// The number limits the retries of a call that kills its process each time.
const LOST_WORKERS: u32 = 10;

/// Returns the retry policy for the server, with additional attempts for lost workers. Without a `policy`, only lost
/// workers are retried.
///
/// After each failed attempt, [`another_model_call`] or [`another_tool_call`] decides if `policy` itself allows another
/// attempt.
pub(crate) fn server_policy(policy: Option<&RetryPolicy>) -> temporalio_common::RetryPolicy {
    let Some(policy) = policy else {
        return temporalio_common::RetryPolicy::builder()
            .maximum_attempts(1 + LOST_WORKERS)
            .build();
    };
    let attempts = match policy.maximum_attempts {
        0 => 0,
        attempts => attempts.saturating_add(LOST_WORKERS),
    };
    // The server rejects a coefficient below 1 and an interval of zero.
    let initial = policy.initial_interval.max(Duration::from_millis(1));
    temporalio_common::RetryPolicy::builder()
        .initial_interval(initial)
        .backoff_coefficient(policy.backoff_coefficient.max(1.0))
        .maximum_interval(policy.maximum_interval.max(initial))
        .maximum_attempts(attempts)
        .non_retryable_error_types(policy.non_retryable_errors.clone())
        .build()
}

/// Returns a retry policy with a single attempt.
pub(crate) fn once() -> temporalio_common::RetryPolicy {
    temporalio_common::RetryPolicy::builder().maximum_attempts(1).build()
}

/// Returns the failure with which an activity requests another attempt at a model call. Returns `None` if the error is
/// final.
pub(crate) fn another_model_call(
    error: &ProviderError,
    policy: Option<&RetryPolicy>,
    attempt: u32,
) -> Option<ApplicationFailure> {
    let policy = policy.filter(|policy| allows(policy, error.kind(), attempt))?;
    if !error.is_retryable_from_start() {
        return None;
    }
    let wait = error.retry_after();
    // If the provider asks for a longer pause than the policy allows, the error is returned to the caller.
    if wait.is_some_and(|wait| wait > policy.maximum_interval) {
        return None;
    }
    Some(failure(&ErrorRecord::from(error), wait))
}

/// Returns the failure that makes the server start another attempt of a tool call. Returns `None` if the error is final
/// or the tool must not run twice.
pub(crate) fn another_tool_call(
    error: &ToolError,
    effect: ToolEffect,
    policy: Option<&RetryPolicy>,
    attempt: u32,
) -> Option<ApplicationFailure> {
    policy.filter(|policy| allows(policy, error.kind(), attempt))?;
    let may_repeat = effect.may_repeat();
    let is_failure = matches!(error, ToolError::ExecutionFailed(_));
    (may_repeat && is_failure).then(|| failure(&ErrorRecord::from(error), None))
}

/// Creates the failure of a local model call whose workflow task now belongs to another worker. The SDK waits for
/// `wait` before a retry, and cancels the call before this time is over.
pub(crate) fn lost_task(wait: Duration) -> ApplicationFailure {
    tracing::debug!(
        "a call of the model does not begin: its workflow task belongs to another worker"
    );
    let text = std::io::Error::other("the workflow task belongs to another worker");
    ApplicationFailure::builder(text)
        .type_name("NeuronLostTask".to_owned())
        .next_retry_delay(wait)
        .build()
}

/// Creates the failure of an activity that this worker may have lost. The server then starts another attempt, unless
/// another worker holds the activity or the call must not run twice.
pub(crate) fn lost_activity(error: &DurableError) -> ApplicationFailure {
    tracing::debug!(%error, "an activity ends: this worker may have lost it");
    ApplicationFailure::builder(std::io::Error::other(error.to_string()))
        .type_name("NeuronLostActivity".to_owned())
        .build()
}

/// Returns `true` if the policy allows another attempt after attempt number `attempt` failed with an error of this
/// kind.
fn allows(policy: &RetryPolicy, kind: &str, attempt: u32) -> bool {
    let more = policy.maximum_attempts == 0 || attempt < policy.maximum_attempts;
    more && !policy.non_retryable_errors.iter().any(|name| name == kind)
}

/// Creates the failure of an attempt that is retried. Its text contains only the kind of the error. The details of an
/// error are stored in the history only if the error is final.
fn failure(record: &ErrorRecord, wait: Option<Duration>) -> ApplicationFailure {
    let text = std::io::Error::other(format!("{}: another attempt follows", record.kind));
    ApplicationFailure::builder(text)
        .type_name(record.kind.clone())
        .maybe_next_retry_delay(wait)
        .build()
}

#[cfg(test)]
mod tests;
