//! Encodes a response as the server-sent events of Anthropic's Messages API.

use neuron_types::CompletionResponse;
use serde_json::{Value, json};

use super::block::{sent, streamed};
use super::response::{json_body, stop_details};
use super::stop_reason::stop_reason_to_wire;
use super::usage::{final_usage, start_usage};
use crate::Wire;
use crate::json::merge;

/// Returns the bytes of the whole event stream that Anthropic sends for this response.
///
/// A delta has `chunk_chars` characters. The events have the line format of `wire`. The splits and cuts of `wire` are
/// ignored, because only a server applies them.
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::anthropic::sse_bytes;
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let response = CompletionResponse {
///     id: "msg_1".into(),
///     model: "claude-sonnet-4-6".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// };
/// let bytes = sse_bytes(&response, 16, &Wire::default());
/// assert!(bytes.starts_with(b"event: message_start\ndata: {"));
/// assert!(bytes.ends_with(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
/// ```
#[must_use]
pub fn sse_bytes(response: &CompletionResponse, chunk_chars: usize, wire: &Wire) -> Vec<u8> {
    stream_events(response, chunk_chars).iter().flat_map(|event| event_bytes(event, wire)).collect()
}

/// Encodes an event as a server-sent event. The name of the event is the `type` in its JSON.
pub(super) fn event_bytes(event: &Value, wire: &Wire) -> Vec<u8> {
    let name = event.get("type").and_then(Value::as_str);
    wire.event(name.unwrap_or_default(), event)
}

/// Returns the JSON data of all events of a stream. The last event is `message_stop`.
pub(super) fn stream_events(response: &CompletionResponse, chunk_chars: usize) -> Vec<Value> {
    let begun = json!({
        "content": [],
        "stop_reason": null,
        "stop_details": null,
        "usage": start_usage(&response.usage),
    });
    let mut events =
        vec![json!({"type": "message_start", "message": merge(json_body(response), begun)})];
    // Anthropic sends a ping after the first `content_block_start`. A response without content has its ping after
    // `message_start`.
    let mut ping = Some(json!({"type": "ping"}));
    for (index, block) in sent(&response.message.content).enumerate() {
        let (start, deltas) = streamed(block, chunk_chars);
        events.push(json!({
            "type": "content_block_start",
            "index": index,
            "content_block": start,
        }));
        events.extend(ping.take());
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.extend(ping);
    events.push(json!({
        "type": "message_delta",
        "delta": {
            "stop_reason": stop_reason_to_wire(&response.stop_reason),
            "stop_sequence": null,
            "stop_details": stop_details(&response.stop_reason),
        },
        "usage": final_usage(&response.usage),
    }));
    events.push(json!({"type": "message_stop"}));
    events
}
