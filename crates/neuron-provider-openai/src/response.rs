//! Parsing of responses of Chat Completions that are not streamed.

use neuron_http::{Secret, UniqueTexts, read_with_arguments};
use neuron_model::{CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call::{CallFields, generate_id, seed};
use crate::dialect::Vendor;
use crate::error::{self, ApiError};
use crate::lenient;
use crate::message_fields::{self, append_fragment, keep_unnamed_call, own_fields};
use crate::metadata::WireMetadata;
use crate::request::PROVIDER;
use crate::usage::WireUsage;
pub(crate) use crate::usage::{CompletionDetails, PromptDetails};

/// Parses a response of `vendor` that is not streamed. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a
/// completion.
pub(crate) fn read(
    body: &[u8],
    secret: &Secret,
    vendor: Vendor,
) -> Result<CompletionResponse, ProviderError> {
    let foreign = |why: &dyn std::fmt::Display| {
        let shown = secret.excerpt(body);
        let text = format!("the response is not a completion ({why}); it begins with: {shown}");
        ProviderError::Other(text.into())
    };
    let wire: WireCompletion = read_with_arguments(body).map_err(|error| foreign(&error))?;
    // Some servers send an error with a successful status.
    if let Some(error) = ApiError::read(wire.error) {
        return Err(error::from_answer(&error));
    }
    // Requests ask for one choice, so any other choice is ignored.
    let Some(mut choice) = wire.choices.and_then(|choices| choices.into_iter().next()) else {
        return Err(match ApiError::find_in(body) {
            Some(error) => error::from_answer(&error),
            None => foreign(&"there are no choices"),
        });
    };
    if let Some(error) = choice.error.take().and_then(ApiError::read) {
        return Err(error::from_answer(&error));
    }
    let fields = match choice.message.take() {
        Some(fields) => fields,
        None if choice.is_empty() => Map::new(),
        None => return Err(foreign(&"missing field `message`")),
    };
    let message = message(fields, &seed(&wire.id, wire.created));
    let metadata = wire.wire_metadata.into_metadata(&wire.usage, choice.logprobs, &message);
    let message = message.with_metadata(&metadata);
    Ok(CompletionResponse {
        stop_reason: stop_reason(choice.finish_reason.as_deref(), &message),
        id: wire.id,
        model: wire.model,
        message,
        usage: wire.usage.counts(vendor),
    })
}

#[derive(Deserialize)]
struct WireCompletion {
    #[serde(default, deserialize_with = "lenient::or_default")]
    id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(default, deserialize_with = "lenient::count")]
    created: Option<usize>,
    #[serde(default)]
    choices: Option<Vec<WireChoice>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: WireUsage,
    #[serde(default)]
    error: Value,
    #[serde(flatten)]
    wire_metadata: WireMetadata,
}

#[derive(Deserialize)]
struct WireChoice {
    #[serde(default)]
    message: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
    /// Error of a proxy's upstream server.
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    logprobs: Value,
    /// Content in a field of another API. Its presence shows that the response is not a chat completion.
    #[serde(default)]
    text: Value,
    #[serde(default)]
    delta: Value,
}

impl WireChoice {
    /// Returns `true` if the choice has a finish reason but no content. Gemini sends such a choice for a response that
    /// consists only of thoughts.
    fn is_empty(&self) -> bool {
        self.finish_reason.as_deref().is_some_and(|reason| !reason.is_empty())
            && lenient::is_blank(&self.text)
            && lenient::is_blank(&self.delta)
    }
}

