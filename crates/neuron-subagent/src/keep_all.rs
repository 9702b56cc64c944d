//! The strategy of an agent that is given none.

use neuron_types::{
    ContentBlock, ContextError, ContextStrategy, Message, RequestRef, SystemPrompt, ToolDefinition,
};

/// Leaves nothing out: a sub-agent has one task, and ends with it.
///
/// # Example
///
/// ```
/// use neuron_subagent::KeepAll;
/// use neuron_types::{ContextStrategy, Message};
///
/// assert!(!KeepAll.should_compact(&[Message::user("hi")], 1_000_000));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepAll;

impl ContextStrategy for KeepAll {
    fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    /// Four bytes of text a token, in the calls of tools and their results too: for answers of which the
    /// provider reports no usage.
    fn token_estimate(&self, messages: &[Message]) -> usize {
        let bytes = |message: &Message| message.content.iter().map(length).sum::<usize>();
        messages.iter().map(|message| bytes(message).div_ceil(4)).sum()
    }

    /// With the instructions and the definitions of the tools.
    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        let instructions: usize = match &request.system {
            Some(SystemPrompt::Text(text)) => text.len(),
            Some(SystemPrompt::Blocks(blocks)) => blocks.iter().map(|block| block.text.len()).sum(),
            None => 0,
        };
        let tool = |tool: &ToolDefinition| {
            tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
        };
        let tools: usize = request.tools.iter().map(tool).sum();
        (instructions + tools).div_ceil(4) + self.token_estimate(request.messages)
    }
}

/// How many bytes of text a block is. Those of images and documents are no text.
fn length(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) | ContentBlock::Thinking { thinking: text, .. } => text.len(),
        ContentBlock::RedactedThinking { data } => data.len(),
        ContentBlock::Compaction { content } => content.len(),
        ContentBlock::Raw { json, portable: None, .. } if !block.is_pin() => json.to_string().len(),
        other => other.to_string().len(),
    }
}
