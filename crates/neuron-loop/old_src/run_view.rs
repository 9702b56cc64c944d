//! What a callback sees of the run.

use neuron_types::{Message, Role, TokenUsage};

use crate::AgentLoop;

/// What a callback sees of the run: what it has used so far, and the conversation.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunView<'a> {
    /// The calls of the model that were answered in this run. Before a call of the model it is also
    /// the number of the turn that begins, from zero.
    pub turns: usize,
    /// The tool calls that were started in this run.
    pub tool_calls: usize,
    /// The tokens of this run.
    pub usage: &'a TokenUsage,
    /// The conversation, with what came before this run.
    pub messages: &'a [Message],
}

impl RunView<'_> {
    /// Whether the model's last answer called this tool.
    #[must_use]
    pub fn called(&self, tool: &str) -> bool {
        let mut answers = self.messages.iter().rev();
        let last = answers.find(|message| message.role == Role::Assistant);
        last.is_some_and(|answer| answer.tool_uses().any(|call| call.name == tool))
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// The run, as callbacks see it.
    pub(crate) fn view(&self) -> RunView<'_> {
        RunView {
            turns: self.run.turns,
            tool_calls: self.run.tool_calls,
            usage: &self.run.usage,
            messages: &self.request.messages,
        }
    }
}
