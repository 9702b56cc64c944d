//! The result of an agent's run.

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, TokenUsage};

/// The result of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// The text of all assistant messages since the last user message.
    pub response: String,
    /// The whole conversation.
    pub messages: Vec<Message>,
    /// The tokens of this run, including nested agents. Responses without reported usage are estimated.
    pub usage: TokenUsage,
    /// Number of model calls in this run.
    pub turns: usize,
    /// The stop reason of the last response. With [`StopReason::EndTurn`] and [`StopReason::StopSequence`] the response
    /// is complete. With [`StopReason::ToolUse`], a condition or a typed output ended the run after the tools ran. Any
    /// other reason means that the response was cut off or refused.
    pub stop_reason: StopReason,
    /// The limit that made the loop ask the agent to finish, with [`OnLimit::Finalize`](crate::OnLimit::Finalize).
    /// `None` if no limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}
