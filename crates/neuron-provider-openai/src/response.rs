//! The JSON of Chat Completions as our response.

use neuron_http::Secret;
use neuron_types::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, TokenUsage,
    ToolCall,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::{self, ApiError};
use crate::lenient;
use crate::request::PROVIDER;

/// Reads a whole answer. What an error shows of it is without the secret.
///
/// # Errors
///
/// [`ProviderError::Other`] when the body is not a completion, and the errors that some servers send
/// in its place.
pub(crate) fn read(body: &[u8], secret: &Secret) -> Result<CompletionResponse, ProviderError> {
    let foreign = |why: &dyn std::fmt::Display| {
        let shown = secret.excerpt(body);
        let text = format!("the response is not a completion ({why}); it begins with: {shown}");
        ProviderError::Other(text.into())
    };
    let wire: WireCompletion = serde_json::from_slice(body).map_err(|error| foreign(&error))?;
    if let Some(error) = ApiError::read(wire.error) {
        return Err(error::from_answer(&error));
    }
    let Some(choice) = wire.choices.and_then(|choices| choices.into_iter().next()) else {
        return Err(match ApiError::find_in(body) {
            Some(error) => error::from_answer(&error),
            None => foreign(&"there are no choices"),
        });
    };
    if let Some(error) = choice.error.and_then(ApiError::read) {
        return Err(error::from_answer(&error));
    }
    let fields = choice.message.ok_or_else(|| foreign(&"missing field `message`"))?;
    let message = message(fields, &wire.id);
    Ok(CompletionResponse {
        stop_reason: stop_reason(choice.finish_reason.as_deref(), &message),
        id: wire.id,
        model: wire.model,
        message,
        usage: wire.usage.into(),
    })
}

#[derive(Deserialize)]
struct WireCompletion {
    #[serde(default, deserialize_with = "lenient::or_default")]
    id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(default)]
    choices: Option<Vec<WireChoice>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: WireUsage,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct WireChoice {
    #[serde(default)]
    message: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
    /// Proxies tell here of an answer that their own server broke off.
    #[serde(default)]
    error: Option<Value>,
}

/// Maps why the model stopped. Some servers say `stop` also when tools are called.
pub(crate) fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    if message.content.iter().any(is_refusal) {
        return StopReason::Refusal;
    }
    // Some servers say nothing by an empty word.
    match reason.filter(|reason| !reason.is_empty()) {
        Some("length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::ContentFilter,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        _ if message.tool_uses().next().is_some() => StopReason::ToolUse,
        Some("stop") | None => StopReason::EndTurn,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

fn is_refusal(block: &ContentBlock) -> bool {
    crate::message::own_fields(block)
        .is_some_and(|fields| fields.get("refusal").is_some_and(Value::is_string))
}

/// Reads an answer's message.
fn message(mut fields: Map<String, Value>, response_id: &str) -> Message {
    let mut parts = Parts::default();
    for key in REASONING {
        match fields.remove(key) {
            // Both hold the same where both are there.
            Some(Value::String(text)) if parts.thinking.is_empty() => parts.thinking = text,
            Some(Value::String(_)) | None => {}
            Some(other) => drop(fields.insert(key.to_owned(), other)),
        }
    }
    let Pieces { text, thinking, more } =
        Pieces::read(fields.remove("content").unwrap_or_default());
    (parts.text, fields) = (text, grown(fields, more));
    parts.thinking.push_str(&thinking);
    if let Some(Value::Array(calls)) = fields.remove("tool_calls") {
        let calls = calls.into_iter().enumerate();
        parts.calls.extend(calls.map(|(index, json)| call(json, index, response_id)));
    }
    if let Some(old) = take_old_call(&mut fields) {
        let index = parts.calls.len();
        parts.calls.push(call(json!({"function": old}), index, response_id));
    }
    fields.remove("role");
    parts.more = fields;
    parts.into_message()
}

/// Takes the one call that answers had before `tool_calls`, and that some servers still send.
pub(crate) fn take_old_call(fields: &mut Map<String, Value>) -> Option<Value> {
    let call = fields.get("function_call")?;
    let is_call = call.get("name").is_some_and(Value::is_string);
    is_call.then(|| fields.remove("function_call")).flatten()
}

/// Where compatible servers put reasoning.
pub(crate) const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The parts of an answer, whole or streamed.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) thinking: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<ContentBlock>,
    /// What comes with the message and is not modelled.
    pub(crate) more: Map<String, Value>,
}

/// Content, which is a text, or pieces of several kinds.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) text: String,
    pub(crate) thinking: String,
    /// What is neither, as fields of the message.
    pub(crate) more: Vec<(String, Value)>,
}

impl Pieces {
    pub(crate) fn read(content: Value) -> Self {
        let mut read = Self::default();
        match content {
            Value::Null => {}
            Value::Array(pieces) => pieces.into_iter().for_each(|piece| read.take(piece)),
            piece => read.take(piece),
        }
        read
    }

    fn take(&mut self, piece: Value) {
        let field = |key: &str| piece.get(key).and_then(Value::as_str);
        if let Some(text) = piece.as_str().or_else(|| field("text")) {
            self.text.push_str(text);
        } else if let Some(refusal) = field("refusal") {
            self.more.push(("refusal".to_owned(), refusal.into()));
        } else if let Some(thinking) = piece.get("thinking") {
            // A text, or pieces with texts.
            let Self { text, .. } = Self::read(thinking.clone());
            self.thinking.push_str(&text);
        } else {
            self.more.push(("content_parts".to_owned(), Value::Array(vec![piece])));
        }
    }
}

