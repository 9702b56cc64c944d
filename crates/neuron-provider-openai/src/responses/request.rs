//! Serialisation of requests of the Responses API.
//!
//! <https://platform.openai.com/docs/api-reference/responses/create>
//!
//! The field `input` is written last, so that each body starts with the same bytes as the body of the previous turn.
//! Prompt caches need this common prefix.

mod tools;

use std::borrow::Cow;

use neuron_http::{Fields, RenamedRequest, Shortest, is_common_image, write_json};
use neuron_model::{
    ContentBlock, ContentItem, ContextEdit, DocumentSource, Message, ModelContent, ProviderError,
    RequestRef, ResponseFormat, Role, SystemPrompt, ThinkingConfig, ToolChoice,
};
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::tools::Tools;
use super::echo::{JsonText, RepairedCall};
use super::search::Search;
use crate::dialect::Dialect;
use crate::message::{self, DataUrl, FILE_NAME, ToolText, is_own_fields};
use crate::request::{NAMES, PROVIDER, Settings, effort, has_tools};

/// Serialises a request of the Responses API for the model `model`. If `stream` is set, the body asks for a streamed
/// response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has stop sequences, which the API does not support, or if it cannot
/// be serialised.
pub(crate) fn write(
    request: RequestRef<'_>,
    model: &str,
    settings: Settings<'_>,
    stream: bool,
) -> Result<Vec<u8>, ProviderError> {
    write_renamed(&NAMES.rename(request), model, settings, stream)
}

/// Serialises a request whose names of tools the API accepts, as [`write`] does.
pub(crate) fn write_renamed(
    renamed: &RenamedRequest<'_>,
    model: &str,
    settings: Settings<'_>,
    stream: bool,
) -> Result<Vec<u8>, ProviderError> {
    let request = renamed.request();
    if !request.stop_sequences.is_empty() {
        return Err(ProviderError::InvalidRequest(
            "the Responses API takes no stop sequences: use Chat Completions".into(),
        ));
    }
    settings.dialect.limits().check(renamed.original())?;
    write_json(request.extra, |fields| write_fields(fields, request, model, settings, stream))
}

fn write_fields(
    fields: &mut Fields<'_>,
    request: RequestRef<'_>,
    model: &str,
    settings: Settings<'_>,
    stream: bool,
) -> serde_json::Result<()> {
    fields.entry("model", model)?;
    fields.leave_out(settings.dialect.left_out);
    fields.some("stream", stream.then_some(true))?;
    // The caller keeps the history, so OpenAI need not store the response. Without storage, the caller must send
    // reasoning back, and only encrypted reasoning can be sent back.
    fields.entry("store", &false)?;
    fields.entry("include", &["reasoning.encrypted_content"])?;
    fields.some("max_output_tokens", request.max_tokens)?;
    fields.some("temperature", request.temperature.map(Shortest))?;
    fields.some("top_p", request.top_p.map(Shortest))?;
    fields.some("reasoning", reasoning(request))?;
    fields.some("text", format(request).map(|format| TextConfig { format }))?;
    let edits = request.context_management.into_iter().flat_map(|management| &management.edits);
    let edits: Vec<_> = edits.map(Edit).collect();
    fields.some("context_management", (!edits.is_empty()).then_some(edits))?;
    let search = Search::of(&request, model, settings.dialect.name);
    let tools = Tools { search: &search, strict: settings.dialect.strict_tools };
    fields.some("tools", (!request.tools.is_empty()).then_some(tools))?;
    fields.some("tool_choice", tool_choice(request))?;
    let one_call = settings.disables_parallel_calls && has_tools(request);
    fields.some("parallel_tool_calls", one_call.then_some(false))?;
    fields.some("instructions", request.system.and_then(instructions))?;
    // The other fields of `extra` come before the input, which must be last.
    fields.rest_but("input")?;
    fields.entry("input", &Input { request, settings, search: &search })
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

/// Returns the field `reasoning`, which contains the effort. If thinking is enabled, the field also asks for a summary.
/// Returns `None` if the request sets neither.
fn reasoning(request: RequestRef<'_>) -> Option<Reasoning> {
    let is_on =
        matches!(request.thinking, Some(ThinkingConfig::Enabled { .. } | ThinkingConfig::Adaptive));
    let (effort, summary) = (effort(request), is_on.then_some("auto"));
    (effort.is_some() || summary.is_some()).then_some(Reasoning { effort, summary })
}

#[derive(Serialize)]
struct TextConfig<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonObject,
    JsonSchema { name: &'a str, schema: &'a Value, strict: bool },
}

