//! Token usage and usage limits.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::LoopError;

/// The tokens of one or more model calls.
///
/// All providers report them in the same way. [`input_tokens`](Self::input_tokens) includes all prompt tokens, and the
/// cache counters are parts of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// All prompt tokens, including cached tokens.
    pub input_tokens: usize,
    /// All tokens of the response, including reasoning.
    pub output_tokens: usize,
    /// Prompt tokens that were read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// Prompt tokens that were written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
    /// Response tokens that were reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<usize>,
    /// The model's passes, if one call had several, for example a compaction before the response. The totals above
    /// include their tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Vec<UsageIteration>>,
}

impl TokenUsage {
    /// Returns the sum of input and output tokens, saturating.
    #[must_use]
    pub fn total_tokens(&self) -> usize {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Adds two usages, saturating. A counter that only one side has is kept.
///
/// The [`iterations`](TokenUsage::iterations) are concatenated.
impl AddAssign<&TokenUsage> for TokenUsage {
    fn add_assign(&mut self, other: &TokenUsage) {
        let add = |a: &mut Option<usize>, b: Option<usize>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        add(&mut self.cache_read_tokens, other.cache_read_tokens);
        add(&mut self.cache_creation_tokens, other.cache_creation_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        if let Some(iterations) = &other.iterations {
            self.iterations.get_or_insert_default().extend_from_slice(iterations);
        }
    }
}

/// A pass of the model within a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageIteration {
    /// Purpose of the pass in the provider's words, for example `message` or `compaction`.
    pub kind: String,
    /// The model, if it differs from the model of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// All prompt tokens of the pass, including cached tokens.
    pub input_tokens: usize,
    /// All tokens that the pass produced.
    pub output_tokens: usize,
    /// Prompt tokens that were read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// Prompt tokens that were written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
}

/// Limits on the usage of a run. `None` means no limit.
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
    /// Maximum number of prompt tokens over all calls.
    pub input_tokens_limit: Option<usize>,
    /// Maximum number of response tokens over all calls.
    pub output_tokens_limit: Option<usize>,
    /// Maximum number of prompt and response tokens together.
    pub total_tokens_limit: Option<usize>,
    /// Maximum number of model calls.
    pub request_limit: Option<usize>,
    /// Maximum number of tool calls.
    pub tool_calls_limit: Option<usize>,
}

impl UsageLimits {
    /// Limits the prompt tokens over all calls.
    #[must_use]
    pub fn with_input_tokens_limit(mut self, limit: usize) -> Self {
        self.input_tokens_limit = Some(limit);
        self
    }

    /// Limits the response tokens over all calls.
    #[must_use]
    pub fn with_output_tokens_limit(mut self, limit: usize) -> Self {
        self.output_tokens_limit = Some(limit);
        self
    }

    /// Limits the prompt and response tokens together.
    #[must_use]
    pub fn with_total_tokens_limit(mut self, limit: usize) -> Self {
        self.total_tokens_limit = Some(limit);
        self
    }

    /// Limits the model calls.
    #[must_use]
    pub fn with_request_limit(mut self, limit: usize) -> Self {
        self.request_limit = Some(limit);
        self
    }

    /// Limits the tool calls.
    #[must_use]
    pub fn with_tool_calls_limit(mut self, limit: usize) -> Self {
        self.tool_calls_limit = Some(limit);
        self
    }

    /// Checks a number of model calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the number exceeds the limit.
    pub fn check_requests(&self, requests: usize) -> Result<(), LoopError> {
        at_most("request", requests, self.request_limit)
    }

    /// Checks a number of tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if the number exceeds the limit.
    pub fn check_tool_calls(&self, calls: usize) -> Result<(), LoopError> {
        at_most("tool call", calls, self.tool_calls_limit)
    }

    /// Checks a number of tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] with the first exceeded limit.
    pub fn check_tokens(&self, usage: &TokenUsage) -> Result<(), LoopError> {
        at_most("input token", usage.input_tokens, self.input_tokens_limit)?;
        at_most("output token", usage.output_tokens, self.output_tokens_limit)?;
        at_most("total token", usage.total_tokens(), self.total_tokens_limit)
    }
}

fn at_most(what: &str, count: usize, limit: Option<usize>) -> Result<(), LoopError> {
    match limit {
        Some(limit) if count > limit => {
            Err(LoopError::UsageLimitExceeded(format!("{what} limit exceeded: {count} > {limit}")))
        }
        _ => Ok(()),
    }
}
