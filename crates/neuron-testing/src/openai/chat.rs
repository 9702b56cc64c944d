//! An answer of Chat Completions: in one piece, and as chunks.

use neuron_types::CompletionResponse;
use serde_json::{Map, Value, json};

use super::CREATED;
use super::dialect::{Dialect, LaterIds};
use super::finish::finish_reason_to_wire;
use super::message::{Call, ChatMessage};
use super::obfuscation::obfuscation;
use super::usage::chat_usage;
use crate::Wire;
use crate::chunks::chunks;

/// Returns the JSON body that Chat Completions sends for this response.
///
/// Blocks that the vendor has no form for are left out.
///
/// # Example
///
/// ```
/// use neuron_testing::openai::{Dialect, chat_body};
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let response = CompletionResponse {
///     id: "chatcmpl-1".into(),
///     model: "gpt-5.4-mini".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// };
/// let body = chat_body(&response, &Dialect::default());
/// assert_eq!(body["choices"][0]["message"]["content"], "hello");
/// assert_eq!(body["choices"][0]["finish_reason"], "stop");
/// ```
#[must_use]
pub fn chat_body(response: &CompletionResponse, dialect: &Dialect) -> Value {
    let content = ChatMessage::new(response);
    let mut message = json!({
        "role": "assistant",
        "content": content.text,
        "refusal": content.refusal,
        "annotations": [],
    });
    if let Some(fields) = message.as_object_mut() {
        if !content.reasoning.is_empty() {
            fields.insert(reasoning_key(dialect).into(), content.reasoning.into());
        }
        if !content.calls.is_empty() {
            let calls = content.calls.iter().map(Call::whole).collect();
            fields.insert("tool_calls".into(), Value::Array(calls));
        }
        fields.extend(content.others);
    }
    json!({
        "id": response.id,
        "object": "chat.completion",
        "created": CREATED,
        "model": response.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(response, dialect),
        }],
        "usage": chat_usage(&response.usage),
        "service_tier": "default",
        "system_fingerprint": null,
    })
}

/// Returns the whole event stream that Chat Completions sends for this response, as bytes, with
/// usage and obfuscation.
///
/// A delta has `chunk_chars` characters; `wire` says how lines are written (what it says of chunks
/// and cuts is for the server).
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::openai::{Dialect, chat_bytes};
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "chatcmpl-1".into(), model: "gpt-5.4-mini".into(), message: Message::assistant("hi"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let bytes = chat_bytes(&response, 16, &Wire::default(), &Dialect::default());
/// assert!(bytes.starts_with(b"data: {"));
/// assert!(bytes.ends_with(b"data: [DONE]\n\n"));
/// ```
#[must_use]
pub fn chat_bytes(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
) -> Vec<u8> {
    let options = ChatOptions { include_usage: true, include_obfuscation: true };
    chat_frames(response, chunk_chars, wire, dialect, options).concat()
}

/// What a request says of its stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChatOptions {
    pub(super) include_usage: bool,
    pub(super) include_obfuscation: bool,
}

/// Returns the bytes of every event, `[DONE]` included.
pub(super) fn chat_frames(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
    options: ChatOptions,
) -> Vec<Vec<u8>> {
    let frame = Frame { response, options };
    let mut frames: Vec<Vec<u8>> = deltas(response, chunk_chars, dialect)
        .into_iter()
        .map(|(delta, hidden)| wire.data(&frame.chunk(&delta, None, &hidden)))
        .collect();
    let mut last = frame.chunk(&json!({}), Some(finish_reason(response, dialect)), "");
    if dialect.usage_on_last_choice {
        insert(&mut last, "usage", chat_usage(&response.usage));
    }
    frames.push(wire.data(&last));
    if options.include_usage && !dialect.usage_on_last_choice {
        let mut usage = frame.base();
        insert(&mut usage, "choices", json!([]));
        insert(&mut usage, "usage", chat_usage(&response.usage));
        frame.obfuscate(&mut usage, "");
        frames.push(wire.data(&usage));
    }
    if !dialect.no_done {
        frames.push(wire.data_text("[DONE]"));
    }
    frames
}

