//! The parts of a response in Gemini's format.

use neuron_types::{CompletionResponse, ContentBlock, ToolCall};
use serde_json::{Value, json};

use super::route::Route;
use super::signature::sign;
use crate::chunks::chunks;
use crate::json::{merge, sparse};

/// Returns the parts of a response that is not streamed. The first function call, or the last part that is no thought,
/// has a signature.
pub(super) fn whole_parts(response: &CompletionResponse, route: &Route) -> Vec<Value> {
    let mut parts = unsigned_parts(response, route);
    if let Some(part) = signed_index(&parts, route).and_then(|index| parts.get_mut(index)) {
        sign(part, route);
    }
    parts
}

/// Returns the parts of a stream, in order. A text or a thought is split into pieces of `chunk_chars` characters, and
/// all other parts are whole.
///
/// The signature of a text is on a last part with an empty text, as Gemini streams it.
pub(super) fn streamed_parts(
    response: &CompletionResponse,
    chunk_chars: usize,
    route: &Route,
) -> Vec<Value> {
    let mut parts = unsigned_parts(response, route);
    match signed_index(&parts, route).and_then(|index| parts.get_mut(index)) {
        Some(part) if is_plain_text(part) => {
            let mut last = json!({"text": ""});
            sign(&mut last, route);
            parts.push(last);
        }
        Some(part) => sign(part, route),
        None => {}
    }
    parts.into_iter().flat_map(|part| pieces(part, chunk_chars)).collect()
}

/// Returns the parts of a response without the server's signatures. Content blocks that Gemini cannot express are left
/// out. A raw block of another platform or provider is replaced by a standard block with the same content.
///
/// If the arguments of a tool call are not valid JSON, they become a string with their text. Gemini has no format for
/// invalid arguments, because it parses the output of a model.
fn unsigned_parts(response: &CompletionResponse, route: &Route) -> Vec<Value> {
    let part = |block: &ContentBlock| match block {
        ContentBlock::Raw { provider, json, .. } if provider == route.platform.provider() => {
            Some(json.clone())
        }
        block => match block.portable()? {
            ContentBlock::Text(text) => Some(json!({"text": text})),
            // Gemini does not sign the summary of a thought.
            ContentBlock::Thinking { thinking, .. } => {
                Some(json!({"text": thinking, "thought": true}))
            }
            ContentBlock::ToolUse { id, name, input } => {
                let args = ToolCall::invalid_json(input).map_or_else(|| input.clone(), Value::from);
                // Models before the third generation send no ids.
                let id = Some(id).filter(|id| route.has_signatures() && !id.is_empty());
                Some(json!({"functionCall": sparse(json!({"id": id, "name": name, "args": args}))}))
            }
            _ => None,
        },
    };
    response.message.content.iter().filter_map(part).collect()
}

/// Returns the index of the part to sign: the first function call, or the last part that is no thought. Returns `None`
/// if there is no such part, or if the model sends no signatures.
fn signed_index(parts: &[Value], route: &Route) -> Option<usize> {
    if !route.has_signatures() {
        return None;
    }
    let call = parts.iter().position(|part| part.get("functionCall").is_some());
    call.or_else(|| parts.iter().rposition(|part| part.get("thought").is_none()))
}

/// Returns `true` if a part has a text and no signature.
fn is_plain_text(part: &Value) -> bool {
    part.get("text").is_some() && part.get("thoughtSignature").is_none()
}

/// Splits a text or a thought into parts of `chunk_chars` characters. Returns any other part unchanged.
fn pieces(part: Value, chunk_chars: usize) -> Vec<Value> {
    match part.get("text").and_then(Value::as_str) {
        Some(text) if is_plain_text(&part) && !text.is_empty() => chunks(text, chunk_chars)
            .map(|piece| merge(part.clone(), json!({"text": piece})))
            .collect(),
        _ => vec![part],
    }
}
