//! The content blocks of a response in Bedrock's format.

use neuron_types::{CompletionResponse, ContentBlock, ToolCall};
use serde_json::{Map, Value, json};

use super::route::Route;
use super::signature::own_signature;
use crate::base64;
use crate::chunks::chunks;
use crate::json::{merge, sparse};

/// The name of Bedrock in a [`ContentBlock::Raw`]. The name is the one in OpenTelemetry's conventions.
const PROVIDER: &str = "aws.bedrock";

/// Returns the content blocks of a response. Content blocks that Bedrock cannot express are left out. A raw block of
/// another provider is replaced by a standard block with the same content.
///
/// Encrypted reasoning is sent as the base64 of its text, because the field has bytes.
///
/// If the arguments of a tool call are not valid JSON, they become a string with their text. Bedrock has no format for
/// invalid arguments in a response that is not streamed.
pub(super) fn blocks(response: &CompletionResponse, route: &Route) -> Vec<Value> {
    let block = |block: &ContentBlock| match block {
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => Some(json.clone()),
        block => match block.portable()? {
            ContentBlock::Text(text) => Some(json!({"text": text})),
            ContentBlock::Thinking { thinking, signature } => {
                let sent = Some(signature.clone()).filter(|signature| !signature.is_empty());
                let signature = sent.or_else(|| own_signature(thinking, route));
                let text = sparse(json!({"text": thinking, "signature": signature}));
                Some(json!({"reasoningContent": {"reasoningText": text}}))
            }
            ContentBlock::RedactedThinking { data } => {
                let content = base64::encode(data.as_bytes());
                Some(json!({"reasoningContent": {"redactedContent": content}}))
            }
            ContentBlock::ToolUse { id, name, input } => {
                let input =
                    ToolCall::invalid_json(input).map_or_else(|| input.clone(), Value::from);
                Some(json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}))
            }
            _ => None,
        },
    };
    response.message.content.iter().filter_map(block).collect()
}

/// Returns the `start` of a block in a stream, if it has one, and its deltas. A delta has up to `chunk_chars`
/// characters.
///
/// Only tool calls, tool results and images have a start. All other blocks begin with their first delta.
pub(super) fn streamed(block: &Value, chunk_chars: usize) -> (Option<Value>, Vec<Value>) {
    let field = |key: &str| block.get(key).filter(|value| !value.is_null());
    if let Some(call) = field("toolUse") {
        let start = without(call, "input");
        return (Some(json!({"toolUse": start})), arguments(call, chunk_chars));
    }
    if let Some(result) = field("toolResult") {
        let content = result.get("content").cloned().unwrap_or_else(|| json!([]));
        let start = without(result, "content");
        return (Some(json!({"toolResult": start})), vec![json!({"toolResult": content})]);
    }
    if let Some(image) = field("image") {
        let start = without(image, "source");
        let delta = without(image, "format");
        return (Some(json!({"image": start})), vec![json!({"image": delta})]);
    }
    if let Some(cited) = field("citationsContent") {
        let list = |key: &str| cited.get(key).and_then(Value::as_array).into_iter().flatten();
        let texts = list("content").filter_map(|content| content.get("text")?.as_str());
        let texts = texts.flat_map(|text| pieces(text, chunk_chars)).map(text_delta);
        let citations = list("citations").map(|citation| json!({"citation": citation}));
        return (None, texts.chain(citations).collect());
    }
    let deltas = match field("reasoningContent") {
        Some(reasoning) => reasoning_deltas(reasoning, chunk_chars),
        None => {
            let text = field("text").and_then(Value::as_str).unwrap_or_default();
            pieces(text, chunk_chars).into_iter().map(text_delta).collect()
        }
    };
    (None, deltas)
}

fn text_delta(text: &str) -> Value {
    json!({"text": text})
}

/// Returns the deltas of the arguments of a tool call. A string is the text of invalid arguments, and is not quoted.
fn arguments(call: &Value, chunk_chars: usize) -> Vec<Value> {
    let json = match call.get("input") {
        Some(Value::String(invalid)) => invalid.clone(),
        Some(input) if !input.as_object().is_some_and(Map::is_empty) => input.to_string(),
        // A call without arguments has one empty delta.
        _ => String::new(),
    };
    let deltas = pieces(&json, chunk_chars).into_iter();
    deltas.map(|piece| json!({"toolUse": {"input": piece}})).collect()
}

