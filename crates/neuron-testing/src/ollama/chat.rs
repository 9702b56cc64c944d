//! Encodes a chat response of Ollama, as one JSON body and as the lines of a stream.

use neuron_types::{CompletionResponse, ContentBlock, TokenUsage, ToolCall};
use serde_json::{Value, json};

use super::dialect::{CallLines, Dialect};
use super::done_reason::done_reason_to_wire;
use super::{CREATED_AT, EVAL_DURATION, LOAD_DURATION, PROMPT_EVAL_DURATION, TOTAL_DURATION};
use crate::Wire;
use crate::chunks::chunks;
use crate::json::{merge, sparse};

/// Returns the JSON body that Ollama sends for a response that is not streamed.
///
/// Content blocks that Ollama's API cannot express are left out. A tool call without an id gets an id in Ollama's
/// format.
///
/// If the arguments of a tool call are not valid JSON ([`ToolCall::invalid_json`]), they become a string with their
/// text. Ollama's API has no format for invalid arguments, because Ollama parses the output of a model.
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
    let content = Content::new(response, dialect);
    let message = sparse(json!({
        "role": "assistant",
        "content": content.text,
        "thinking": Some(content.thinking).filter(|thinking| !thinking.is_empty()),
        "tool_calls": Some(content.calls).filter(|calls| !calls.is_empty()),
    }));
    last_line(response, message, dialect)
}

/// Returns the bytes of all lines that Ollama streams for this response.
///
/// A line has `chunk_chars` characters of text or thinking. The lines have the format of `wire`. The splits and cuts of
/// `wire` are ignored, because only a server applies them.
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
/// assert_eq!(lines.len(), 3); // "hell", "o", and the last line with `done`
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

/// Returns the encoded lines of a stream, one item per line.
pub(super) fn chat_frames(
    response: &CompletionResponse,
    chunk_chars: usize,
    wire: &Wire,
    dialect: &Dialect,
) -> Vec<Vec<u8>> {
    let content = Content::new(response, dialect);
    let message = |text: &str| json!({"role": "assistant", "content": text});
    let calling = |calls: Vec<Value>| merge(message(""), json!({"tool_calls": calls}));
    let thinking = chunks(&content.thinking, chunk_chars);
    let mut messages: Vec<Value> =
        thinking.map(|piece| merge(message(""), json!({"thinking": piece}))).collect();
    messages.extend(chunks(&content.text, chunk_chars).map(message));
    let mut last = message("");
    match dialect.calls {
        _ if content.calls.is_empty() => {}
        CallLines::Together => messages.push(calling(content.calls)),
        CallLines::Apart => messages.extend(content.calls.into_iter().map(|it| calling(vec![it]))),
        CallLines::Last => last = calling(content.calls),
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

/// The content of a message in Ollama's format. The format has one field for each kind of content, so the order of the
/// content blocks is lost.
#[derive(Default)]
struct Content {
    thinking: String,
    text: String,
    calls: Vec<Value>,
}

impl Content {
    /// Creates the content of a message from a response.
    fn new(response: &CompletionResponse, dialect: &Dialect) -> Self {
        let mut content = Self::default();
        for block in response.message.content.iter().filter_map(ContentBlock::portable) {
            match block {
                ContentBlock::Text(text) => content.text.push_str(text),
                ContentBlock::Thinking { thinking, .. } => content.thinking.push_str(thinking),
                ContentBlock::ToolUse { id, name, input } => {
                    let index = content.calls.len();
                    let arguments =
                        ToolCall::invalid_json(input).map_or_else(|| input.clone(), Value::from);
                    let id = if id.is_empty() { format!("call_{index:08}") } else { id.clone() };
                    content.calls.push(match dialect.no_call_ids {
                        true => json!({"function": {"name": name, "arguments": arguments}}),
                        false => json!({
                            "id": id,
                            "function": {"index": index, "name": name, "arguments": arguments},
                        }),
                    });
                }
                _ => {}
            }
        }
        content
    }
}

/// Returns the last line of a stream, which has `"done": true`. This line is also the body of a response that is not
/// streamed. Counts of zero are left out, as Ollama does.
fn last_line(response: &CompletionResponse, message: Value, dialect: &Dialect) -> Value {
    let TokenUsage { input_tokens, output_tokens, .. } = response.usage;
    let prompt_count = Some(input_tokens).filter(|_| !dialect.no_prompt_count);
    sparse(json!({
        "model": response.model,
        "created_at": CREATED_AT,
        "message": message,
        "done": true,
        "done_reason": done_reason_to_wire(&response.stop_reason),
        "total_duration": TOTAL_DURATION,
        "load_duration": LOAD_DURATION,
        "prompt_eval_count": prompt_count.filter(|count| *count > 0),
        "prompt_eval_duration": PROMPT_EVAL_DURATION,
        "eval_count": Some(output_tokens).filter(|count| *count > 0),
        "eval_duration": EVAL_DURATION,
    }))
}
