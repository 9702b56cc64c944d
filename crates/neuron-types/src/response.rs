//! The response of a model.

use serde::{Deserialize, Serialize};

use crate::{Message, TokenUsage};

/// A complete response of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionResponse {
    /// The provider's id of the response, for logs. Empty if there is none.
    pub id: String,
    /// The model that created the response.
    pub model: String,
    /// The assistant message.
    pub message: Message,
    /// The tokens used.
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
    /// The model waits for tool results.
    ToolUse,
    /// The response was cut off at the token limit.
    MaxTokens,
    /// The model produced a stop sequence.
    StopSequence,
    /// A content filter of the provider cut the response off.
    ContentFilter,
    /// The provider paused after it summarised the conversation. Send the response back to continue.
    Compaction,
    /// The provider paused a long turn. Send the response back to continue.
    PauseTurn,
    /// The model or the provider refused to respond.
    Refusal,
    /// The response was cut off because the context window is full.
    ContextWindowExceeded,
    /// A reason unknown to neuron, in the provider's words.
    // Untagged, so that an unknown reason is stored as a plain string.
    #[serde(untagged)]
    Other(String),
}
