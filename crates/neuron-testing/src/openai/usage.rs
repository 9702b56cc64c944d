//! Token counts under OpenAI's names, which differ between Chat Completions and Responses. OpenAI's count of prompt
//! tokens includes cached tokens, and so does `TokenUsage`.

use neuron_types::TokenUsage;
use serde_json::{Value, json};

use super::dialect::Dialect;
use crate::json::sparse;

/// Returns the `usage` object of Chat Completions. Unknown counts are left out.
pub(super) fn chat_usage(usage: &TokenUsage, dialect: &Dialect) -> Value {
    let beside = usage.reasoning_tokens.filter(|_| dialect.reasoning_beside).unwrap_or_default();
    let details = |counts: Value| Some(sparse(counts)).filter(|known| *known != json!({}));
    sparse(json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens.saturating_sub(beside),
        "total_tokens": usage.total_tokens(),
        "prompt_tokens_details": details(json!({
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_creation_tokens,
        })),
        "completion_tokens_details": details(json!({"reasoning_tokens": usage.reasoning_tokens})),
    }))
}

/// Returns the `usage` object of the Responses API. Every count is required there, so an unknown count is 0.
pub(super) fn responses_usage(usage: &TokenUsage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens.unwrap_or(0),
            "cache_write_tokens": usage.cache_creation_tokens.unwrap_or(0),
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens.unwrap_or(0)},
        "total_tokens": usage.total_tokens(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_has_the_names_of_each_api() {
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
            chat_usage(&usage, &Dialect::default()),
            json!({
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 5},
            })
        );
        assert_eq!(
            responses_usage(&usage),
            json!({
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 120,
            })
        );
    }

    #[test]
    fn unknown_counts_are_missing_in_chat_and_zero_in_responses() {
        let usage = TokenUsage { input_tokens: 7, output_tokens: 3, ..Default::default() };
        assert_eq!(
            chat_usage(&usage, &Dialect::default()),
            json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
        );
        assert_eq!(responses_usage(&usage)["input_tokens_details"]["cached_tokens"], 0);
    }
}
