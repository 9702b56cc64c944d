//! Token counts in Bedrock's format.
//!
//! Bedrock's count of input tokens excludes cached tokens, and its total includes them. Bedrock has no count of
//! reasoning tokens.

use neuron_types::TokenUsage;
use serde_json::{Value, json};

use crate::json::sparse;

/// Returns the `usage` of a response. Unknown counts of cached tokens are left out.
pub(super) fn wire_usage(usage: &TokenUsage) -> Value {
    let (read, written) = (usage.cache_read_tokens, usage.cache_creation_tokens);
    let cached = read.unwrap_or_default().saturating_add(written.unwrap_or_default());
    sparse(json!({
        "inputTokens": usage.input_tokens.saturating_sub(cached),
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens(),
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": written,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_tokens_exclude_cached_tokens_and_the_total_includes_them() {
        let usage = TokenUsage {
            input_tokens: 100,
            output_tokens: 20,
            cache_read_tokens: Some(60),
            cache_creation_tokens: Some(30),
            reasoning_tokens: Some(5),
            iterations: None,
            cost: None,
        };
        assert_eq!(
            wire_usage(&usage),
            json!({
                "inputTokens": 10,
                "outputTokens": 20,
                "totalTokens": 120,
                "cacheReadInputTokens": 60,
                "cacheWriteInputTokens": 30,
            })
        );
    }

    #[test]
    fn unknown_counts_are_left_out() {
        let usage = TokenUsage { input_tokens: 7, output_tokens: 3, ..Default::default() };
        let expected = json!({"inputTokens": 7, "outputTokens": 3, "totalTokens": 10});
        assert_eq!(wire_usage(&usage), expected);
    }
}
