//! The result of an agent's run.

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, TokenUsage};

/// The result of an agent's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// The text of all assistant messages since the last user message.
    pub response: String,
    /// The whole conversation, including messages from before this run.
    pub messages: Vec<Message>,
    /// The tokens that this run used and their [cost](TokenUsage::cost), including the runs of nested agents. For a
    /// response without reported usage, an estimate is counted.
    pub usage: TokenUsage,
    /// Number of model calls of this run that returned a response.
    pub turns: usize,
    /// The stop reason of the last response.
    ///
    /// - [`StopReason::EndTurn`] and [`StopReason::StopSequence`] mean that the response is complete.
    /// - [`StopReason::ToolUse`] means that the run ended after tool calls. The reason is a stop condition of the
    ///   agent, or a typed output that the model returned through a tool.
    /// - Any other reason means that the response was cut off or refused.
    pub stop_reason: StopReason,
    /// Description of the limit that the run reached. `None` if the run reached no limit.
    ///
    /// Set only with `OnLimit::Finalize`. Otherwise a run that reaches a limit ends with an
    /// error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_reached: Option<String>,
}