fn format(request: RequestRef<'_>) -> Option<Format<'_>> {
    match request.response_format? {
        ResponseFormat::JsonObject => Some(Format::JsonObject),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            Some(Format::JsonSchema { name, schema, strict: *strict })
        }
        _ => None,
    }
}

struct Edit<'a>(&'a ContextEdit);

impl Serialize for Edit<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ContextEdit::Compact { strategy } => serializer.collect_map([("type", strategy)]),
            ContextEdit::Raw { json } => json.serialize(serializer),
            _ => Err(S::Error::custom("a context edit that is not known")),
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, name: &'a str },
}

fn tool_choice(request: RequestRef<'_>) -> Option<Choice<'_>> {
    Some(match request.tool_choice? {
        // The API rejects `tool_choice` without tools. Without tools, `auto` and `none` have no effect and are omitted.
        ToolChoice::Auto | ToolChoice::None if !has_tools(request) => return None,
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::Specific { name } => Choice::Function { r#type: "function", name },
    })
}

/// Returns the system prompt as one text, with a blank line between its blocks. Returns `None` if the prompt is blank.
fn instructions(prompt: &SystemPrompt) -> Option<String> {
    let text = match prompt {
        SystemPrompt::Text(text) => text.clone(),
        SystemPrompt::Blocks(blocks) => {
            let texts = blocks.iter().map(|block| block.text.as_str());
            texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
        }
    };
    (!text.trim().is_empty()).then_some(text)
}

struct Input<'a> {
    request: RequestRef<'a>,
    settings: Settings<'a>,
    search: &'a Search<'a>,
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(None)?;
        let dialect = self.settings.dialect;
        // Latest assistant message. It contains the calls to which the next tool results refer.
        let mut before = None;
        for message in self.request.messages {
            match message.role {
                Role::System => {
                    let content = message::texts(message).collect::<String>();
                    if !content.is_empty() {
                        let role = dialect.system_role.name();
                        items.serialize_element(&InputMessage { role, content })?;
                    }
                }
                Role::Assistant => {
                    for item in assistant_items(message, self.request, self.search, dialect) {
                        items.serialize_element(&item)?;
                    }
                }
                Role::User => write_user(&mut items, message, before, dialect)?,
            }
            if message.role == Role::Assistant {
                before = Some(message);
            }
        }
        items.end()
    }
}

#[derive(Serialize)]
struct InputMessage<C> {
    role: &'static str,
    content: C,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// The JSON of a [`ContentBlock::Raw`] in the format of the API, sent unchanged.
    Own(&'a Value),
    Repaired(RepairedCall<'a>),
    Text {
        role: &'static str,
        content: &'a str,
    },
    Call {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: JsonText<'a>,
    },
}

impl Item<'_> {
    fn is_reasoning(&self) -> bool {
        matches!(self, Item::Own(json) if json.get("type").is_some_and(|kind| kind == "reasoning"))
    }
}

/// Converts an assistant message to items. Two kinds of reasoning items are omitted:
///
/// - Reasoning at the end of the message, for example of a truncated response. The API rejects reasoning without a
///   following item.
/// - Reasoning that is not [self-contained](is_self_contained), unless the request's `extra` contains `"store": true`.
fn assistant_items<'a>(
    message: &'a Message,
    request: RequestRef<'a>,
    search: &'a Search<'a>,
    dialect: &'a Dialect,
) -> impl Iterator<Item = Item<'a>> {
    let stores = request.extra.and_then(|extra| extra.get("store")?.as_bool());
    let is_kept = move |item: &Item<'_>| match item {
        Item::Own(json) if item.is_reasoning() => stores == Some(true) || is_self_contained(json),
        _ => true,
    };
    let items = move || {
        let blocks = message.content.iter();
        let items = blocks.filter_map(move |block| item(block, search, dialect));
        items.filter(is_kept)
    };
    // Only reasoning follows the last item of another type, so everything after that item is omitted.
    let others = items().enumerate().filter(|(_, item)| !item.is_reasoning());
    let needed = others.last().map_or(0, |(last, _)| last + 1);
    items().take(needed)
}

