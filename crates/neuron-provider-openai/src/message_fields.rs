//! Fields of a response's message that this crate does not know. This module defines which fields are kept, how
//! streamed fragments are merged, and which fields are sent back.

use neuron_model::ContentBlock;
use serde_json::{Map, Value};

use crate::call::{CallFields, is_call};
use crate::lenient;
use crate::request::PROVIDER;

/// Names of the unknown fields that the API accepts in requests too. All other unknown fields are kept but not sent
/// back, because strict servers reject fields that only responses have. Examples are `annotations`, citations, and
/// Groq's `executed_tools`.
///
/// - `refusal`, `audio`: documented in OpenAI's reference of the assistant message.
/// - `reasoning_details`: documented in OpenRouter's "Reasoning tokens". MiniMax and Snowflake have the field too.
/// - `extra_content`: Gemini's thought signatures outside of calls.
/// - `thinking_blocks`: documented in LiteLLM's "Reasoning content".
/// - `reasoning_opaque`, `reasoning_text`: fields of GitHub Copilot.
const SENT: [&str; 7] = [
    "refusal",
    "audio",
    "reasoning_details",
    "extra_content",
    "thinking_blocks",
    "reasoning_opaque",
    "reasoning_text",
];

/// Returns `true` if the next request contains the unknown field `key` with this value.
pub(crate) fn is_sent_back(key: &str, value: &Value) -> bool {
    match key {
        // The API accepts earlier speech only by its id, so speech without an id is not sent back.
        "audio" => value.get("id").is_some_and(|id| !lenient::is_blank(id)),
        key => SENT.contains(&key),
    }
}

/// Returns `true` if the fields contain a refusal or speech that is sent back in place of the message's text.
pub(crate) fn contains_text(fields: &Map<String, Value>) -> bool {
    let mut words = ["refusal", "audio"].into_iter();
    words.any(|key| fields.get(key).is_some_and(|value| is_sent_back(key, value)))
}

/// Returns the unknown message fields in a block. Returns `None` if the block contains anything else or is of another
/// vendor.
pub(crate) fn own_fields<'a>(
    block: &'a ContentBlock,
    vendor: &str,
) -> Option<&'a Map<String, Value>> {
    match block {
        ContentBlock::Raw { provider, json: Value::Object(fields), .. }
            if provider == vendor && is_message_fields(fields) =>
        {
            Some(fields)
        }
        _ => None,
    }
}

/// Returns `true` if the JSON of a [`ContentBlock::Raw`] comes from Chat Completions. It then contains a tool call, or
/// the unknown fields of a message. The Responses API does not accept such JSON as an item.
pub(crate) fn is_own_fields(fields: &Map<String, Value>) -> bool {
    is_message_fields(fields) || is_call(fields)
}

/// Returns `true` if the JSON of a [`ContentBlock::Raw`] contains the unknown fields of a message. Such JSON has the
/// type `message` and no `content`. An item of the Responses API with this type always has `content`.
fn is_message_fields(fields: &Map<String, Value>) -> bool {
    fields.get("type").is_some_and(|kind| kind == "message") && !fields.contains_key("content")
}

/// Returns a [`ContentBlock::Raw`] with the unknown fields of a message, or `None` if all fields are empty.
pub(crate) fn block(fields: Map<String, Value>) -> Option<ContentBlock> {
    // The type `message` marks the block, so a field `type` of the server is dropped.
    let is_kept = |key: &str, value: &Value| key != "type" && !lenient::is_blank(value);
    let fields = fields.into_iter().filter(|(key, value)| is_kept(key, value));
    let kind = ("type".to_owned(), Value::from("message"));
    let json: Map<_, _> = std::iter::once(kind).chain(fields).collect();
    if json.len() == 1 {
        return None;
    }
    let text = message_texts(&json).concat();
    let portable = (!text.is_empty()).then(|| Box::new(ContentBlock::Text(text)));
    let json = Value::Object(json);
    Some(ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable })
}

/// Returns the text of a refusal and the transcript of speech. A missing text is empty.
pub(crate) fn message_texts(fields: &Map<String, Value>) -> [&str; 2] {
    let speech = fields.get("audio").and_then(|audio| audio.get("transcript"));
    [fields.get("refusal"), speech].map(|value| value.and_then(Value::as_str).unwrap_or_default())
}

