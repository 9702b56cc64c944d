//! Parsing of responses of the Responses API that are not streamed. Also converts the items of streamed responses.

use neuron_http::{Secret, UniqueTexts, read_frame};
use neuron_model::{
    AnswerMetadata, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    TokenUsage, ToolCall,
};
use serde::Deserialize;
use serde_json::Value;

use super::items::Kind;
use crate::call::generate_id;
use crate::error::{self, ApiError};
use crate::lenient;
use crate::request::PROVIDER;
use crate::response::{CompletionDetails, PromptDetails};

/// Parses a response that is not streamed. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// - [`ProviderError::Other`] if the body is not a response of the API.
/// - The server's error if the response has failed, or if the body contains an error instead of a response.
pub(crate) fn read(body: &[u8], secret: &Secret) -> Result<CompletionResponse, ProviderError> {
    let mut wire: WireResponse = read_frame(body).map_err(|error| {
        let shown = secret.excerpt(body);
        let text = format!(
            "the body is not a response of the Responses API ({error}); it begins with: {shown}"
        );
        ProviderError::Other(text.into())
    })?;
    if let Some(error) = wire.error() {
        return Err(error::from_answer(&error));
    }
    // Some servers send an error with a successful status and without a `status` field.
    if wire.output.is_none() {
        if let Some(error) = ApiError::find_in(body) {
            return Err(error::from_answer(&error));
        }
        let shown = secret.excerpt(body);
        let text = format!("the response has no output; it begins with: {shown}");
        return Err(ProviderError::Other(text.into()));
    }
    let items = wire.output.take().unwrap_or_default();
    Ok(wire.into_response(items))
}

/// The JSON of a response. It is the whole body if the response is not streamed. In a stream, the first and the last
/// event contain it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireResponse {
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) model: String,
    #[serde(deserialize_with = "lenient::or_default")]
    status: Option<String>,
    error: Option<Value>,
    #[serde(deserialize_with = "lenient::or_default")]
    incomplete_details: Incomplete,
    pub(crate) output: Option<Vec<Value>>,
    usage: Value,
    #[serde(deserialize_with = "lenient::or_default")]
    service_tier: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    reason: Option<String>,
}

impl WireResponse {
    /// Returns the error of a response that has failed, or `None` if it has not failed.
    pub(crate) fn error(&self) -> Option<ApiError> {
        let error = self.error.clone().and_then(ApiError::read);
        let has_failed = self.status.as_deref() == Some("failed");
        error.or_else(|| has_failed.then(ApiError::default))
    }

    /// Sets the status to `incomplete` if it is missing. Used for a `response.incomplete` event.
    pub(crate) fn incomplete(mut self) -> Self {
        self.status.get_or_insert_with(|| "incomplete".to_owned());
        self
    }

    /// Converts the response. `items` are its output items, from the response itself or from earlier events of the
    /// stream.
    pub(crate) fn into_response(self, mut items: Vec<Value>) -> CompletionResponse {
        let mut ids = CallIds::default();
        for item in &mut items {
            // Ids are completed first, because the blocks below are created from the items.
            ids.complete(item, &self.id);
            set_content(item);
        }
        let has_refused = items.iter().any(has_refused);
        let pending_item_type = pending_item_type(&items).map(str::to_owned);
        let message =
            Message { role: Role::Assistant, content: items.into_iter().map(item).collect() };
        let mut metadata = AnswerMetadata::default();
        metadata.service_tier = self.service_tier;
        let reported = crate::usage::WireUsage::deserialize(&self.usage).unwrap_or_default();
        metadata.cost = reported.cost();
        metadata.server_tool_usage = reported.server_tools().collect();
        let message = message.with_metadata(&metadata);
        let calls_tools = message.tool_uses().next().is_some();
        let stop_reason = match self.status.as_deref() {
            // The status of a refusal is `completed`, so a refusal takes precedence.
            _ if has_refused => StopReason::Refusal,
            Some("incomplete") => match self.incomplete_details.reason.as_deref() {
                Some("max_output_tokens") => StopReason::MaxTokens,
                Some("content_filter") => StopReason::ContentFilter,
                reason => StopReason::Other(reason.unwrap_or("incomplete").to_owned()),
            },
            // Compatible servers may omit the status.
            Some("completed") | None if calls_tools => StopReason::ToolUse,
            Some("completed") | None => {
                pending_item_type.map_or(StopReason::EndTurn, StopReason::Other)
            }
            Some(other) => StopReason::Other(other.to_owned()),
        };
        CompletionResponse {
            id: self.id,
            model: self.model,
            message,
            usage: WireUsage::deserialize(&self.usage).unwrap_or_default().into(),
            stop_reason,
        }
    }
}

/// Returns `true` if an item contains a refusal.
fn has_refused(item: &Value) -> bool {
    let parts = item.get("content").and_then(Value::as_array);
    parts.into_iter().flatten().any(|part| part.get("type").is_some_and(|kind| kind == "refusal"))
}

/// Returns the type of the first item that the client must answer and that is not a call of the request's tools. Such
/// items are calls of OpenAI's tools that run on the client, and requests for approval.
///
/// The type becomes the stop reason. [`StopReason::ToolUse`] would be wrong, because an agent cannot run such a call.
fn pending_item_type(items: &[Value]) -> Option<&str> {
    let is_answered = |item: &Value| {
        let is_output = |other: &Value| {
            text_of(other, "type").ends_with("_output")
                && text_of(other, "call_id") == text_of(item, "call_id")
        };
        !text_of(item, "call_id").is_empty() && items.iter().any(is_output)
    };
    items.iter().find_map(|item| {
        let kind = text_of(item, "type");
        // Calls of all other types run on the server.
        let is_clients = match kind {
            "apply_patch_call" | "computer_call" | "local_shell_call" | "mcp_approval_request" => {
                true
            }
            "shell_call" => {
                let place = item.pointer("/environment/type").and_then(Value::as_str);
                !place.is_some_and(|place| place.starts_with("container"))
            }
            "tool_search_call" => text_of(item, "execution") == "client",
            _ => false,
        };
        (is_clients && !is_answered(item)).then_some(kind)
    })
}

