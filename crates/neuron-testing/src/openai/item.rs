//! Converts the content of a response to output items of the Responses API.

use neuron_types::{CompletionResponse, ContentBlock, StopReason};
use serde_json::{Value, json};

use super::message::arguments;
use crate::json::sparse;

/// Returns the output items that the Responses API sends for this response. Content blocks that the API cannot express
/// are left out.
///
/// A reasoning item has the signature of its block as encrypted content, or `encrypted` if the block has no signature.
/// If `encrypted` is `None`, no reasoning item has encrypted content, even with a signature.
pub(super) fn output_items(response: &CompletionResponse, encrypted: Option<&str>) -> Vec<Value> {
    let content = response.message.content.iter().enumerate();
    let mut items: Vec<Value> =
        content.filter_map(|(index, block)| item(response, index, block, encrypted)).collect();
    // Only the last item of an incomplete response has the status `incomplete`. According to the types of OpenAI's SDK,
    // an image has no such status.
    let has_status =
        |item: &&mut Value| item.get("type").is_some_and(|kind| kind != "image_generation_call");
    if incomplete_reason(&response.stop_reason).is_some()
        && let Some(last) = items.last_mut().filter(has_status)
        && let Some(status) = last.get_mut("status")
    {
        *status = "incomplete".into();
    }
    items
}

/// Returns the output item of one content block, or `None` if the API cannot express the block.
fn item(
    response: &CompletionResponse,
    index: usize,
    block: &ContentBlock,
    encrypted: Option<&str>,
) -> Option<Value> {
    let id = |prefix: &str| format!("{prefix}_{}_{index}", response.id);
    Some(match block {
        ContentBlock::Raw { provider, json, portable } if provider == "openai" => {
            match (json.get("type").and_then(Value::as_str)?, json.get("refusal")) {
                // Raw fields of a Chat Completions message, which has its refusal at the top level.
                ("message", Some(Value::String(refusal))) => {
                    message(&id("msg"), refusal_part(refusal))
                }
                ("message", _) if json.get("content").is_some() => json.clone(),
                ("message" | "custom" | "function", _) => {
                    return item(response, index, portable.as_deref()?, encrypted);
                }
                _ => json.clone(),
            }
        }
        ContentBlock::Text(text) => {
            let part = match response.stop_reason {
                StopReason::Refusal => refusal_part(text),
                _ => json!({
                    "type": "output_text",
                    "annotations": [],
                    "logprobs": [],
                    "text": text,
                }),
            };
            message(&id("msg"), part)
        }
        ContentBlock::Thinking { thinking, signature } => {
            let summary = match thinking.as_str() {
                "" => json!([]),
                text => json!([{"type": "summary_text", "text": text}]),
            };
            let encrypted = encrypted.map(|it| if signature.is_empty() { it } else { signature });
            sparse(json!({
                "id": id("rs"),
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": encrypted.filter(|text| !text.is_empty()),
            }))
        }
        ContentBlock::ToolUse { id: call_id, name, input } => json!({
            "id": id("fc"),
            "type": "function_call",
            "status": "completed",
            "arguments": arguments(input),
            "call_id": call_id,
            "name": name,
        }),
        ContentBlock::Raw { portable: Some(block), .. } => {
            return item(response, index, block, encrypted);
        }
        _ => return None,
    })
}

fn message(id: &str, part: Value) -> Value {
    json!({
        "id": id,
        "type": "message",
        "status": "completed",
        "content": [part],
        "role": "assistant",
    })
}

fn refusal_part(text: &str) -> Value {
    json!({"type": "refusal", "refusal": text})
}

/// Returns the `reason` in `incomplete_details`, or `None` if a response with this stop reason is complete.
pub(super) fn incomplete_reason(reason: &StopReason) -> Option<&str> {
    match reason {
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => Some("max_output_tokens"),
        StopReason::ContentFilter => Some("content_filter"),
        StopReason::Other(reason) => Some(reason),
        _ => None,
    }
}
