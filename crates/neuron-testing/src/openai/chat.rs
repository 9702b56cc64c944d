//! Encodes a response of Chat Completions, as one JSON body and as the chunks of a stream.

use neuron_types::CompletionResponse;
use serde_json::{Value, json};

use super::CREATED;
use super::dialect::{Dialect, LaterIds};
use super::finish::finish_reason_to_wire;
use super::message::ChatMessage;
use super::obfuscation::obfuscation;
use super::usage::chat_usage;
use crate::Wire;
use crate::chunks::chunks;
use crate::json::{merge, sparse};

/// Returns the JSON body that Chat Completions sends for a response that is not streamed.
///
/// Content blocks that Chat Completions cannot express are left out.
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
    let content = ChatMessage::new(response, dialect);
    let message = json!({
        "role": "assistant",
        "content": content.text,
        "refusal": content.refusal,
        "annotations": [],
    });
    let others = sparse(json!({
        reasoning_key(dialect): Some(content.reasoning).filter(|text| !text.is_empty()),
        "tool_calls": Some(content.calls).filter(|calls| !calls.is_empty()),
    }));
    let message = merge(merge(message, others), content.others.into());
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
        "usage": chat_usage(&response.usage, dialect),
        "service_tier": "default",
        "system_fingerprint": null,
    })
}

/// Returns the bytes of the whole event stream that Chat Completions sends for this response. The stream includes the
/// token usage, and the padding in OpenAI's field `obfuscation`.
///
/// A delta has `chunk_chars` characters. The events have the line format of `wire`. The splits and cuts of `wire` are
/// ignored, because only a server applies them.
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

/// The `stream_options` of a request to Chat Completions.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChatOptions {
    pub(super) include_usage: bool,
    pub(super) include_obfuscation: bool,
}

/// Returns the encoded events of a stream, one item per event. Includes `[DONE]`.
pub(super) fn chat_frames(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
    options: ChatOptions,
) -> Vec<Vec<u8>> {
    let chunk = |choices: Value, usage: Option<Value>, hidden: &str| {
        let mut chunk = json!({
            "id": response.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": response.model,
            "service_tier": "default",
            "system_fingerprint": null,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk = merge(chunk, json!({"usage": usage}));
        }
        if options.include_obfuscation {
            chunk = merge(chunk, json!({"obfuscation": obfuscation(hidden)}));
        }
        wire.data(&chunk)
    };
    let choice = |delta: Value, finish_reason: Option<&str>| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}]);
    // With `include_usage`, OpenAI sends `"usage": null` in every chunk except the last.
    let no_usage = || options.include_usage.then_some(Value::Null);
    let usage = || Some(chat_usage(&response.usage, dialect));
    let deltas = deltas(response, chunk_chars, dialect).into_iter();
    let mut frames: Vec<Vec<u8>> =
        deltas.map(|(delta, hidden)| chunk(choice(delta, None), no_usage(), &hidden)).collect();
    let last = choice(json!({}), Some(finish_reason(response, dialect)));
    if dialect.usage_on_last_choice {
        frames.push(chunk(last, usage(), ""));
    } else {
        frames.push(chunk(last, no_usage(), ""));
        frames.extend(options.include_usage.then(|| chunk(json!([]), usage(), "")));
    }
    frames.extend((!dialect.no_done).then(|| wire.data_text("[DONE]")));
    frames
}

/// The JSON of a delta, and its text. In OpenAI's field `obfuscation`, random padding hides the length of this text.
type Delta = (Value, String);

/// Returns all deltas of a stream, except the empty delta with the finish reason.
fn deltas(response: &CompletionResponse, chunk_chars: usize, dialect: &Dialect) -> Vec<Delta> {
    let message = ChatMessage::new(response, dialect);
    // The first delta of a response without text has `"content": null`.
    let beginning = message.text.is_some().then_some("");
    let beginning = json!({"role": "assistant", "content": beginning, "refusal": null});
    let mut deltas = vec![(beginning, String::new())];
    let texts = [
        (reasoning_key(dialect), Some(&message.reasoning)),
        ("content", message.text.as_ref()),
        ("refusal", message.refusal.as_ref()),
    ];
    for (key, text) in texts {
        let pieces = text.into_iter().flat_map(|text| chunks(text, chunk_chars));
        deltas.extend(pieces.map(|piece| (json!({key: piece}), piece.to_owned())));
    }
    for (index, call) in message.calls.iter().enumerate() {
        let index = if dialect.no_call_index { json!({}) } else { json!({"index": index}) };
        let call_delta =
            |(delta, hidden)| (json!({"tool_calls": [merge(index.clone(), delta)]}), hidden);
        deltas.extend(call_deltas(call, chunk_chars, dialect).into_iter().map(call_delta));
    }
    if !message.others.is_empty() {
        deltas.push((message.others.into(), String::new()));
    }
    deltas
}

/// Returns the deltas of one tool call, without the call's index.
fn call_deltas(call: &Value, chunk_chars: usize, dialect: &Dialect) -> Vec<Delta> {
    let mut first = call.clone();
    let arguments = first.pointer_mut("/function/arguments").filter(|_| !dialect.whole_arguments);
    let Some(Value::String(arguments)) = arguments.map(|it| std::mem::replace(it, "".into()))
    else {
        return vec![(call.clone(), String::new())];
    };
    let id = match dialect.later_ids {
        LaterIds::Missing => json!({}),
        LaterIds::Null => json!({"id": null}),
        LaterIds::Empty => json!({"id": ""}),
    };
    let later = chunks(&arguments, chunk_chars).map(|piece| {
        (merge(id.clone(), json!({"function": {"arguments": piece}})), piece.to_owned())
    });
    std::iter::once((first, String::new())).chain(later).collect()
}

/// Returns the finish reason of a response in the words of this dialect.
fn finish_reason<'a>(response: &'a CompletionResponse, dialect: &Dialect) -> &'a str {
    match finish_reason_to_wire(&response.stop_reason) {
        "tool_calls" if dialect.stop_with_calls => "stop",
        word => word,
    }
}

/// Returns the name of the field in which this dialect sends reasoning.
fn reasoning_key(dialect: &Dialect) -> &'static str {
    if dialect.reasoning_field { "reasoning" } else { "reasoning_content" }
}
