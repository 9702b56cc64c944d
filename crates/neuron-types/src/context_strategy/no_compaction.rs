//! The default context strategy, which keeps all messages.

use crate::{
    ContentBlock, ContextError, ContextStrategy, Message, RequestRef, SystemPrompt, ToolDefinition,
};

/// A context strategy that never compacts. The conversation grows until the provider refuses the request.
///
/// # Example
///
/// ```
/// use neuron_types::{ContextStrategy, NoCompaction, Message};
///
/// assert!(!NoCompaction.should_compact(&[Message::user("hi")], 1_000_000));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoCompaction;

impl ContextStrategy for NoCompaction {
    fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    /// Estimates one token for four bytes of text. Tool calls and results are included.
    fn token_estimate(&self, messages: &[Message]) -> usize {
        let bytes = |message: &Message| message.content.iter().map(length).sum::<usize>();
        messages.iter().map(|message| bytes(message).div_ceil(4)).sum()
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    /// Estimates the tokens of the messages, the system prompt and the tool definitions. The
    /// [deferred tools](RequestRef::deferred_tools) do not count.
    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        let instructions: usize = match &request.system {
            Some(SystemPrompt::Text(text)) => text.len(),
            Some(SystemPrompt::Blocks(blocks)) => blocks.iter().map(|block| block.text.len()).sum(),
            None => 0,
        };
        let tool = |tool: &ToolDefinition| {
            tool.name.len() + tool.description.len() + tool.plain_schema().to_string().len()
        };
        let tools: usize = request.tools.iter().map(tool).sum();
        (instructions + tools).div_ceil(4) + self.token_estimate(request.messages)
    }
}

/// Returns the length of a block's text in bytes. For an image or a document, this is the length of the `Display` form.
fn length(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(text) | ContentBlock::Thinking { thinking: text, .. } => text.len(),
        ContentBlock::RedactedThinking { data } => data.len(),
        ContentBlock::Compaction { content } => content.len(),
        ContentBlock::Raw { json, portable: None, .. } if !block.is_mark() => {
            json.to_string().len()
        }
        other => other.to_string().len(),
    }
}