/// Adds an empty `content` to a message item without `content`. Otherwise the stored item would be mistaken for extra
/// fields of a Chat Completions message by [`is_own_fields`](crate::message_fields::is_own_fields).
fn set_content(item: &mut Value) {
    let Some(fields) = item.as_object_mut() else {
        return;
    };
    if fields.get("type").is_some_and(|kind| kind == "message")
        && fields.get("content").is_none_or(Value::is_null)
    {
        fields.insert("content".to_owned(), Value::Array(Vec::new()));
    }
}

/// The ids of all tool calls of one response. Ensures that all ids differ.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    given: UniqueTexts<'static>,
}

impl CallIds {
    /// Returns a unique id for the next call of a response. `id` is the server's id. If an earlier call has this id, a
    /// number is appended. If `id` is empty, an id is generated.
    pub(crate) fn give(&mut self, id: &str, response_id: &str) -> String {
        self.given.give_id(id, || generate_id(response_id))
    }

    /// Sets the `call_id` of a tool call item to the result of [`give`](Self::give). Does not change any other item.
    pub(crate) fn complete(&mut self, item: &mut Value, response_id: &str) {
        if Kind::of(item) == Some(Kind::Call) {
            let id = self.give(&call_id(item), response_id);
            set_call_id(item, &id);
        }
    }
}

/// Sets the `call_id` of an item, unless the item already has this id.
pub(crate) fn set_call_id(item: &mut Value, id: &str) {
    if call_id(item) != id
        && let Some(fields) = item.as_object_mut()
    {
        fields.insert("call_id".to_owned(), Value::String(id.to_owned()));
    }
}

/// Returns the `call_id` of an item. Returns the item's `id` if the `call_id` is empty, as on some compatible servers.
fn call_id(item: &Value) -> String {
    let id = Some(text_of(item, "call_id")).filter(|id| !id.is_empty());
    id.unwrap_or_else(|| text_of(item, "id")).to_owned()
}

/// Returns the text of the field `key`, or an empty text if the field is missing or is not a text.
pub(crate) fn text_of<'i>(item: &'i Value, key: &str) -> &'i str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Converts an item to a raw block with the item's unchanged JSON. Some types of items also have a portable block,
/// which other providers can read. It is stored in the raw block.
pub(crate) fn item(json: Value) -> ContentBlock {
    let portable = portable_block(&json).map(Box::new);
    ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable }
}

/// Converts an item to a block that other providers can read. Returns `None` for an empty item and for an item of a
/// vendor's own tool.
fn portable_block(item: &Value) -> Option<ContentBlock> {
    let text = |key: &str| text_of(item, key).to_owned();
    match item.get("type").and_then(Value::as_str)? {
        "message" => {
            let said = texts(item, "content", &["text", "refusal"]).concat();
            (!said.is_empty()).then_some(ContentBlock::Text(said))
        }
        "function_call" => Some(ContentBlock::ToolUse {
            id: call_id(item),
            name: text("name"),
            input: match item.get("arguments") {
                Some(Value::String(arguments)) => ToolCall::parse_input(arguments),
                None | Some(Value::Null) => ToolCall::parse_input(""),
                Some(arguments) => arguments.clone(),
            },
        }),
        // The input is free text, but tools accept only JSON. A JSON string contains the text unchanged.
        "custom_tool_call" if Kind::of(item).is_some() => Some(ContentBlock::ToolUse {
            id: call_id(item),
            name: text("name"),
            input: Value::String(text("input")),
        }),
        "reasoning" => {
            let summary = texts(item, "summary", &["text"]);
            // An item may have a summary and a content. Only the summary is used then.
            let thought =
                if summary.is_empty() { texts(item, "content", &["text"]) } else { summary };
            let thinking = thought.join(PARAGRAPH);
            let signature = String::new();
            (!thinking.is_empty()).then_some(ContentBlock::Thinking { thinking, signature })
        }
        _ => None,
    }
}

/// Separator between the parts of a reasoning summary. Each part is a paragraph with a heading.
pub(crate) const PARAGRAPH: &str = "\n\n";

/// Returns the texts in the field `list` of an item, without empty texts. From each element of the list, it takes the
/// first of the fields `keys` that is a string.
fn texts<'i>(item: &'i Value, list: &str, keys: &[&str]) -> Vec<&'i str> {
    let parts = item.get(list).and_then(Value::as_array);
    let text = |part: &'i Value| keys.iter().find_map(|key| part.get(*key)?.as_str());
    let texts = parts.into_iter().flatten().filter_map(text);
    texts.filter(|text| !text.is_empty()).collect()
}

/// The token counts in a response of the Responses API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    input_tokens_details: PromptDetails,
    #[serde(deserialize_with = "lenient::or_default")]
    output_tokens_details: CompletionDetails,
}

impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let (input, output) = (wire.input_tokens_details, wire.output_tokens_details);
        Self {
            input_tokens: wire.input_tokens.unwrap_or_default(),
            output_tokens: wire.output_tokens.unwrap_or_default(),
            cache_read_tokens: input.cached_tokens,
            cache_creation_tokens: input.cache_write_tokens,
            reasoning_tokens: output.reasoning_tokens,
            iterations: None,
            cost: None,
        }
    }
}

#[cfg(test)]
mod tests;
