//! Parsing of responses that are not streamed. Also collects the lines of streamed responses.

use neuron_http::{ObjectInput, Secret, UniqueTexts, read_with_arguments};
use neuron_model::{
    AnswerMetadata, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    TokenUsage, ToolCall,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error;
use crate::request::PROVIDER;

/// Parses a response that is not streamed. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a response
/// of the API.
pub(crate) fn read(body: &[u8], secret: &Secret) -> Result<CompletionResponse, ProviderError> {
    let unreadable = |why: &str| {
        let shown = secret.excerpt(body);
        ProviderError::Other(
            format!("the body is not a chat response ({why}); it begins with: {shown}").into(),
        )
    };
    let mut line: WireLine =
        read_with_arguments(body).map_err(|error| unreadable(&error.to_string()))?;
    if let Some(error) = line.error.as_ref().filter(|error| !error.is_null()) {
        return Err(error::from_answer(error));
    }
    let message = match line.message.take() {
        Some(message) => message,
        None if line.is_end() => WireMessage::default(),
        None => return Err(unreadable("missing field `message`")),
    };
    // A line of a stream has `done: false`.
    if line.done == Some(false) {
        return Err(unreadable("`done` is false"));
    }
    let mut collected = PartialResponse::default();
    collected.take(message);
    Ok(collected.into_response(line))
}

/// The JSON of a response that is not streamed, or of a line of a stream.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct WireLine {
    #[serde(default)]
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) message: Option<WireMessage>,
    #[serde(default)]
    pub(crate) done: Option<bool>,
    #[serde(default)]
    done_reason: Option<String>,
    /// Number of input tokens. The server omits this field and `eval_count` if they are zero.
    #[serde(default)]
    prompt_eval_count: Option<usize>,
    /// Number of cached input tokens. Older servers do not send this field.
    #[serde(default)]
    prompt_eval_cached_count: Option<usize>,
    #[serde(default)]
    eval_count: Option<usize>,
    #[serde(default)]
    pub(crate) logprobs: Value,
    /// Error, sent instead of all other fields.
    #[serde(default)]
    pub(crate) error: Option<Value>,
    /// The text of a response of the API `/api/generate`, which has no message.
    #[serde(default)]
    response: Option<IgnoredAny>,
}

impl WireLine {
    /// Returns `true` for the last line of a response of this API. It may have no message, if the model said nothing.
    pub(crate) fn is_end(&self) -> bool {
        self.done == Some(true) && !self.model.is_empty() && self.response.is_none()
    }
}

/// The JSON of a message, or of a fragment of a streamed message.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct WireMessage {
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default)]
    pub(crate) thinking: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Value>>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The parts of a response that were received so far.
#[derive(Debug, Default)]
pub(crate) struct PartialResponse {
    pub(crate) thinking: String,
    pub(crate) text: String,
    calls: Vec<ContentBlock>,
    /// Ids of all calls in `calls`.
    ids: UniqueTexts<'static>,
    /// Fields of the message that this crate does not know.
    more: Map<String, Value>,
    logprobs: Vec<Value>,
}

impl PartialResponse {
    /// Adds a fragment of the message. Returns the calls that the fragment contained.
    pub(crate) fn take(&mut self, message: WireMessage) -> &[ContentBlock] {
        self.thinking.push_str(message.thinking.as_deref().unwrap_or_default());
        self.text.push_str(message.content.as_deref().unwrap_or_default());
        for (key, value) in message.more {
            // The raw block that keeps these fields has a field `type` itself.
            if key != "type" && !is_blank(&value) {
                append(&mut self.more, key, value);
            }
        }
        let before = self.calls.len();
        let calls = message.tool_calls.unwrap_or_default();
        for json in calls.into_iter().filter(|json| !json.is_null()) {
            let call = parse_call(json, &mut self.ids);
            self.calls.push(call);
        }
        self.calls.get(before..).unwrap_or_default()
    }

    /// Appends the log probabilities of a line.
    pub(crate) fn add_logprobs(&mut self, line: &WireLine) {
        self.logprobs.extend(line.logprobs.as_array().into_iter().flatten().cloned());
    }

