//! What a model answered.

use serde::{Deserialize, Serialize};

use crate::{Message, TokenUsage};

/// A model's whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionResponse {
    /// The provider's identifier of the answer, for logs; empty when it gave none.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The answer.
    pub message: Message,
    /// The tokens it took.
    pub usage: TokenUsage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// It said what it had to say.
    EndTurn,
    /// It waits for the results of tools.
    ToolUse,
    /// It reached the limit on the answer's tokens: the answer is cut off.
    MaxTokens,
    /// It produced one of the stop sequences.
    StopSequence,
    /// The provider's filter cut the answer off.
    ContentFilter,
    /// The provider paused after it summarised the conversation; sending the answer back
    /// continues.
    Compaction,
    /// The provider paused a long turn; sending the answer back continues.
    PauseTurn,
    /// The model or the provider refused to answer.
    Refusal,
    /// The conversation filled the model's context window: the answer is cut off.
    ContextWindowExceeded,
    /// A reason that neuron does not know, in the provider's words.
    #[serde(untagged)]
    Other(String),
}