/// Returns `true` if a reasoning item contains its content, either encrypted or as plain text. Other reasoning items
/// only refer to content that OpenAI stores.
fn is_self_contained(reasoning: &Value) -> bool {
    let text = |key: &str| reasoning.get(key).and_then(Value::as_str);
    let parts = reasoning.get("content").and_then(Value::as_array);
    text("encrypted_content").is_some() || parts.is_some_and(|parts| !parts.is_empty())
}

/// Converts a block of an assistant message to an item. Returns `None` for blocks that are not sent, such as reasoning
/// of another provider.
fn item<'a>(block: &'a ContentBlock, search: &Search<'_>, dialect: &Dialect) -> Option<Item<'a>> {
    if let Some(json) = own_item(block, dialect.name) {
        if search.omits(json) {
            return None;
        }
        let repaired = RepairedCall::new(block, json, search);
        return Some(repaired.map_or(Item::Own(json), Item::Repaired));
    }
    match block.portable()? {
        ContentBlock::Text(text) | ContentBlock::Compaction { content: text } => {
            (!text.is_empty()).then_some(Item::Text { role: "assistant", content: text })
        }
        ContentBlock::ToolUse { id, name, input } => Some(Item::Call {
            r#type: "function_call",
            call_id: dialect.call_id(id),
            name,
            arguments: JsonText(input),
        }),
        // The API accepts only its own reasoning, so reasoning of other providers is dropped.
        _ => None,
    }
}

/// Returns the JSON of a raw block of `vendor` that is an item of the Responses API. Returns `None` for any other block.
fn own_item<'a>(block: &'a ContentBlock, vendor: &str) -> Option<&'a Value> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == vendor => {
            Some(json).filter(|json| is_item(json))
        }
        _ => None,
    }
}

/// Returns `true` if the JSON of a raw block is an item of the Responses API. Raw blocks may also contain data of Chat
/// Completions.
fn is_item(json: &Value) -> bool {
    json.as_object().is_some_and(|fields| {
        fields.contains_key("type") && !is_own_fields(fields) && !fields.contains_key("custom")
    })
}

/// Serialises a user message. Each tool result becomes a separate item. Raw items of the caller are written unchanged.
/// `before` is the previous assistant message, which contains the calls that the tool results answer.
fn write_user<S: SerializeSeq>(
    items: &mut S,
    message: &Message,
    before: Option<&Message>,
    dialect: &Dialect,
) -> Result<(), S::Error> {
    // Tool results come first, because they answer the calls of the previous message.
    for block in &message.content {
        if let Some(ContentBlock::ToolResult { tool_use_id, content, is_error }) = block.portable()
        {
            let own = before.and_then(|before| own_call(before, tool_use_id, dialect.name));
            let is_custom = own
                .is_some_and(|own| own.get("type").is_some_and(|kind| kind == "custom_tool_call"));
            items.serialize_element(&CallOutput {
                r#type: if is_custom { "custom_tool_call_output" } else { "function_call_output" },
                // The server knows the id of its own call.
                call_id: match own {
                    Some(_) => tool_use_id.into(),
                    None => dialect.call_id(tool_use_id),
                },
                output: Output { content, is_error: *is_error },
            })?;
        }
    }
    // A raw part, such as an image, belongs to the content of the user's message. A raw item is a sibling of that
    // message.
    for block in &message.content {
        if let ContentBlock::Raw { provider, json, portable: None } = block
            && provider == PROVIDER
            && is_item(json)
            && message::own_part(block, PROVIDER, &PARTS).is_none()
        {
            items.serialize_element(json)?;
        }
    }
    let content = UserContent(message);
    if content.parts().next().is_none() {
        return Ok(());
    }
    items.serialize_element(&InputMessage { role: "user", content })
}

/// The content of a user message, serialised as one text or as a list of parts.
struct UserContent<'a>(&'a Message);

