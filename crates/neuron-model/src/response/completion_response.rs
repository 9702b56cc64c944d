//! The response of a model.

use serde::{Deserialize, Serialize};

use crate::{Message, TokenUsage};

/// A complete response of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionResponse {
    /// The provider's id of the response, for logs. Empty if the provider sends no id.
    pub id: String,
    /// Name of the model that created the response.
    pub model: String,
    /// The assistant message.
    pub message: Message,
    /// The tokens that the call used.
    pub usage: TokenUsage,
    /// The reason why the model stopped.
    pub stop_reason: StopReason,
}

/// The reason why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The response is complete.
    EndTurn,
    /// The response has tool calls, and the model waits for their results.
    ToolUse,
    /// The response was cut off at the token limit.
    MaxTokens,
    /// The model produced a stop sequence.
    StopSequence,
    /// The response was cut off by a content filter of the provider.
    ContentFilter,
    /// The provider paused after it summarised the conversation. The response continues after the next request, which
    /// must contain this response.
    Compaction,
    /// The provider paused a long response. The response continues after the next request, which must contain this
    /// response.
    PauseTurn,
    /// The model or the provider refused to respond.
    Refusal,
    /// The response was cut off because the context window is full.
    ContextWindowExceeded,
    /// Any other reason, as reported by the provider.
    // Untagged, so that an unknown reason is stored as a plain string.
    #[serde(untagged)]
    Other(String),
}

/// The reason in [`StopReason::Other`] of a run that ended because the model gave an empty answer, also after the
/// retries.
pub const EMPTY_ANSWER: &str = "empty_answer";

impl StopReason {
    /// Returns `true` if the model wrote a tool call that the vendor could not read. The response then lacks the call.
    ///
    /// Sources: [Gemini](https://ai.google.dev/api/generate-content#FinishReason),
    /// [Bedrock](https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html).
    #[must_use]
    pub fn is_malformed_call(&self) -> bool {
        const BEGINNINGS: [&str; 3] = ["MALFORMED_", "UNEXPECTED_", "malformed_"];
        let is_malformed = |reason: &str| BEGINNINGS.iter().any(|begin| reason.starts_with(begin));
        matches!(self, Self::Other(reason) if is_malformed(reason))
    }
}
