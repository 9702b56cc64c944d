//! Token counts of a response.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html>

use neuron_model::TokenUsage;
use serde::Deserialize;

/// The token counts of a response.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireUsage {
    /// Number of prompt tokens that were neither read from a cache nor written to it.
    input_tokens: Option<usize>,
    output_tokens: Option<usize>,
    /// Number of all tokens, including cached tokens.
    total_tokens: Option<usize>,
    cache_read_input_tokens: Option<usize>,
    cache_write_input_tokens: Option<usize>,
}

impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let output_tokens = wire.output_tokens.unwrap_or_default();
        let parts =
            [wire.input_tokens, wire.cache_read_input_tokens, wire.cache_write_input_tokens];
        let sum = parts.into_iter().flatten().fold(0, usize::saturating_add);
        // The total shows a prompt whose parts were not all reported.
        let rest = wire.total_tokens.unwrap_or_default().saturating_sub(output_tokens);
        Self {
            input_tokens: sum.max(rest),
            output_tokens,
            cache_read_tokens: wire.cache_read_input_tokens,
            cache_creation_tokens: wire.cache_write_input_tokens,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(json: Value, input_tokens: usize, output_tokens: usize) -> TokenUsage {
        let usage: TokenUsage = serde_json::from_value::<WireUsage>(json).unwrap().into();
        assert_eq!((usage.input_tokens, usage.output_tokens), (input_tokens, output_tokens));
        usage
    }

    #[test]
    fn input_includes_cached_tokens() {
        let usage = check(
            json!({
                "inputTokens": 10, "outputTokens": 5, "totalTokens": 45,
                "cacheReadInputTokens": 20, "cacheWriteInputTokens": 10,
                "cacheDetails": [{"ttl": "5m", "inputTokens": 10}],
            }),
            40,
            5,
        );
        assert_eq!((usage.cache_read_tokens, usage.cache_creation_tokens), (Some(20), Some(10)));
    }

    #[test]
    fn larger_of_sum_and_total_counts() {
        check(json!({"inputTokens": 10, "outputTokens": 5, "totalTokens": 45}), 40, 5);
        check(json!({"inputTokens": 10, "outputTokens": 5, "totalTokens": 12}), 10, 5);
        check(json!({"inputTokens": 10, "cacheReadInputTokens": usize::MAX}), usize::MAX, 0);
        check(json!({}), 0, 0);
    }
}
