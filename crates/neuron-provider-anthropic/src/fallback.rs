//! Responses in which the API changed the model because the first one declined.
//!
//! <https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback>
//!
//! A `fallback` block separates the output of the two models.

use std::collections::HashSet;

use neuron_types::ContentBlock;
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// Type of the block.
const FALLBACK: &str = "fallback";

pub(crate) fn is_fallback(block: &ContentBlock) -> bool {
    kind(block) == Some(FALLBACK)
}

/// Returns the model that continues after a `fallback` block. `None` for other blocks.
pub(crate) fn next_model(block: &Map<String, Value>) -> Option<&str> {
    let is_fallback = block.get("type").is_some_and(|kind| kind == FALLBACK);
    is_fallback.then_some(block)?.get("to")?.get("model")?.as_str()
}

/// Removes the blocks of abandoned attempts that the API rejects in the next request.
///
/// These are reasoning, tool calls, and server tool calls without a result, if they precede the last `fallback` block.
/// The tool calls must not run either.
pub(crate) fn without_abandoned(content: &mut Vec<ContentBlock>) {
    let Some(last) = content.iter().rposition(is_fallback) else {
        return;
    };
    let results = content.iter().filter_map(|block| text(block, "tool_use_id"));
    let answered: HashSet<String> = results.map(str::to_owned).collect();
    let mut index = 0;
    // Later blocks belong to the model that generated the response.
    content.retain(|block| {
        index += 1;
        index > last || !is_abandoned(block, &answered)
    });
}

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

/// Returns the type of a raw block.
fn kind(block: &ContentBlock) -> Option<&str> {
    text(block, "type")
}

fn text<'b>(block: &'b ContentBlock, key: &str) -> Option<&'b str> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => json.get(key)?.as_str(),
        _ => None,
    }
}
