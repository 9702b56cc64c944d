//! The retries of an activity, by decisions of the activity and by the policy of the server.

use std::time::Duration;

use neuron_types::{DurableError, ErrorRecord, ProviderError, RetryPolicy, ToolEffect, ToolError};
use temporalio_sdk::ApplicationFailure;

/// Additional attempts for lost workers. A crash is not a failed attempt, but the server counts it as one. The
/// number limits how often a call that kills its process is started.
const LOST_WORKERS: u32 = 10;

/// Returns the policy for the server, with the waits and kinds of the given policy and enough attempts.
/// [`another_model_call`] and [`another_tool_call`] decide on each attempt.
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
    // The server refuses a coefficient below one and an interval of nothing.
    let initial = policy.initial_interval.max(Duration::from_millis(1));
    temporalio_common::RetryPolicy::builder()
        .initial_interval(initial)
        .backoff_coefficient(policy.backoff_coefficient.max(1.0))
        .maximum_interval(policy.maximum_interval.max(initial))
        .maximum_attempts(attempts)
        .non_retryable_error_types(policy.non_retryable_errors.clone())
        .build()
}

/// Returns a policy with one attempt.
pub(crate) fn once() -> temporalio_common::RetryPolicy {
    temporalio_common::RetryPolicy::builder().maximum_attempts(1).build()
}

/// Returns the failure by which the activity requests another attempt. `None` if the error is final.
pub(crate) fn another_model_call(
    error: &ProviderError,
    policy: Option<&RetryPolicy>,
    attempt: u32,
) -> Option<ApplicationFailure> {
    let policy = policy.filter(|policy| allows(policy, error.kind(), attempt))?;
    if !error.is_retryable() && !matches!(error, ProviderError::StreamError(_)) {
        return None;
    }
    let wait = error.retry_after();
    // A longer wait than the policy knows is for the caller to decide on.
    if wait.is_some_and(|wait| wait > policy.maximum_interval) {
        return None;
    }
    Some(failure(&ErrorRecord::from(error), wait))
}

/// As [`another_model_call`], for a tool with this effect.
pub(crate) fn another_tool_call(
    error: &ToolError,
    effect: ToolEffect,
    policy: Option<&RetryPolicy>,
    attempt: u32,
) -> Option<ApplicationFailure> {
    policy.filter(|policy| allows(policy, error.kind(), attempt))?;
    let may_repeat = matches!(effect, ToolEffect::Pure | ToolEffect::Idempotent);
    let is_failure = matches!(error, ToolError::ExecutionFailed(_));
    (may_repeat && is_failure).then(|| failure(&ErrorRecord::from(error), None))
}

/// The failure of a local call whose workflow task is lost. The SDK cancels the call before this time is over.
pub(crate) fn lost_task(wait: Duration) -> ApplicationFailure {
    tracing::debug!("a call of the model does not begin: its workflow task is another worker's");
    let text = std::io::Error::other("the workflow task is another worker's");
    ApplicationFailure::builder(text)
        .type_name("NeuronLostTask".to_owned())
        .next_retry_delay(wait)
        .build()
}

/// The failure of an activity that this worker cannot prove to hold. If the server has not given the activity up yet,
/// another attempt follows for an activity that may run twice.
pub(crate) fn lost_activity(error: &DurableError) -> ApplicationFailure {
    tracing::debug!(%error, "an activity ends: this worker may have lost it");
    ApplicationFailure::builder(std::io::Error::other(error.to_string()))
        .type_name("NeuronLostActivity".to_owned())
        .build()
}

fn allows(policy: &RetryPolicy, kind: &str, attempt: u32) -> bool {
    let more = policy.maximum_attempts == 0 || attempt < policy.maximum_attempts;
    more && !policy.non_retryable_errors.iter().any(|name| name == kind)
}

/// Returns a failed attempt for the server and its user interface. The details of an error stay out of the history
/// until the error is final.
fn failure(record: &ErrorRecord, wait: Option<Duration>) -> ApplicationFailure {
    let text = std::io::Error::other(format!("{}: another attempt follows", record.kind));
    ApplicationFailure::builder(text)
        .type_name(record.kind.clone())
        .maybe_next_retry_delay(wait)
        .build()
}

#[cfg(test)]
mod tests;
