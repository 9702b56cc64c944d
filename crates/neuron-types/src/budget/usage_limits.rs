//! The limits on the usage of a run.

use serde::{Deserialize, Serialize};

use crate::{ExceededLimit, LimitedResource, LoopError, TokenUsage};

/// Limits on the usage of a run. A limit that is `None` does not apply.
///
/// # Example
///
/// ```
/// use neuron_types::UsageLimits;
///
/// let limits = UsageLimits::default().with_request_limit(25).with_total_tokens_limit(600_000);
/// assert_eq!(limits.request_limit, Some(25));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageLimits {
    /// Maximum number of prompt tokens of all model calls together.
    pub input_tokens_limit: Option<usize>,
    /// Maximum number of response tokens of all model calls together.
    pub output_tokens_limit: Option<usize>,
    /// Maximum number of prompt and response tokens of all model calls together.
    pub total_tokens_limit: Option<usize>,
    /// Maximum number of model calls.
    pub request_limit: Option<usize>,
    /// Maximum number of tool calls.
    pub tool_calls_limit: Option<usize>,
}

impl UsageLimits {
    /// Sets the maximum number of prompt tokens of all model calls together.
    #[must_use]
    pub fn with_input_tokens_limit(mut self, limit: usize) -> Self {
        self.input_tokens_limit = Some(limit);
        self
    }

    /// Sets the maximum number of response tokens of all model calls together.
    #[must_use]
    pub fn with_output_tokens_limit(mut self, limit: usize) -> Self {
        self.output_tokens_limit = Some(limit);
        self
    }

    /// Sets the maximum number of prompt and response tokens of all model calls together.
    #[must_use]
    pub fn with_total_tokens_limit(mut self, limit: usize) -> Self {
        self.total_tokens_limit = Some(limit);
        self
    }

    /// Sets the maximum number of model calls.
    #[must_use]
    pub fn with_request_limit(mut self, limit: usize) -> Self {
        self.request_limit = Some(limit);
        self
    }

    /// Sets the maximum number of tool calls.
    #[must_use]
    pub fn with_tool_calls_limit(mut self, limit: usize) -> Self {
        self.tool_calls_limit = Some(limit);
        self
    }

    /// Checks a number of model calls against [`request_limit`](Self::request_limit).
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if `requests` exceeds the limit.
    pub fn check_requests(&self, requests: usize) -> Result<(), LoopError> {
        let exceeded = |used, limit| LimitedResource::Requests { used, limit };
        at_most(requests, self.request_limit, exceeded)
    }

    /// Checks a number of tool calls against [`tool_calls_limit`](Self::tool_calls_limit).
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if `calls` exceeds the limit.
    pub fn check_tool_calls(&self, calls: usize) -> Result<(), LoopError> {
        let exceeded = |used, limit| LimitedResource::ToolCalls { used, limit };
        at_most(calls, self.tool_calls_limit, exceeded)
    }

    /// Checks used tokens against the three token limits, for input, output and total tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if `usage` exceeds a limit. The text names the first exceeded limit.
    pub fn check_tokens(&self, usage: &TokenUsage) -> Result<(), LoopError> {
        use LimitedResource::{InputTokens, OutputTokens, TotalTokens};
        let Self { input_tokens_limit, output_tokens_limit, total_tokens_limit, .. } = *self;
        let exceeded = |used, limit| InputTokens { used, limit };
        at_most(usage.input_tokens, input_tokens_limit, exceeded)?;
        let exceeded = |used, limit| OutputTokens { used, limit };
        at_most(usage.output_tokens, output_tokens_limit, exceeded)?;
        at_most(usage.total_tokens(), total_tokens_limit, |used, limit| TotalTokens { used, limit })
    }
}

/// Returns [`LoopError::UsageLimitExceeded`] if `used` exceeds `limit`. `exceeded` creates the value of the error.
fn at_most(
    used: usize,
    limit: Option<usize>,
    exceeded: impl FnOnce(usize, usize) -> LimitedResource,
) -> Result<(), LoopError> {
    match limit {
        // FAULT a limit that is off by one: `used > limit` -> `used >= limit`
        Some(limit) if used > limit => Err(ExceededLimit::from(exceeded(used, limit)).into()),
        _ => Ok(()),
    }
}
