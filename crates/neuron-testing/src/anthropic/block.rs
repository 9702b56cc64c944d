//! The content blocks of a response in Anthropic's format.

use neuron_types::{ContentBlock, ToolCall};
use serde_json::{Map, Value, json};

use crate::chunks::chunks;
use crate::json::merge;

/// Returns the blocks that Anthropic would send. A raw block with another provider's JSON is replaced by a standard
/// block with the same content. If there is no such standard block, it is left out.
pub(super) fn sent(content: &[ContentBlock]) -> impl Iterator<Item = &ContentBlock> {
    content.iter().filter_map(|block| match block {
        ContentBlock::Raw { provider, .. } if provider == "anthropic" => Some(block),
        block => block.portable(),
    })
}

/// Returns the JSON of a block in a response that is not streamed.
///
/// If the arguments of a tool call are not valid JSON, they become a string with their text. Anthropic's API has no
/// format for invalid arguments, because Anthropic parses the output of a model before it sends a whole response. An
/// empty object would make a broken call look valid.
pub(super) fn whole(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Raw { json, .. } => json.clone(),
        ContentBlock::Text(text) => json!({"type": "text", "text": text}),
        ContentBlock::Thinking { thinking, signature } => {
            json!({"type": "thinking", "thinking": thinking, "signature": signature})
        }
        ContentBlock::RedactedThinking { data } => {
            json!({"type": "redacted_thinking", "data": data})
        }
        ContentBlock::ToolUse { id, name, input } => {
            let input = ToolCall::invalid_json(input).map_or_else(|| input.clone(), Value::from);
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        ContentBlock::Compaction { content } => json!({"type": "compaction", "content": content}),
        // A model never sends a block of another kind. A script may still contain one, to test a client with an unknown
        // kind.
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

/// Returns the JSON of a block in its `content_block_start` event, and the JSON of each delta. A delta has up to
/// `chunk_chars` characters.
pub(super) fn streamed(block: &ContentBlock, chunk_chars: usize) -> (Value, Vec<Value>) {
    let (empty, deltas) = match block {
        ContentBlock::Text(text) => {
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            (json!({"text": ""}), chunks(text, chunk_chars).map(delta).collect())
        }
        ContentBlock::Thinking { thinking, signature } => {
            let delta = |piece| json!({"type": "thinking_delta", "thinking": piece});
            let signature = (!signature.is_empty())
                .then(|| json!({"type": "signature_delta", "signature": signature}));
            let deltas = chunks(thinking, chunk_chars).map(delta).chain(signature).collect();
            (json!({"thinking": "", "signature": ""}), deltas)
        }
        ContentBlock::ToolUse { input, .. } => {
            let json = match ToolCall::invalid_json(input) {
                Some(raw) => raw.to_owned(),
                // Anthropic streams empty arguments as one empty delta.
                None if input.as_object().is_some_and(Map::is_empty) => String::new(),
                None => input.to_string(),
            };
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let pieces = std::iter::once("").chain(chunks(&json, chunk_chars));
            (json!({"input": {}}), pieces.map(delta).collect())
        }
        ContentBlock::Raw { json, .. } => match (json.get("type"), json.get("input")) {
            (Some(kind), Some(Value::Object(input))) if kind == "server_tool_use" => {
                let text = Value::from(input.clone()).to_string();
                let text = if input.is_empty() { "" } else { &text };
                let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
                (json!({"input": {}}), chunks(text, chunk_chars).map(delta).collect())
            }
            _ => (json!({}), Vec::new()),
        },
        ContentBlock::Compaction { content } => {
            let delta = json!({"type": "compaction_delta", "content": content});
            (json!({"content": null}), vec![delta])
        }
        // Anthropic sends all other kinds complete in `content_block_start`, without deltas.
        _ => (json!({}), Vec::new()),
    };
    (merge(whole(block), empty), deltas)
}