    /// Builds the response. `end` is the last line of the stream, or the body of a response that is not streamed.
    pub(crate) fn into_response(mut self, end: WireLine) -> CompletionResponse {
        self.add_logprobs(&end);
        let mut metadata = AnswerMetadata::default();
        metadata.logprobs = (!self.logprobs.is_empty()).then_some(self.logprobs.into());
        let mut content = Vec::with_capacity(self.calls.len() + 3);
        if !self.thinking.is_empty() {
            let signature = String::new();
            content.push(ContentBlock::Thinking { thinking: self.thinking, signature });
        }
        if !self.text.is_empty() {
            content.push(ContentBlock::Text(self.text));
        }
        content.extend(self.calls);
        if !self.more.is_empty() {
            let mut json = Map::new();
            json.insert("type".into(), "message".into());
            json.extend(self.more);
            content.push(raw(Value::Object(json), None));
        }
        let message = Message { role: Role::Assistant, content }.with_metadata(&metadata);
        CompletionResponse {
            // The API has no response ids.
            id: String::new(),
            model: end.model,
            stop_reason: stop_reason(end.done_reason.as_deref(), &message),
            message,
            usage: TokenUsage {
                // `prompt_eval_count` includes the cached tokens. https://github.com/ollama/ollama/pull/16428
                input_tokens: end
                    .prompt_eval_count
                    .or(end.prompt_eval_cached_count)
                    .unwrap_or_default(),
                output_tokens: end.eval_count.unwrap_or_default(),
                cache_read_tokens: end.prompt_eval_cached_count,
                ..TokenUsage::default()
            },
        }
    }
}

/// Converts the stop reason of the API. A response with tool calls has [`StopReason::ToolUse`] unless it was truncated,
/// because Ollama sends `stop` for it. Older versions send no reason, and proxies of OpenAI's API send `tool_calls`.
fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    match reason.filter(|reason| !reason.is_empty()) {
        Some("length") => StopReason::MaxTokens,
        Some("tool_calls") => StopReason::ToolUse,
        _ if message.tool_uses().next().is_some() => StopReason::ToolUse,
        Some("stop") | None => StopReason::EndTurn,
        // Responses to requests without messages have the reasons `load` and `unload`.
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

/// Returns `true` for null, an empty text and an empty list.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Adds a fragment to the field `key`. A text or a list is appended to the earlier fragments, and any other value
/// replaces them.
fn append(fields: &mut Map<String, Value>, key: String, value: Value) {
    match (fields.get_mut(&key), value) {
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (Some(Value::Array(items)), Value::Array(mut more)) => items.append(&mut more),
        (_, value) => {
            fields.insert(key, value);
        }
    }
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable: portable.map(Box::new) }
}

/// Parses an entry of `tool_calls`, and adds its id to `ids`, which contains the ids of all earlier calls.
///
/// A call with unknown fields becomes a raw block with the final id and arguments. An entry without a name becomes a
/// raw block that is not a call.
fn parse_call(mut json: Value, ids: &mut UniqueTexts<'static>) -> ContentBlock {
    let Some((name, input, is_kept)) = parts_of_call(&json) else {
        return raw(json, None);
    };
    // Older servers send no ids.
    let server_id = json.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = ids.give_id(server_id, || format!("call_{}", Uuid::new_v4().simple()));
    if is_kept {
        // The tool result refers to the final id. Ollama rejects arguments that are not an object.
        if let Some(function) = json.get_mut("function").and_then(Value::as_object_mut)
            && let Ok(arguments) = serde_json::to_value(ObjectInput(&input))
        {
            function.insert("arguments".into(), arguments);
        }
        if let Some(fields) = json.as_object_mut() {
            fields.insert("id".into(), id.clone().into());
        }
        return raw(json, Some(ContentBlock::ToolUse { id, name, input }));
    }
    ContentBlock::ToolUse { id, name, input }
}

/// Returns the name and the arguments of a call. The third value is `true` if the call has unknown fields. Returns
/// `None` if the call has no name.
fn parts_of_call(json: &Value) -> Option<(String, Value, bool)> {
    let fields = json.as_object()?;
    let function = fields.get("function")?.as_object()?;
    let name = function.get("name")?.as_str().filter(|name| !name.is_empty())?;
    let input = match function.get("arguments") {
        None | Some(Value::Null) => ToolCall::parse_input(""),
        // Servers with OpenAI's format send the arguments as a text.
        Some(Value::String(text)) => ToolCall::parse_input(text),
        Some(input) => input.clone(),
    };
    let says_more = |fields: &Map<String, Value>, known: &[&str]| {
        fields.iter().any(|(key, value)| !known.contains(&key.as_str()) && !is_blank(value))
    };
    let is_kept = says_more(function, &["index", "name", "arguments"])
        // OpenAI's format has the index here.
        || says_more(fields, &["id", "type", "index", "function"]);
    Some((name.to_owned(), input, is_kept))
}

#[cfg(test)]
mod tests;