/// Returns the deltas of reasoning, which are its text and its signature, or its encrypted content.
fn reasoning_deltas(reasoning: &Value, chunk_chars: usize) -> Vec<Value> {
    let delta = |fields: Value| json!({"reasoningContent": fields});
    let Some(text) = reasoning.get("reasoningText") else {
        return vec![delta(reasoning.clone())];
    };
    let field = |key: &str| text.get(key).and_then(Value::as_str);
    let signature = field("signature").map(|signature| json!({"signature": signature}));
    let text = field("text").unwrap_or_default();
    // Reasoning that is not shown has only a signature.
    let texts = match text.is_empty() && signature.is_some() {
        true => Vec::new(),
        false => pieces(text, chunk_chars),
    };
    texts.into_iter().map(|text| json!({"text": text})).chain(signature).map(delta).collect()
}

/// Splits a text into pieces of `chunk_chars` characters. An empty text has one empty piece.
fn pieces(text: &str, chunk_chars: usize) -> Vec<&str> {
    match text {
        "" => vec![""],
        _ => chunks(text, chunk_chars).collect(),
    }
}

/// Returns an object without one of its fields.
fn without(object: &Value, key: &str) -> Value {
    sparse(merge(object.clone(), json!({(key): null})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(block: Value, start: Option<Value>, deltas: &[Value]) {
        assert_eq!(streamed(&block, 2), (start, deltas.to_vec()), "{block}");
    }

    #[test]
    fn texts_and_reasoning_have_no_start() {
        check(json!({"text": "abc"}), None, &[json!({"text": "ab"}), json!({"text": "c"})]);
        check(json!({"text": ""}), None, &[json!({"text": ""})]);
        let reasoning = |fields: Value| json!({"reasoningContent": fields});
        check(
            reasoning(json!({"reasoningText": {"text": "hmm", "signature": "c2ln"}})),
            None,
            &[
                reasoning(json!({"text": "hm"})),
                reasoning(json!({"text": "m"})),
                reasoning(json!({"signature": "c2ln"})),
            ],
        );
        check(
            reasoning(json!({"reasoningText": {"text": "", "signature": "c2ln"}})),
            None,
            &[reasoning(json!({"signature": "c2ln"}))],
        );
        check(
            reasoning(json!({"reasoningText": {"text": ""}})),
            None,
            &[reasoning(json!({"text": ""}))],
        );
        check(
            reasoning(json!({"redactedContent": "AAAA"})),
            None,
            &[reasoning(json!({"redactedContent": "AAAA"}))],
        );
    }

    #[test]
    fn arguments_are_fragments_of_their_text() {
        let call =
            |input: Value| json!({"toolUse": {"toolUseId": "1", "name": "f", "input": input}});
        let start = || Some(json!({"toolUse": {"toolUseId": "1", "name": "f"}}));
        let delta = |input: &str| json!({"toolUse": {"input": input}});
        check(call(json!({"a": 1})), start(), &["{\"", "a\"", ":1", "}"].map(delta));
        check(call(json!({})), start(), &[delta("")]);
        check(call(json!("{\"a")), start(), &["{\"", "a"].map(delta));
    }

    #[test]
    fn blocks_of_the_vendor_are_streamed() {
        let image = json!({"format": "png", "source": {"bytes": "AAAA"}});
        check(
            json!({"image": image}),
            Some(json!({"image": {"format": "png"}})),
            &[json!({"image": {"source": {"bytes": "AAAA"}}})],
        );
        let result = json!({"toolUseId": "1", "type": "r", "content": [{"text": "a"}]});
        check(
            json!({"toolResult": result}),
            Some(json!({"toolResult": {"toolUseId": "1", "type": "r"}})),
            &[json!({"toolResult": [{"text": "a"}]})],
        );
        let citation = json!({"title": "t"});
        check(
            json!({"citationsContent": {"content": [{"text": "abc"}], "citations": [citation]}}),
            None,
            &[json!({"text": "ab"}), json!({"text": "c"}), json!({"citation": citation})],
        );
    }
}
