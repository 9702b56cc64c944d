//! An answer of Ollama's: in one piece, and as lines.

use neuron_types::{CompletionResponse, ContentBlock, ToolCall, ToolUseRef};
use serde_json::{Map, Value, json};

use super::dialect::{CallLines, Dialect};
use super::done_reason::done_reason_to_wire;
use super::{CREATED_AT, EVAL_DURATION, LOAD_DURATION, PROMPT_EVAL_DURATION, TOTAL_DURATION};
use crate::Wire;
use crate::chunks::chunks;

/// Returns the JSON body that Ollama sends for this response.
///
/// Blocks that it has no form for are left out. A tool call without an id gets one as Ollama makes
/// them. Arguments that are no JSON ([`ToolCall::invalid_json`]) become a string that holds their
/// text: Ollama parses what a model wrote, so there is no right form for them.
///
/// # Example
///
/// ```
/// use neuron_testing::ollama::{Dialect, chat_body};
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let response = CompletionResponse {
///     id: String::new(),
///     model: "llama3.2".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// };
/// let body = chat_body(&response, &Dialect::default());
/// assert_eq!(body["message"]["content"], "hello");
/// assert_eq!(body["done_reason"], "stop");
/// assert_eq!(body["eval_count"], 3);
/// ```
#[must_use]
pub fn chat_body(response: &CompletionResponse, dialect: &Dialect) -> Value {
    let content = Content::new(response);
    let calls: Vec<Value> = calls(&content, dialect);
    let mut message = json!({"role": "assistant", "content": content.text});
    if let Some(fields) = message.as_object_mut() {
        if !content.thinking.is_empty() {
            fields.insert("thinking".into(), content.thinking.into());
        }
        if !calls.is_empty() {
            fields.insert("tool_calls".into(), calls.into());
        }
    }
    last_line(response, message, dialect)
}

/// Returns all lines that Ollama streams for this response, as bytes.
///
/// A line has `chunk_chars` characters of text or thinking; `wire` says how lines are written (what
/// it says of chunks and cuts is for the server).
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::ollama::{Dialect, chat_bytes};
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "".into(), model: "llama3.2".into(), message: Message::assistant("hello"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let bytes = chat_bytes(&response, 4, &Wire::default(), &Dialect::default());
/// let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
/// assert_eq!(lines.len(), 3); // "hell", "o", and the line that says that it is done
/// ```
#[must_use]
pub fn chat_bytes(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
) -> Vec<u8> {
    chat_frames(response, chunk_chars, wire, dialect).concat()
}

/// Returns the bytes of every line.
pub(super) fn chat_frames(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
) -> Vec<Vec<u8>> {
    let content = Content::new(response);
    let mut messages: Vec<Value> = chunks(&content.thinking, chunk_chars)
        .map(|piece| json!({"role": "assistant", "content": "", "thinking": piece}))
        .collect();
    messages.extend(
        chunks(&content.text, chunk_chars)
            .map(|piece| json!({"role": "assistant", "content": piece})),
    );
    let calling = |calls: Value| json!({"role": "assistant", "content": "", "tool_calls": calls});
    let calls = calls(&content, dialect);
    let mut last = json!({"role": "assistant", "content": ""});
    match dialect.calls {
        _ if calls.is_empty() => {}
        CallLines::Together => messages.push(calling(calls.into())),
        CallLines::Apart => messages.extend(calls.into_iter().map(|call| calling(json!([call])))),
        CallLines::Last => last = calling(calls.into()),
    }
    let lines = messages.into_iter().map(|message| {
        json!({
            "model": response.model,
            "created_at": CREATED_AT,
            "message": message,
            "done": false,
        })
    });
    let last = last_line(response, last, dialect);
    lines.chain([last]).map(|line| wire.json_line(&line)).collect()
}

/// What a message of Ollama's holds. The order among the kinds is not on the wire.
#[derive(Default)]
struct Content<'a> {
    thinking: String,
    text: String,
    calls: Vec<ToolUseRef<'a>>,
}

impl<'a> Content<'a> {
    fn new(response: &'a CompletionResponse) -> Self {
        let mut content = Self::default();
        for block in response.message.content.iter().filter_map(ContentBlock::portable) {
            match block {
                ContentBlock::Text(text) => content.text.push_str(text),
                ContentBlock::Thinking { thinking, .. } => content.thinking.push_str(thinking),
                block => content.calls.extend(block.as_tool_use()),
            }
        }
        content
    }
}

fn calls(content: &Content<'_>, dialect: &Dialect) -> Vec<Value> {
    let calls = content.calls.iter().enumerate();
    calls.map(|(index, call)| call_json(index, call, dialect)).collect()
}

fn call_json(index: usize, call: &ToolUseRef<'_>, dialect: &Dialect) -> Value {
    let arguments = match ToolCall::invalid_json(call.input) {
        Some(raw) => Value::from(raw),
        None => call.input.clone(),
    };
    if dialect.no_call_ids {
        return json!({"function": {"name": call.name, "arguments": arguments}});
    }
    let id = match call.id {
        "" => format!("call_{index:08}"),
        id => id.to_owned(),
    };
    json!({
        "id": id,
        "function": {"index": index, "name": call.name, "arguments": arguments},
    })
}

/// The line that says that the answer is done; without a stream it is the only one. Counts of zero
/// are left out.
fn last_line(response: &CompletionResponse, message: Value, dialect: &Dialect) -> Value {
    let usage = &response.usage;
    let prompt_count = if dialect.no_prompt_count { 0 } else { usage.input_tokens };
    let mut line = Map::new();
    let mut add = |key: &str, value: Value| drop(line.insert(key.to_owned(), value));
    add("model", response.model.clone().into());
    add("created_at", CREATED_AT.into());
    add("message", message);
    add("done", true.into());
    add("done_reason", done_reason_to_wire(&response.stop_reason).into());
    add("total_duration", TOTAL_DURATION.into());
    add("load_duration", LOAD_DURATION.into());
    if prompt_count > 0 {
        add("prompt_eval_count", prompt_count.into());
    }
    add("prompt_eval_duration", PROMPT_EVAL_DURATION.into());
    if usage.output_tokens > 0 {
        add("eval_count", usage.output_tokens.into());
    }
    add("eval_duration", EVAL_DURATION.into());
    line.into()
}
