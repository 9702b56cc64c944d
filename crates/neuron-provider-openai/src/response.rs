//! The JSON of Chat Completions as our response.

use neuron_http::Secret;
use neuron_types::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, TokenUsage,
    ToolCall,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{self, ApiError};
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
    if let Some(error) = wire.error.and_then(ApiError::read) {
        return Err(error::from_answer(&error));
    }
    let Some(choice) = wire.choices.into_iter().next() else {
        return Err(foreign(&"there are no choices"));
    };
    let message = message(choice.message, &wire.id);
    Ok(CompletionResponse {
        stop_reason: stop_reason(choice.finish_reason.as_deref(), &message),
        id: wire.id,
        model: wire.model,
        message,
        usage: wire.usage.unwrap_or_default().into(),
    })
}

#[derive(Deserialize)]
struct WireCompletion {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    choices: Vec<WireChoice>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct WireChoice {
    message: Map<String, Value>,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// Maps why the model stopped. Some servers say `stop` also when tools are called.
pub(crate) fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    if message.content.iter().any(is_refusal) {
        return StopReason::Refusal;
    }
    match reason {
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
        // Both hold the same where both are there.
        if let Some(Value::String(text)) = fields.remove(key)
            && parts.thinking.is_empty()
        {
            parts.thinking = text;
        }
    }
    match fields.remove("content") {
        Some(Value::String(text)) => parts.text = text,
        Some(Value::Array(pieces)) => parts.read_pieces(pieces),
        _ => {}
    }
    if let Some(Value::Array(calls)) = fields.remove("tool_calls") {
        let calls = calls.into_iter().enumerate();
        parts.calls.extend(calls.map(|(index, json)| call(json, index, response_id)));
    }
    fields.remove("role");
    parts.more = fields;
    parts.into_message()
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

impl Parts {
    /// Reads content that comes in pieces, as some servers send it; pieces without text are kept.
    fn read_pieces(&mut self, pieces: Vec<Value>) {
        let mut others = Vec::new();
        for piece in pieces {
            match piece.get("text").and_then(Value::as_str) {
                Some(text) => self.text.push_str(text),
                None => others.push(piece),
            }
        }
        if !others.is_empty() {
            self.more.insert("content_parts".to_owned(), Value::Array(others));
        }
    }

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
    let text = json.get("refusal").and_then(Value::as_str).or_else(|| {
        let audio = json.get("audio")?;
        audio.get("transcript")?.as_str()
    });
    let portable = text.map(|text| Box::new(ContentBlock::Text(text.to_owned())));
    let json = Value::Object(json);
    Some(ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable })
}

/// Reads a call of a tool.
fn call(json: Value, index: usize, response_id: &str) -> ContentBlock {
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let id = match text("/id") {
        "" => made_id(index, response_id),
        id => id.to_owned(),
    };
    if json.get("custom").is_some() {
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
pub(crate) fn made_id(index: usize, response_id: &str) -> String {
    if response_id.is_empty() {
        format!("call_{index}")
    } else {
        format!("call_{response_id}_{index}")
    }
}

/// The API's counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    prompt_tokens: Option<usize>,
    completion_tokens: Option<usize>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

/// Details of prompt tokens, which both APIs share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PromptDetails {
    pub(crate) cached_tokens: Option<usize>,
    pub(crate) cache_write_tokens: Option<usize>,
}

/// Details of answer tokens, which both APIs share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompletionDetails {
    pub(crate) reasoning_tokens: Option<usize>,
}

impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let prompt = wire.prompt_tokens_details.unwrap_or_default();
        let completion = wire.completion_tokens_details.unwrap_or_default();
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
