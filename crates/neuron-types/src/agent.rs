//! What an agent's run ends with.

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, TokenUsage};

/// The outcome of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// The text of the model's answer: of every assistant message since the last user message.
    pub response: String,
    /// The whole conversation.
    pub messages: Vec<Message>,
    /// The tokens that this run took, with those of agents within its tools; estimates for answers of
    /// which the provider reported none.
    pub usage: TokenUsage,
    /// The calls of the model in this run.
    pub turns: usize,
    /// Why the model stopped. Anything but [`StopReason::EndTurn`] or
    /// [`StopReason::StopSequence`] means that the answer is cut off or refused, or, with
    /// [`StopReason::ToolUse`], that a condition or a typed output ended the run after tools ran.
    pub stop_reason: StopReason,
    /// The limit at which the agent was told to come to an end, where it may land softly; `None` if
    /// the answer came by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}
