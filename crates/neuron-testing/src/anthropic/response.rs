//! The JSON body of a response of the Messages API that is not streamed.

use neuron_types::{CompletionResponse, StopReason};
use serde_json::{Value, json};

use super::block::{sent, whole};
use super::stop_reason::stop_reason_to_wire;
use super::usage::final_usage;
use crate::json::merge;

/// Returns the JSON body that Anthropic sends for a response that is not streamed.
///
/// Arguments that are not valid JSON ([`ToolCall::invalid_json`]) become a string with their text.
///
/// # Example
///
/// ```
/// use neuron_testing::anthropic::json_body;
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let body = json_body(&CompletionResponse {
///     id: "msg_1".into(),
///     model: "claude-sonnet-4-6".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// });
/// assert_eq!(body["content"][0]["text"], "hello");
/// assert_eq!(body["stop_reason"], "end_turn");
/// ```
///
/// [`ToolCall::invalid_json`]: neuron_types::ToolCall::invalid_json
#[must_use]
pub fn json_body(response: &CompletionResponse) -> Value {
    json!({
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": sent(&response.message.content).map(whole).collect::<Vec<_>>(),
        "stop_reason": stop_reason_to_wire(&response.stop_reason),
        "stop_sequence": null,
        "stop_details": stop_details(&response.stop_reason),
        "usage": merge(final_usage(&response.usage), json!({"service_tier": "standard"})),
    })
}

/// Returns the value of `stop_details` if the stop reason is sent as `refusal`. Returns null for other stop reasons.
pub(super) fn stop_details(reason: &StopReason) -> Value {
    match stop_reason_to_wire(reason) {
        "refusal" => json!({"type": "refusal", "category": null, "explanation": null}),
        _ => Value::Null,
    }
}
