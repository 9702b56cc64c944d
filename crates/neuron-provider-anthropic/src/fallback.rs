//! Responses that a second model continued after the first model declined. A block of type `fallback` separates the
//! blocks of the two models.
//!
//! <https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback>

use std::collections::HashSet;

use neuron_model::ContentBlock;
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// Type of the block that separates the output of two models.
const FALLBACK: &str = "fallback";

/// Returns `true` if the block is a `fallback` block.
pub(crate) fn is_fallback(block: &ContentBlock) -> bool {
    kind(block) == Some(FALLBACK)
}

/// Returns the name of the model that continues after a `fallback` block. Returns `None` for a block of another type.
pub(crate) fn next_model(block: &Map<String, Value>) -> Option<&str> {
    let is_fallback = block.get("type").is_some_and(|kind| kind == FALLBACK);
    is_fallback.then_some(block)?.get("to")?.get("model")?.as_str()
}

/// Removes the blocks of a declined model that the API rejects in the next request.
///
/// These are reasoning, tool calls, and server tool calls without a result, if they come before the last `fallback`
/// block. The removed tool calls must not run either.
pub(crate) fn without_abandoned(content: &mut Vec<ContentBlock>) {
    let Some(last) = content.iter().rposition(is_fallback) else {
        return;
    };
    let results = content.iter().filter_map(|block| text(block, "tool_use_id"));
    let answered: HashSet<String> = results.map(str::to_owned).collect();
    let mut index = 0;
    // The blocks after the last `fallback` block belong to the model that generated the response.
    content.retain(|block| {
        index += 1;
        index > last || !is_abandoned(block, &answered)
    });
}

/// Returns `true` if the API rejects a block that a declined model generated. `answered` contains the ids of the calls
/// that have a result.
fn is_abandoned(block: &ContentBlock, answered: &HashSet<String>) -> bool {
    match block {
        ContentBlock::Thinking { .. }
        | ContentBlock::RedactedThinking { .. }
        | ContentBlock::ToolUse { .. } => true,
        block => match kind(block) {
            Some("thinking" | "redacted_thinking" | "connector_text" | "tool_use") => true,
            Some("server_tool_use" | "mcp_tool_use") => {
                !text(block, "id").is_some_and(|id| answered.contains(id))
            }
            _ => false,
        },
    }
}

/// Returns the field `type` of a [`ContentBlock::Raw`] of this API, or `None` for any other block.
fn kind(block: &ContentBlock) -> Option<&str> {
    text(block, "type")
}

/// Returns the text of the field `key` in a [`ContentBlock::Raw`] of this API. Returns `None` for any other block, or
/// if the field is not a text.
fn text<'b>(block: &'b ContentBlock, key: &str) -> Option<&'b str> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => json.get(key)?.as_str(),
        _ => None,
    }
}
