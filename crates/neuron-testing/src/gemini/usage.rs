//! Token counts in Gemini's format.
//!
//! Gemini's count of the prompt includes cached tokens, and its count of the candidates excludes thoughts.

use neuron_types::TokenUsage;
use serde_json::{Value, json};

use crate::json::sparse;

/// Returns the `usageMetadata` of a response. Unknown counts and counts of zero are left out, except the total.
///
/// Gemini has no count of tokens that were written to a cache.
pub(super) fn usage_metadata(usage: &TokenUsage) -> Value {
    part_of_usage(usage, 1, 1)
}

/// Returns the `usageMetadata` of chunk number `chunk` of a stream of `chunks` chunks. Each chunk has the counts up to
/// this chunk, and the last chunk has the totals.
pub(super) fn part_of_usage(usage: &TokenUsage, chunk: usize, chunks: usize) -> Value {
    let thoughts = usage.reasoning_tokens.unwrap_or_default();
    let candidates = usage.output_tokens.saturating_sub(thoughts);
    let candidates = candidates.saturating_mul(chunk) / chunks.max(1);
    let some = |count: usize| Some(count).filter(|count| *count > 0);
    sparse(json!({
        "promptTokenCount": some(usage.input_tokens),
        "cachedContentTokenCount": usage.cache_read_tokens.and_then(some),
        "candidatesTokenCount": some(candidates),
        "thoughtsTokenCount": some(thoughts),
        "totalTokenCount": usage.input_tokens.saturating_add(candidates).saturating_add(thoughts),
        "promptTokensDetails": some(usage.input_tokens)
            .map(|count| json!([{"modality": "TEXT", "tokenCount": count}])),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_exclude_thoughts_and_the_prompt_includes_cached_tokens() {
        let usage = TokenUsage {
            input_tokens: 100,
            output_tokens: 20,
            cache_read_tokens: Some(60),
            reasoning_tokens: Some(5),
            ..Default::default()
        };
        assert_eq!(
            usage_metadata(&usage),
            json!({
                "promptTokenCount": 100,
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 15,
                "thoughtsTokenCount": 5,
                "totalTokenCount": 120,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
            })
        );
        assert_eq!(usage_metadata(&TokenUsage::default()), json!({"totalTokenCount": 0}));
    }

    #[test]
    fn counts_of_a_stream_grow_up_to_the_totals() {
        let usage = TokenUsage { input_tokens: 10, output_tokens: 9, ..Default::default() };
        let counts = |chunk| part_of_usage(&usage, chunk, 3)["candidatesTokenCount"].clone();
        assert_eq!([counts(1), counts(2), counts(3)], [json!(3), json!(6), json!(9)]);
        assert_eq!(part_of_usage(&usage, 3, 3), usage_metadata(&usage));
    }
}