/// What all chunks of a stream share.
struct Frame<'a> {
    response: &'a CompletionResponse,
    options: ChatOptions,
}

impl Frame<'_> {
    fn base(&self) -> Value {
        json!({
            "id": self.response.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.response.model,
            "service_tier": "default",
            "system_fingerprint": null,
        })
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>, hidden: &str) -> Value {
        let mut chunk = self.base();
        let choice =
            json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        insert(&mut chunk, "choices", json!([choice]));
        if self.options.include_usage {
            insert(&mut chunk, "usage", Value::Null);
        }
        self.obfuscate(&mut chunk, hidden);
        chunk
    }

    fn obfuscate(&self, chunk: &mut Value, hidden: &str) {
        if self.options.include_obfuscation {
            insert(chunk, "obfuscation", obfuscation(hidden).into());
        }
    }
}

/// Returns every delta but the last, which is empty, with the text in it whose length is hidden.
fn deltas(
    response: &CompletionResponse,
    chunk_chars: usize,
    dialect: &Dialect,
) -> Vec<(Value, String)> {
    let message = ChatMessage::new(response);
    let beginning = message.text.is_some().then_some("");
    let mut deltas =
        vec![(json!({"role": "assistant", "content": beginning, "refusal": null}), String::new())];
    let texts = [
        (reasoning_key(dialect), Some(&message.reasoning)),
        ("content", message.text.as_ref()),
        ("refusal", message.refusal.as_ref()),
    ];
    for (key, text) in texts {
        let pieces = text.into_iter().flat_map(|text| chunks(text, chunk_chars));
        deltas.extend(pieces.map(|piece| (field(key, piece.into()), piece.to_owned())));
    }
    for (index, call) in message.calls.iter().enumerate() {
        let pieces = call_deltas(call, chunk_chars, dialect).into_iter();
        deltas.extend(pieces.map(|(mut piece, hidden)| {
            if !dialect.no_call_index {
                let others = std::mem::take(&mut piece);
                piece.insert("index".into(), index.into());
                piece.extend(others);
            }
            (json!({"tool_calls": [piece]}), hidden)
        }));
    }
    if !message.others.is_empty() {
        deltas.push((message.others.into(), String::new()));
    }
    deltas
}

/// Returns the deltas of one tool call, without its index.
fn call_deltas(
    call: &Call<'_>,
    chunk_chars: usize,
    dialect: &Dialect,
) -> Vec<(Map<String, Value>, String)> {
    let object = |json: Value| json.as_object().cloned().unwrap_or_default();
    let (id, name, arguments) = match call {
        Call::Function { id, name, arguments } if !dialect.whole_arguments => (id, name, arguments),
        whole => return vec![(object(whole.whole()), String::new())],
    };
    let first = json!({
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": ""},
    });
    let later = chunks(arguments, chunk_chars).map(|piece| {
        let function = json!({"arguments": piece});
        let delta = match dialect.later_ids {
            LaterIds::Missing => json!({"function": function}),
            LaterIds::Null => json!({"id": null, "function": function}),
            LaterIds::Empty => json!({"id": "", "function": function}),
        };
        (object(delta), piece.to_owned())
    });
    std::iter::once((object(first), String::new())).chain(later).collect()
}

fn finish_reason<'a>(response: &'a CompletionResponse, dialect: &Dialect) -> &'a str {
    match finish_reason_to_wire(&response.stop_reason) {
        "tool_calls" if dialect.stop_with_calls => "stop",
        word => word,
    }
}

fn reasoning_key(dialect: &Dialect) -> &'static str {
    if dialect.reasoning_field { "reasoning" } else { "reasoning_content" }
}

fn field(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}