impl<'a> UserContent<'a> {
    fn parts(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        self.0.content.iter().filter_map(part)
    }
}

impl Serialize for UserContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A string is the shortest form of a single text.
        let mut parts = self.parts();
        match (parts.next(), parts.next()) {
            (Some(Part::Text { text }), None) => serializer.serialize_str(text),
            _ => serializer.collect_seq(self.parts()),
        }
    }
}

/// Returns the JSON of the vendor's own call with the id `id` in `message`. Returns `None` if the call is not the
/// vendor's own. The results of custom tools have their own item type.
fn own_call<'a>(message: &'a Message, id: &str, vendor: &str) -> Option<&'a Value> {
    let mut blocks = message.content.iter();
    let block = blocks.find(|block| block.as_tool_use().is_some_and(|call| call.id == id))?;
    own_item(block, vendor)
}

/// The types of content parts that a user message may contain.
const PARTS: [&str; 4] = ["input_text", "input_image", "input_file", "input_audio"];

#[derive(Serialize)]
struct CallOutput<'a> {
    r#type: &'static str,
    call_id: Cow<'a, str>,
    output: Output<'a>,
}

/// The output of a tool. Serialised as a string if it contains only text, and otherwise as a list of parts.
struct Output<'a> {
    content: &'a [ContentItem],
    is_error: bool,
}

impl Serialize for Output<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { content, is_error } = *self;
        let parts = || content.iter().map(output_part);
        if parts().all(|part| part.is_text()) {
            return ToolText { content, is_error }.serialize(serializer);
        }
        let mark = is_error.then_some(Part::Text { text: "Error:" });
        serializer.collect_seq(mark.into_iter().chain(parts()))
    }
}

/// Converts an item of a tool result to a content part.
fn output_part(item: &ContentItem) -> Part<'_> {
    match item.for_model() {
        ModelContent::Text(text) => Part::Text { text },
        ModelContent::Image { media_type, data } => {
            Part::image(DataUrl::Data { media_type, base64: data })
        }
        ModelContent::ImageUrl { url } if is_common_image(url) => {
            Part::image(DataUrl::image_at(url))
        }
        ModelContent::Pdf { data } => Part::pdf(data),
        _ => Part::ItemText { text: ItemText(item) },
    }
}

/// An item of a tool result, serialised as text.
struct ItemText<'a>(&'a ContentItem);

impl Serialize for ItemText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: &'a str },
    /// An item of a tool result for which the API has no part type, so it is sent as text.
    #[serde(rename = "input_text")]
    ItemText { text: ItemText<'a> },
    #[serde(rename = "input_image")]
    Image { image_url: DataUrl<'a>, detail: &'static str },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<DataUrl<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
    /// A part that the caller wrote in the API's format.
    #[serde(untagged)]
    Own(&'a Value),
}

impl<'a> Part<'a> {
    fn image(image_url: DataUrl<'a>) -> Self {
        Self::Image { image_url, detail: "auto" }
    }

    fn pdf(data: &'a str) -> Self {
        Self::File {
            filename: Some(FILE_NAME),
            file_data: Some(DataUrl::pdf(data)),
            file_url: None,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::ItemText { .. })
    }
}

/// Converts a block of a user message to a content part. Returns `None` for an empty text, and for blocks that are not
/// content parts, such as tool results.
fn part(block: &ContentBlock) -> Option<Part<'_>> {
    if let Some(own) = message::own_part(block, PROVIDER, &PARTS) {
        return Some(Part::Own(own));
    }
    Some(match block.portable()? {
        ContentBlock::Text(text) | ContentBlock::Compaction { content: text }
            if text.is_empty() =>
        {
            return None;
        }
        ContentBlock::Text(text)
        | ContentBlock::Compaction { content: text }
        | ContentBlock::Document { source: DocumentSource::PlainText { data: text } } => {
            Part::Text { text }
        }
        ContentBlock::Image { source } => Part::image(DataUrl::image(source)?),
        ContentBlock::Document { source: DocumentSource::Base64Pdf { data } } => Part::pdf(data),
        ContentBlock::Document { source: DocumentSource::Url { url } } => {
            Part::File { filename: None, file_data: None, file_url: Some(url) }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
