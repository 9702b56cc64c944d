//! Token counts of a response.
//!
//! <https://ai.google.dev/api/generate-content#UsageMetadata>

use neuron_http::newer_count;
use neuron_model::TokenUsage;
use serde::Deserialize;

/// The token counts of a response. Each chunk of a stream has the counts so far, and may omit some.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireUsage {
    prompt_token_count: Option<usize>,
    cached_content_token_count: Option<usize>,
    candidates_token_count: Option<usize>,
    thoughts_token_count: Option<usize>,
    tool_use_prompt_token_count: Option<usize>,
    total_token_count: Option<usize>,
}

impl WireUsage {
    /// Merges the counts of a later chunk. A later count replaces an earlier count of the same field.
    pub(crate) fn update(&mut self, later: Self) {
        let Self {
            prompt_token_count,
            cached_content_token_count,
            candidates_token_count,
            thoughts_token_count,
            tool_use_prompt_token_count,
            total_token_count,
        } = later;
        *self = Self {
            prompt_token_count: newer_count(self.prompt_token_count, prompt_token_count),
            cached_content_token_count: newer_count(
                self.cached_content_token_count,
                cached_content_token_count,
            ),
            candidates_token_count: newer_count(
                self.candidates_token_count,
                candidates_token_count,
            ),
            thoughts_token_count: newer_count(self.thoughts_token_count, thoughts_token_count),
            tool_use_prompt_token_count: newer_count(
                self.tool_use_prompt_token_count,
                tool_use_prompt_token_count,
            ),
            total_token_count: newer_count(self.total_token_count, total_token_count),
        };
    }
}

/// Adds the counts that the API reports separately: the prompt of server tools to the input, and thoughts to the
/// output.
impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let count = Option::unwrap_or_default;
        let prompt: usize = count(wire.prompt_token_count);
        let input_tokens = prompt.saturating_add(count(wire.tool_use_prompt_token_count));
        let answer: usize = count(wire.candidates_token_count);
        let thoughts: usize = count(wire.thoughts_token_count);
        // Some responses count thoughts in both fields. The total shows it.
        let is_included = wire.total_token_count == Some(input_tokens.saturating_add(answer));
        Self {
            input_tokens,
            output_tokens: if is_included { answer } else { answer.saturating_add(thoughts) },
            // The prompt includes the cached tokens.
            cache_read_tokens: wire.cached_content_token_count,
            reasoning_tokens: wire.thoughts_token_count,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn usage(json: Value) -> TokenUsage {
        serde_json::from_value::<WireUsage>(json).unwrap().into()
    }

    #[test]
    fn all_tokens_are_counted_once() {
        let expected = TokenUsage {
            input_tokens: 112,
            output_tokens: 50,
            cache_read_tokens: Some(64),
            reasoning_tokens: Some(30),
            ..TokenUsage::default()
        };
        let separate = json!({
            "promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30, "toolUsePromptTokenCount": 12, "totalTokenCount": 162,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
        });
        assert_eq!(usage(separate), expected);
        let included = json!({
            "promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 50,
            "thoughtsTokenCount": 30, "toolUsePromptTokenCount": 12, "totalTokenCount": 162,
        });
        assert_eq!(usage(included), expected);
        assert_eq!(usage(json!({})), TokenUsage::default());
        let huge = usage(json!({"promptTokenCount": usize::MAX, "toolUsePromptTokenCount": 1}));
        assert_eq!(huge.input_tokens, usize::MAX);
    }

    #[test]
    fn later_count_replaces_an_earlier_count() {
        let mut wire = WireUsage::default();
        for chunk in [
            json!({"promptTokenCount": 9, "cachedContentTokenCount": 4, "totalTokenCount": 9}),
            json!({"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}),
            json!({"candidatesTokenCount": 5, "thoughtsTokenCount": 1, "totalTokenCount": 15}),
        ] {
            wire.update(serde_json::from_value(chunk).unwrap());
        }
        let usage = TokenUsage::from(wire);
        assert_eq!((usage.input_tokens, usage.output_tokens), (9, 6));
        assert_eq!(usage.cache_read_tokens, Some(4));
    }
}