/// Adds a streamed fragment of the field `key`, as [`merge`] does. Values that always arrive complete, such as ids and
/// types, are replaced and not appended. A fragment of reasoning extends the block that it continues.
pub(crate) fn append_fragment(fields: &mut Map<String, Value>, key: String, piece: Value) {
    // These values arrive complete, and some servers repeat them in every fragment. They must not be appended.
    const NAMES: [&str; 6] = ["id", "type", "index", "format", "name", "channel"];
    let continues: fn(&Value, &Value) -> bool = match key.as_str() {
        "reasoning_details" if piece.is_array() => continues_detail,
        "thinking_blocks" if piece.is_array() => continues_thinking,
        // Signatures arrive complete, so a repeated signature replaces the earlier one.
        "extra_content" | "reasoning_opaque" => return merge(fields, key, piece, |_| false),
        _ => return merge(fields, key, piece, |key| !NAMES.contains(&key)),
    };
    let blocks = fields.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if let (Value::Array(blocks), Value::Array(pieces)) = (blocks, piece) {
        pieces.into_iter().for_each(|piece| grow_block(blocks, piece, continues));
    }
}

/// Appends a fragment of reasoning to the last block for which `continues` returns `true`. If there is no such block,
/// adds the fragment as a new block.
fn grow_block(blocks: &mut Vec<Value>, piece: Value, continues: fn(&Value, &Value) -> bool) {
    const TEXTS: [&str; 4] = ["text", "summary", "data", "thinking"];
    let place = blocks.iter().rposition(|block| continues(block, &piece));
    match (place.and_then(|place| blocks.get_mut(place)), piece) {
        (Some(Value::Object(block)), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(block, key, value, |key| TEXTS.contains(&key));
            }
        }
        (_, piece) => blocks.push(piece),
    }
}

/// Returns `true` if `piece` continues `block` of `reasoning_details`. Both must have an equal `index`, and must not
/// have different types or ids. A fragment without an index always begins a new block.
///
/// <https://openrouter.ai/docs/use-cases/reasoning-tokens>
fn continues_detail(block: &Value, piece: &Value) -> bool {
    let agree = |key: &str| match (block.get(key), piece.get(key)) {
        (Some(one), Some(other)) => {
            one == other || lenient::is_blank(one) || lenient::is_blank(other)
        }
        _ => true,
    };
    let has_index = piece.get("index").is_some_and(Value::is_number);
    has_index && block.get("index") == piece.get("index") && agree("type") && agree("id")
}

/// Returns `true` if `piece` continues `block` of LiteLLM's `thinking_blocks`. A block ends with its signature, so a
/// block with a signature is never continued.
///
/// <https://github.com/BerriAI/litellm/issues/29428>
fn continues_thinking(block: &Value, piece: &Value) -> bool {
    let is_open = block.get("signature").is_none_or(lenient::is_blank);
    is_open && [block, piece].iter().all(|block| block.get("type") == Some(&"thinking".into()))
}

/// Adds the fragment `piece` to the field `key`.
///
/// - A list is appended.
/// - A text is appended if `grows(key)` returns `true`. Otherwise a text that is not empty replaces the earlier text.
/// - An object is merged field by field.
/// - A number or a boolean replaces the earlier value.
/// - A null is ignored.
/// - A value is ignored if its type differs from an earlier text, list or object.
pub(crate) fn merge(
    fields: &mut Map<String, Value>,
    key: String,
    piece: Value,
    grows: fn(&str) -> bool,
) {
    match (fields.get_mut(&key), piece) {
        (_, Value::Null) => {}
        (Some(Value::String(_)), Value::String(piece)) if piece.is_empty() => {}
        (Some(Value::String(text)), Value::String(piece)) if grows(&key) => text.push_str(&piece),
        (Some(Value::String(text)), Value::String(piece)) => *text = piece,
        (Some(Value::Array(items)), Value::Array(mut more)) => items.append(&mut more),
        (Some(Value::Object(fields)), Value::Object(more)) => {
            for (key, piece) in more {
                merge(fields, key, piece, grows);
            }
        }
        // A value of another type never replaces received content.
        (Some(Value::String(_) | Value::Array(_) | Value::Object(_)), _) => {}
        (_, piece) => {
            fields.insert(key, piece);
        }
    }
}

/// Stores a tool call without a name in the unknown fields of the message. Such a call cannot run. It is not sent back,
/// because servers reject it.
pub(crate) fn keep_unnamed_call(fields: &mut Map<String, Value>, call: CallFields) {
    if !call.is_blank() {
        append_fragment(fields, "tool_calls".to_owned(), vec![call.into_json()].into());
    }
}