/// Converts the finish reason of the API. A response with tool calls has [`StopReason::ToolUse`] even if a server sends
/// `stop`. A refusal takes precedence over the finish reason.
pub(crate) fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    if message.content.iter().any(is_refusal) {
        return StopReason::Refusal;
    }
    // Some servers send an empty string for a missing reason.
    match reason.filter(|reason| !reason.is_empty()) {
        Some("length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::ContentFilter,
        Some("tool_calls" | "function_call") => StopReason::ToolUse,
        // Z.ai.
        Some("model_context_window_exceeded") => StopReason::ContextWindowExceeded,
        _ if message.tool_uses().next().is_some() => StopReason::ToolUse,
        Some("stop") | None => StopReason::EndTurn,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

/// Returns `true` if a block contains the `refusal` field of a message.
fn is_refusal(block: &ContentBlock) -> bool {
    own_fields(block, PROVIDER)
        .is_some_and(|fields| fields.get("refusal").is_some_and(Value::is_string))
}

/// Converts the fields of a response's message. `seed` identifies the response, and is used to generate ids for calls
/// without an id.
fn message(mut fields: Map<String, Value>, seed: &str) -> Message {
    let mut parts = Parts::default();
    for key in REASONING {
        match fields.remove(key) {
            // A server that sends two reasoning fields sends the same text in both.
            Some(Value::String(text)) if parts.thinking.is_empty() => parts.thinking = text,
            Some(Value::String(_)) | None => {}
            Some(other) => drop(fields.insert(key.to_owned(), other)),
        }
    }
    let ContentParts { text, thinking, more } =
        ContentParts::read(fields.remove("content").unwrap_or_default());
    (parts.text, fields) = (text, with_fragments(fields, more));
    parts.thinking.push_str(&thinking);
    let mut calls = Vec::new();
    if let Some(Value::Array(list)) = fields.remove("tool_calls") {
        for json in list {
            match CallFields::read(&json) {
                Some(call) if !call.name.is_empty() => calls.push(call),
                Some(call) => keep_unnamed_call(&mut fields, call),
                None if lenient::is_blank(&json) => {}
                None => append_fragment(&mut fields, "tool_calls".to_owned(), vec![json].into()),
            }
        }
    }
    calls.extend(take_function_call(&mut fields));
    complete_ids(&mut calls, seed);
    parts.calls.extend(calls.into_iter().map(CallFields::into_block));
    // The role is always `assistant`, so it need not be kept among the unknown fields.
    fields.remove("role");
    parts.more = fields;
    parts.into_message()
}

/// Sets an id for each call that has no id, or the id of an earlier call. A generated id contains `seed`, which identifies
/// the response.
fn complete_ids(calls: &mut [CallFields], seed: &str) {
    let mut ids = UniqueTexts::default();
    // Generated ids come last, so that they change no id of the server.
    let (named, nameless): (Vec<_>, Vec<_>) =
        calls.iter_mut().partition(|call| !call.id.is_empty());
    for call in named.into_iter().chain(nameless) {
        call.id = ids.give_id(&call.id, || generate_id(seed));
    }
}

/// Removes `function_call` from the fields and parses it as a tool call. Returns `None` if there is no such call.
/// OpenAI used this field before `tool_calls`, and some servers still send it.
pub(crate) fn take_function_call(fields: &mut Map<String, Value>) -> Option<CallFields> {
    let name = fields.get("function_call")?.get("name")?.as_str()?;
    let is_call = !name.is_empty();
    is_call
        .then(|| fields.remove("function_call").and_then(CallFields::parse_function_call))
        .flatten()
}

/// Names of the message fields in which compatible servers send reasoning.
pub(crate) const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The content of a response, before it is converted into a [`Message`]. Each chunk of a streamed response adds to the
/// content.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) thinking: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<ContentBlock>,
    /// Fields of the message that this crate does not know.
    pub(crate) more: Map<String, Value>,
}

/// The parsed field `content` of a message or a delta. The field is a text, or a list of parts of several types.
#[derive(Debug, Default)]
pub(crate) struct ContentParts {
    pub(crate) text: String,
    pub(crate) thinking: String,
    /// Parts that are neither text nor reasoning, as names and values of message fields.
    pub(crate) more: Vec<(String, Value)>,
}

impl ContentParts {
    /// Parses the field `content`.
    pub(crate) fn read(content: Value) -> Self {
        let mut read = Self::default();
        match content {
            Value::Null => {}
            Value::Array(pieces) => pieces.into_iter().for_each(|piece| read.take(piece)),
            piece => read.take(piece),
        }
        read
    }

    /// Adds one part of the content.
    fn take(&mut self, piece: Value) {
        let field = |key: &str| piece.get(key).and_then(Value::as_str);
        let is_kept = |(key, value): (&String, &Value)| {
            // These fields only identify the part. Any other field is kept.
            let is_place = ["type", "text", "index", "id"].contains(&key.as_str());
            !is_place && !lenient::is_blank(value)
        };
        let has_more = piece.as_object().is_some_and(|fields| fields.iter().any(is_kept));
        let thoughts = match field("type") {
            // Databricks sends reasoning in this part.
            Some("reasoning") => piece.get("summary"),
            // Mistral sends reasoning in this part.
            _ => piece.get("thinking"),
        };
        if let Some(text) = piece.as_str().or_else(|| field("text")) {
            self.text.push_str(text);
            if has_more {
                self.more.push(("content_parts".to_owned(), Value::Array(vec![piece])));
            }
        } else if let Some(refusal) = field("refusal") {
            self.more.push(("refusal".to_owned(), refusal.into()));
        } else if let Some(thoughts) = thoughts {
            // The thoughts are a text, or a list of parts with texts.
            let Self { text, thinking, more } = Self::read(thoughts.clone());
            self.thinking.extend([text, thinking]);
            self.more.extend(more);
        } else {
            self.more.push(("content_parts".to_owned(), Value::Array(vec![piece])));
        }
    }
}

/// Adds the parts `more` of a message's content to the unknown fields of the message.
fn with_fragments(
    mut fields: Map<String, Value>,
    more: Vec<(String, Value)>,
) -> Map<String, Value> {
    for (key, value) in more {
        append_fragment(&mut fields, key, value);
    }
    fields
}

impl Parts {
    pub(crate) fn is_empty(&self) -> bool {
        self.thinking.is_empty()
            && self.text.is_empty()
            && self.calls.is_empty()
            && self.more.is_empty()
    }

    /// Converts the parts into a message, with the reasoning first, then the text, the tool calls and the unknown
    /// fields.
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
        content.extend(message_fields::block(self.more));
        Message { role: Role::Assistant, content }
    }
}

#[cfg(test)]
mod tests;
