//! Encodes a response of Bedrock, as one JSON body and as the frames of a stream.

use neuron_types::CompletionResponse;
use serde_json::{Value, json};

use super::block::{blocks, streamed};
use super::frame::frame;
use super::route::Route;
use super::stop_reason::stop_reason_to_wire;
use super::usage::wire_usage;
use crate::Wire;
use crate::json::merge;

/// Returns the JSON body that Bedrock sends for a response that is not streamed, to a request to `route`.
///
/// Content blocks that Bedrock cannot express are left out. The body has neither the id of the response nor the name of
/// the model.
///
/// # Example
///
/// ```
/// use neuron_testing::bedrock::{Route, json_body};
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let route = Route::parse("/model/anthropic.claude-opus-4-6-v1/converse").unwrap();
/// let response = CompletionResponse {
///     id: "msg_1".into(),
///     model: "anthropic.claude-opus-4-6-v1".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// };
/// let body = json_body(&response, &route);
/// assert_eq!(body["output"]["message"]["content"][0]["text"], "hello");
/// assert_eq!(body["stopReason"], "end_turn");
/// assert_eq!(body["usage"]["totalTokens"], 12);
/// ```
#[must_use]
pub fn json_body(response: &CompletionResponse, route: &Route) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": blocks(response, route)}},
        "stopReason": stop_reason_to_wire(&response.stop_reason),
        "usage": wire_usage(&response.usage),
        "metrics": {"latencyMs": LATENCY},
    })
}

/// Returns the bytes of the whole stream that Bedrock sends for this response, to a request to `route`.
///
/// A delta has `chunk_chars` characters. The frames have the format of `wire`. The splits and cuts of `wire` are
/// ignored, because only a server applies them.
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::bedrock::{Route, stream_bytes};
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "msg_1".into(), model: "m".into(), message: Message::assistant("hello"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let route = Route::parse("/model/m/converse-stream").unwrap();
/// let bytes = stream_bytes(&response, 4, &Wire::default(), &route);
/// let text = String::from_utf8_lossy(&bytes);
/// assert_eq!(text.matches("contentBlockDelta").count(), 2); // "hell" and "o"
/// ```
#[must_use]
pub fn stream_bytes(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    route: &Route,
) -> Vec<u8> {
    stream_frames(response, chunk_chars, wire, route).concat()
}

/// Returns all frames of a stream. The last frame has the token counts.
pub(super) fn stream_frames(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    route: &Route,
) -> Vec<Vec<u8>> {
    let mut frames = vec![event("messageStart", json!({"role": "assistant"}), wire)];
    for (index, block) in blocks(response, route).iter().enumerate() {
        let at = |fields: Value| merge(fields, json!({"contentBlockIndex": index}));
        let (start, deltas) = streamed(block, chunk_chars);
        let start =
            start.map(|start| event("contentBlockStart", at(json!({"start": start})), wire));
        frames.extend(start);
        let delta = |delta| event("contentBlockDelta", at(json!({"delta": delta})), wire);
        frames.extend(deltas.into_iter().map(delta));
        frames.push(event("contentBlockStop", at(json!({})), wire));
    }
    let reason = stop_reason_to_wire(&response.stop_reason);
    frames.push(event("messageStop", json!({"stopReason": reason}), wire));
    let usage = wire_usage(&response.usage);
    let metadata = json!({"usage": usage, "metrics": {"latencyMs": LATENCY}});
    frames.push(event("metadata", metadata, wire));
    frames
}

/// The latency that every response reports, in milliseconds.
const LATENCY: u32 = 250;

/// Encodes an event of a stream. A comment of `wire` becomes an event of an unknown type before the event, and padding
/// becomes an unknown field. A client must ignore both.
fn event(name: &str, payload: Value, wire: &Wire) -> Vec<u8> {
    let payload = match wire.padded {
        true => merge(payload, json!({"p": "abcdefghijklmn"})),
        false => payload,
    };
    let comment = wire.comments.then(|| encoded("keepAlive", &json!({})));
    comment.into_iter().flatten().chain(encoded(name, &payload)).collect()
}

fn encoded(name: &str, payload: &Value) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}
