//! Encodes a response of Gemini, as one JSON body and as the chunks of a stream.

use neuron_types::{CompletionResponse, StopReason};
use serde_json::{Value, json};

use super::finish_reason::finish_reason_to_wire;
use super::part::{streamed_parts, whole_parts};
use super::route::Route;
use super::usage::{part_of_usage, usage_metadata};
use crate::json::{merge, sparse};
use crate::{Wire, base64};

/// Returns the JSON body that Gemini sends for a response that is not streamed, to a request to `route`.
///
/// Content blocks that Gemini cannot express are left out. The parts have the server's signatures, see
/// [`thought_signature`](super::thought_signature). A [`StopReason::Refusal`] without content becomes a block of the
/// prompt (`promptFeedback`), without a candidate.
///
/// # Example
///
/// ```
/// use neuron_testing::gemini::{Route, json_body};
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let route = Route::parse("/v1beta/models/gemini-3.8-flash:generateContent").unwrap();
/// let response = CompletionResponse {
///     id: "msg_1".into(),
///     model: "gemini-3.8-flash".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// };
/// let body = json_body(&response, &route);
/// assert_eq!(body["candidates"][0]["content"]["parts"][0]["text"], "hello");
/// assert_eq!(body["candidates"][0]["finishReason"], "STOP");
/// assert_eq!(body["usageMetadata"]["totalTokenCount"], 12);
/// ```
#[must_use]
pub fn json_body(response: &CompletionResponse, route: &Route) -> Value {
    if is_blocked(response) {
        return blocked(response);
    }
    let candidate = merge(candidate(whole_parts(response, route)), end(response));
    envelope(response, json!({"candidates": [candidate]}), usage_metadata(&response.usage))
}

/// Returns the bytes of the whole event stream that Gemini sends for this response, to a request to `route`.
///
/// A chunk has `chunk_chars` characters. The chunks have the line format of `wire`. The splits and cuts of `wire` are
/// ignored, because only a server applies them.
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::gemini::{Route, sse_bytes};
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "msg_1".into(), model: "m".into(), message: Message::assistant("hello"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let route = Route::parse("/v1beta/models/m:streamGenerateContent").unwrap();
/// let bytes = sse_bytes(&response, 4, &Wire::default(), &route);
/// let text = String::from_utf8(bytes).unwrap();
/// assert_eq!(text.matches("data: {").count(), 3); // "hell", "o", and the end with the signature
/// ```
#[must_use]
pub fn sse_bytes(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    route: &Route,
) -> Vec<u8> {
    stream_chunks(response, chunk_chars, route).iter().flat_map(|chunk| wire.data(chunk)).collect()
}

/// Returns the JSON of all chunks of a stream. Only the last chunk has a finish reason.
pub(super) fn stream_chunks(
    response: &CompletionResponse,
    chunk_chars: usize,
    route: &Route,
) -> Vec<Value> {
    if is_blocked(response) {
        return vec![blocked(response)];
    }
    let mut parts = streamed_parts(response, chunk_chars, route);
    // The last chunk has the signature of a text, or else an empty text.
    let is_signed_text =
        |part: &Value| part.get("thoughtSignature").is_some() && part.get("text").is_some();
    let last = match parts.pop_if(|part| is_signed_text(part)) {
        Some(signed) => vec![signed],
        None if parts.is_empty() => Vec::new(),
        None => vec![json!({"text": ""})],
    };
    let count = parts.len() + 1;
    let candidates = parts.into_iter().map(|part| candidate(vec![part]));
    let candidates = candidates.chain([merge(candidate(last), end(response))]).enumerate();
    let chunk = |(index, candidate): (usize, Value)| {
        let usage = part_of_usage(&response.usage, index + 1, count);
        envelope(response, json!({"candidates": [candidate]}), usage)
    };
    candidates.map(chunk).collect()
}

/// Returns the fields of a response around its candidates.
fn envelope(response: &CompletionResponse, fields: Value, usage: Value) -> Value {
    merge(
        fields,
        json!({
            "usageMetadata": usage,
            "modelVersion": response.model,
            "responseId": response.id,
        }),
    )
}

/// Returns a candidate. Gemini leaves out `parts` if there are none.
fn candidate(parts: Vec<Value>) -> Value {
    let parts = Some(parts).filter(|parts| !parts.is_empty());
    json!({"content": sparse(json!({"parts": parts, "role": "model"})), "index": 0})
}

/// Returns the fields of a candidate at the end of a response.
fn end(response: &CompletionResponse) -> Value {
    let reason = finish_reason_to_wire(&response.stop_reason);
    let ratings = (reason == "SAFETY").then(|| {
        let category = "HARM_CATEGORY_DANGEROUS_CONTENT";
        json!([{"category": category, "probability": "HIGH", "blocked": true}])
    });
    // The token with which the next request continues a long response.
    let token = (reason == "CONTINUATION")
        .then(|| base64::encode(format!("continues/{}", response.id).as_bytes()));
    sparse(json!({"finishReason": reason, "safetyRatings": ratings, "continuationToken": token}))
}

/// Returns `true` if the response is a block of the prompt.
fn is_blocked(response: &CompletionResponse) -> bool {
    response.stop_reason == StopReason::Refusal && response.message.content.is_empty()
}

/// Returns the response for a blocked prompt, which has no candidate.
fn blocked(response: &CompletionResponse) -> Value {
    let feedback = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}});
    envelope(response, feedback, usage_metadata(&response.usage))
}