fn grown(mut fields: Map<String, Value>, more: Vec<(String, Value)>) -> Map<String, Value> {
    for (key, value) in more {
        grow(&mut fields, key, value);
    }
    fields
}

/// Adds a piece of a field that we do not model: texts and lists grow, others are replaced.
pub(crate) fn grow(fields: &mut Map<String, Value>, key: String, piece: Value) {
    // Names come whole, and some servers repeat them with every piece.
    let is_name = ["id", "type", "index", "format", "name"].contains(&key.as_str());
    match (fields.get_mut(&key), piece) {
        (_, Value::Null) => {}
        (Some(_), Value::String(piece)) if is_name && piece.is_empty() => {}
        (Some(Value::String(text)), Value::String(piece)) if !is_name => text.push_str(&piece),
        (Some(Value::Array(items)), Value::Array(mut more)) => items.append(&mut more),
        (Some(Value::Object(fields)), Value::Object(more)) => {
            for (key, piece) in more {
                grow(fields, key, piece);
            }
        }
        // What has been said stays, whatever comes in its place.
        (Some(Value::String(_) | Value::Array(_) | Value::Object(_)), _) => {}
        (_, piece) => {
            fields.insert(key, piece);
        }
    }
}

impl Parts {
    pub(crate) fn into_message(self) -> Message {
        let mut content = Vec::with_capacity(2 + self.calls.len());
        if !self.thinking.is_empty() {
            let signature = String::new();
            content.push(ContentBlock::Thinking { thinking: self.thinking, signature });
        }
        if !self.text.is_empty() {
            content.push(ContentBlock::Text(self.text));
        }
        content.extend(self.calls);
        content.extend(more(self.more));
        Message { role: Role::Assistant, content }
    }
}

/// Keeps the fields of a message that are not modelled; empty ones say nothing.
fn more(fields: Map<String, Value>) -> Option<ContentBlock> {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let fields = fields.into_iter().filter(|(_, value)| !says_nothing(value));
    let kind = ("type".to_owned(), Value::from("message"));
    let json: Map<_, _> = std::iter::once(kind).chain(fields).collect();
    if json.len() == 1 {
        return None;
    }
    let text = said(&json).concat();
    let portable = (!text.is_empty()).then(|| Box::new(ContentBlock::Text(text)));
    let json = Value::Object(json);
    Some(ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable })
}

/// What the fields of a message that are not modelled say in words: a refusal, and speech.
pub(crate) fn said(fields: &Map<String, Value>) -> [&str; 2] {
    let speech = fields.get("audio").and_then(|audio| audio.get("transcript"));
    [fields.get("refusal"), speech].map(|value| value.and_then(Value::as_str).unwrap_or_default())
}

/// Reads a call of a tool.
fn call(json: Value, index: usize, response_id: &str) -> ContentBlock {
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let id = match text("/id") {
        "" => made_id(index, response_id),
        id => id.to_owned(),
    };
    if json.get("custom").is_some_and(Value::is_object) {
        let (name, input) = (text("/custom/name").to_owned(), text("/custom/input").to_owned());
        return custom_call(json, id, name, input);
    }
    let input = match json.pointer("/function/arguments") {
        Some(Value::String(text)) => ToolCall::parse_input(text),
        None | Some(Value::Null) => ToolCall::parse_input(""),
        Some(input) => input.clone(),
    };
    ContentBlock::ToolUse { id, name: text("/function/name").to_owned(), input }
}

/// A call whose input is free text: what our tools take is JSON, so they get a JSON string.
pub(crate) fn custom_call(json: Value, id: String, name: String, input: String) -> ContentBlock {
    let portable = ContentBlock::ToolUse { id, name, input: Value::String(input) };
    ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable: Some(Box::new(portable)) }
}

/// An id for a call that has none, as some compatible servers send it.
///
/// It has what the strictest vendors take: letters, digits, `_` and `-`, 40 of them at the most.
pub(crate) fn made_id(index: usize, response_id: &str) -> String {
    const TAIL: usize = 24;
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    // The end of an id tells it from others; its beginning is the same for all.
    let tail: Vec<char> = response_id.chars().rev().filter(allowed).take(TAIL).collect();
    if tail.is_empty() {
        return format!("call_{index}");
    }
    format!("call_{}_{index}", tail.iter().rev().collect::<String>())
}

/// The API's counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    completion_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    prompt_tokens_details: PromptDetails,
    #[serde(deserialize_with = "lenient::or_default")]
    completion_tokens_details: CompletionDetails,
}

/// Details of prompt tokens, which both APIs share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromptDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cached_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) cache_write_tokens: Option<usize>,
}

/// Details of answer tokens, which both APIs share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletionDetails {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) reasoning_tokens: Option<usize>,
}

impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let (prompt, completion) = (wire.prompt_tokens_details, wire.completion_tokens_details);
        Self {
            input_tokens: wire.prompt_tokens.unwrap_or_default(),
            output_tokens: wire.completion_tokens.unwrap_or_default(),
            cache_read_tokens: prompt.cached_tokens,
            cache_creation_tokens: prompt.cache_write_tokens,
            reasoning_tokens: completion.reasoning_tokens,
            iterations: None,
        }
    }
}

#[cfg(test)]
mod tests;
