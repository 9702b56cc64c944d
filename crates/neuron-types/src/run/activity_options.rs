//! The options of a durable engine's activities.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Options for an activity of a durable engine. Each model call and each tool call is one activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityOptions {
    /// Timeout of one attempt. Ten minutes by default.
    pub start_to_close_timeout: Duration,
    /// Maximum time between two heartbeats of the activity. `None` if the activity sends no heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// Retry policy for failed attempts. `None` means the engine's default policy. By default only Temporal retries
    /// failed model calls. With another engine, set [`RetryPolicy::default`] in production.
    pub retry_policy: Option<RetryPolicy>,
}

/// Returns a timeout of ten minutes per attempt, no heartbeat, and the engine's default retry policy.
impl Default for ActivityOptions {
    fn default() -> Self {
        Self {
            start_to_close_timeout: Duration::from_secs(600),
            heartbeat_timeout: None,
            retry_policy: None,
        }
    }
}

/// The retry policy of an activity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Delay before the second attempt.
    pub initial_interval: Duration,
    /// Factor by which the delay grows after each attempt.
    pub backoff_coefficient: f64,
    /// Maximum number of attempts, including the first attempt. Zero means no limit.
    pub maximum_attempts: u32,
    /// Maximum delay between two attempts.
    pub maximum_interval: Duration,
    /// Names of errors after which the activity is not retried, as returned by
    /// [`ProviderError::kind`](crate::ProviderError::kind) and [`ToolError::kind`](crate::ToolError::kind).
    pub non_retryable_errors: Vec<String>,
}

/// Returns a policy of up to ten attempts. The delay starts at one second and doubles up to one minute.
///
/// The delays add up to about four minutes, which outlasts most overloads of a model.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            maximum_attempts: 10,
            maximum_interval: Duration::from_secs(60),
            non_retryable_errors: Vec::new(),
        }
    }
}
