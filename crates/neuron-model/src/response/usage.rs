//! Token usage with its cost.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::Cost;

/// The tokens of one or more model calls, and their cost.
///
/// All providers fill the fields in the same way. [`input_tokens`](Self::input_tokens) includes the
/// [`cache_read_tokens`](Self::cache_read_tokens) and the [`cache_creation_tokens`](Self::cache_creation_tokens).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Number of all prompt tokens, including cached tokens.
    pub input_tokens: usize,
    /// Number of all response tokens, including reasoning.
    pub output_tokens: usize,
    /// Number of prompt tokens that were read from a cache. `None` if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// Number of prompt tokens that were written to a cache. `None` if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
    /// Number of response tokens that were reasoning. `None` if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<usize>,
    /// The usage of each pass, if the model ran several times within a call, for example for a compaction before the
    /// response. `None` if not reported.
    ///
    /// The tokens of the passes are included in [`input_tokens`](Self::input_tokens) and
    /// [`output_tokens`](Self::output_tokens).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Vec<UsageIteration>>,
    /// Cost of the tokens. `None` if no price list is known.
    ///
    /// Providers leave the field empty. The agent loop sets it from the prices of the run's `Budget`,
    /// at the time of the call. A cost that a vendor reported is only in
    /// [`AnswerMetadata::cost`](crate::AnswerMetadata::cost).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl TokenUsage {
    /// Returns the sum of input and output tokens. The sum saturates at `usize::MAX`.
    #[must_use]
    pub fn total_tokens(&self) -> usize {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the cost of tokens that have no price. It is unknown, unless there are no tokens.
    fn cost_without_prices(&self) -> Cost {
        if self.total_tokens() == 0 { Cost::default() } else { Cost::UNKNOWN }
    }
}

/// Adds the counters of another usage. Sums saturate at `usize::MAX`.
///
/// An optional counter is `None` only if both usages have `None`. The [`iterations`](TokenUsage::iterations) are
/// concatenated. If only one usage has a [cost](TokenUsage::cost), and the other has tokens, the sum has an incomplete
/// cost.
impl AddAssign<&TokenUsage> for TokenUsage {
    fn add_assign(&mut self, other: &TokenUsage) {
        let add = |a: &mut Option<usize>, b: Option<usize>| {
            if let Some(b) = b {
                *a = Some(a.unwrap_or(0).saturating_add(b));
            }
        };
        self.cost = match (self.cost, other.cost) {
            (None, None) => None,
            (own, others) => {
                let mut sum = own.unwrap_or_else(|| self.cost_without_prices());
                sum += others.unwrap_or_else(|| other.cost_without_prices());
                Some(sum)
            }
        };
        // The counters come from providers, so a sum may overflow.
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

/// The usage of one of the passes in which the provider ran the model for a single call. See
/// [`TokenUsage::iterations`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageIteration {
    /// The provider's name for the purpose of this pass of the model, for example `message` or `compaction`.
    pub kind: String,
    /// Name of the model. `None` if it is the model of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of all prompt tokens of the pass, including cached tokens.
    pub input_tokens: usize,
    /// Number of all tokens that the model produced in this pass.
    pub output_tokens: usize,
    /// Number of prompt tokens that were read from a cache. `None` if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<usize>,
    /// Number of prompt tokens that were written to a cache. `None` if not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<usize>,
}
