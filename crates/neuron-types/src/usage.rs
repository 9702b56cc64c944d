//! Counting tokens: what calls took, and how much a run may take.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::LoopError;

/// The tokens of one call, or of several added up.
///
/// Every provider crate reports the same: [`input_tokens`](Self::input_tokens) are all prompt
/// tokens, and the cache counts are parts of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// All prompt tokens, cached ones included.
    pub input_tokens: usize,
    /// All tokens of the answer, reasoning included.
    pub output_tokens: usize,
    /// The part of the prompt that was read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// The part of the prompt that was written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
    /// The part of the answer that was reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<usize>,
    /// The model's passes, where one call took several: a compaction before the answer, say.
    /// Their tokens are contained in the totals above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Vec<UsageIteration>>,
}

impl TokenUsage {
    /// Returns input and output tokens together; saturates.
    #[must_use]
    pub fn total_tokens(&self) -> usize {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Adds call to call; saturates. A count that only one side knows is kept.
///
/// The [`iterations`](TokenUsage::iterations) of all calls that report them follow each other.
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

/// One pass of the model within a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageIteration {
    /// What the pass was for, in the provider's words: `message`, `compaction`, ….
    pub kind: String,
    /// The model, where it differs from the call's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// All prompt tokens of the pass, cached ones included.
    pub input_tokens: usize,
    /// All tokens that the pass produced.
    pub output_tokens: usize,
    /// The part of the prompt that was read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// The part of the prompt that was written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
}

/// What a run may use. A field that is `None` sets no limit.
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
    /// The most prompt tokens over all calls.
    pub input_tokens_limit: Option<usize>,
    /// The most answer tokens over all calls.
    pub output_tokens_limit: Option<usize>,
    /// The most prompt and answer tokens together.
    pub total_tokens_limit: Option<usize>,
    /// The most calls of the model.
    pub request_limit: Option<usize>,
    /// The most tool calls.
    pub tool_calls_limit: Option<usize>,
}

impl UsageLimits {
    /// Limits the prompt tokens over all calls.
    #[must_use]
    pub fn with_input_tokens_limit(mut self, limit: usize) -> Self {
        self.input_tokens_limit = Some(limit);
        self
    }

    /// Limits the answer tokens over all calls.
    #[must_use]
    pub fn with_output_tokens_limit(mut self, limit: usize) -> Self {
        self.output_tokens_limit = Some(limit);
        self
    }

    /// Limits prompt and answer tokens together.
    #[must_use]
    pub fn with_total_tokens_limit(mut self, limit: usize) -> Self {
        self.total_tokens_limit = Some(limit);
        self
    }

    /// Limits the calls of the model.
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

    /// Checks a number of calls of the model.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if it is above the limit.
    pub fn check_requests(&self, requests: usize) -> Result<(), LoopError> {
        at_most("request", requests, self.request_limit)
    }

    /// Checks a number of tool calls.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] if it is above the limit.
    pub fn check_tool_calls(&self, calls: usize) -> Result<(), LoopError> {
        at_most("tool call", calls, self.tool_calls_limit)
    }

    /// Checks tokens.
    ///
    /// # Errors
    ///
    /// [`LoopError::UsageLimitExceeded`] with the first limit that they are above.
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
