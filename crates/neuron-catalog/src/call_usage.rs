//! The parts of a call's usage that have prices of their own.

use neuron_model::{TokenUsage, UsageIteration};

/// The usage of one call, with the parts that have prices of their own.
///
/// Create it from a [`TokenUsage`], and set the fields that a `TokenUsage` does not report.
///
/// # Example
///
/// ```
/// use neuron_catalog::{CallUsage, Catalog};
/// use neuron_model::TokenUsage;
///
/// # fn main() -> Result<(), neuron_model::UnknownPrice> {
/// let usage = TokenUsage { input_tokens: 1_000, output_tokens: 100, ..Default::default() };
/// let mut with_searches = CallUsage::from(&usage);
/// with_searches.web_searches = 2;
/// let catalog = Catalog::bundled();
/// let price = catalog.price("anthropic", "claude-sonnet-4-6")?;
/// assert_eq!(price.cost(&with_searches).to_string(), "$0.0245");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallUsage {
    /// Number of all prompt tokens, including cached tokens and audio.
    pub input_tokens: usize,
    /// Number of prompt tokens that were read from a cache.
    pub cache_read_tokens: usize,
    /// Number of prompt tokens that were written to a cache.
    pub cache_write_tokens: usize,
    /// Number of prompt tokens that were written to a cache for one hour. Part of `cache_write_tokens`.
    pub one_hour_cache_write_tokens: usize,
    /// Number of prompt tokens that are audio.
    pub input_audio_tokens: usize,
    /// Number of audio tokens that were read from a cache. Part of `input_audio_tokens` and of `cache_read_tokens`.
    pub cache_read_audio_tokens: usize,
    /// Number of all response tokens, including reasoning and audio.
    pub output_tokens: usize,
    /// Number of response tokens that were reasoning.
    pub reasoning_tokens: usize,
    /// Number of response tokens that are audio.
    pub output_audio_tokens: usize,
    /// Number of web searches that the vendor ran, for example from
    /// [`AnswerMetadata::server_tool_usage`](neuron_model::AnswerMetadata::server_tool_usage).
    pub web_searches: usize,
}

impl CallUsage {
    /// Removes the tokens of one pass of the model.
    pub(crate) fn without(self, pass: &Self) -> Self {
        let output_tokens = self.output_tokens.saturating_sub(pass.output_tokens);
        Self {
            input_tokens: self.input_tokens.saturating_sub(pass.input_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(pass.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(pass.cache_write_tokens),
            output_tokens,
            // A pass does not report its reasoning.
            reasoning_tokens: self.reasoning_tokens.min(output_tokens),
            ..self
        }
    }
}

impl From<&TokenUsage> for CallUsage {
    fn from(usage: &TokenUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cache_read_tokens: usage.cache_read_tokens.unwrap_or(0),
            cache_write_tokens: usage.cache_creation_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens,
            reasoning_tokens: usage.reasoning_tokens.unwrap_or(0),
            ..Self::default()
        }
    }
}

impl From<&UsageIteration> for CallUsage {
    fn from(pass: &UsageIteration) -> Self {
        Self {
            input_tokens: pass.input_tokens,
            cache_read_tokens: pass.cache_read_tokens.unwrap_or(0),
            cache_write_tokens: pass.cache_creation_tokens.unwrap_or(0),
            output_tokens: pass.output_tokens,
            ..Self::default()
        }
    }
}
