//! The content blocks of an answer, in the vendor's form.

use neuron_types::{ContentBlock, ToolCall};
use serde_json::{Value, json};

/// Returns the blocks that the vendor would send, in the vendor's form.
///
/// A raw block of another provider is sent in its portable form or not at all.
pub(super) fn wire_blocks(content: &[ContentBlock]) -> impl Iterator<Item = WireBlock<'_>> {
    content.iter().filter_map(|block| match block {
        ContentBlock::Raw { provider, json, .. } if provider == "anthropic" => {
            Some(WireBlock::Complete(json.clone()))
        }
        block => block.portable().map(WireBlock::from),
    })
}

/// A block of an answer: whole at once, or in deltas.
pub(super) enum WireBlock<'a> {
    Text(&'a str),
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    Compaction(&'a str),
    /// Kinds that a stream sends whole.
    Complete(Value),
}

impl WireBlock<'_> {
    /// The block in an answer in one piece.
    ///
    /// Arguments that are no JSON become a string that holds their text: the vendor parses what a
    /// model wrote before it answers in one piece, so there is no right form for them, and `{}`
    /// would make a broken call look like a good one.
    pub(super) fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Thinking { thinking, signature } => {
                json!({"type": "thinking", "thinking": thinking, "signature": signature})
            }
            Self::ToolUse { id, name, input } => {
                let input = match ToolCall::invalid_json(input) {
                    Some(raw) => Value::from(raw),
                    None => (*input).clone(),
                };
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
            Self::Compaction(content) => json!({"type": "compaction", "content": content}),
            Self::Complete(block) => block.clone(),
        }
    }

    /// The block as `content_block_start` has it.
    pub(super) fn start(&self) -> Value {
        match self {
            Self::Text(_) => json!({"type": "text", "text": ""}),
            Self::Thinking { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::ToolUse { id, name, .. } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
            Self::Compaction(_) => json!({"type": "compaction", "content": null}),
            Self::Complete(block) => block.clone(),
        }
    }
}

impl<'a> From<&'a ContentBlock> for WireBlock<'a> {
    fn from(block: &'a ContentBlock) -> Self {
        match block {
            ContentBlock::Text(text) => Self::Text(text),
            ContentBlock::Thinking { thinking, signature } => {
                Self::Thinking { thinking, signature }
            }
            ContentBlock::ToolUse { id, name, input } => Self::ToolUse { id, name, input },
            ContentBlock::Compaction { content } => Self::Compaction(content),
            ContentBlock::RedactedThinking { data } => {
                Self::Complete(json!({"type": "redacted_thinking", "data": data}))
            }
            // A model answers with none of the rest. The client sees a kind or fields that it
            // does not know.
            other => Self::Complete(serde_json::to_value(other).unwrap_or_default()),
        }
    }
}
