//! Serialisation of requests of Chat Completions.
//!
//! <https://platform.openai.com/docs/api-reference/chat/create>
//!
//! Equal requests are serialised to equal bytes, and `messages` is the last field. The body of each turn therefore
//! begins with the bytes of the previous turn's body. Prompt caches need this.

use std::borrow::Cow;
use std::ops::Not;
use std::sync::LazyLock;

use neuron_http::{
    Fields, RenamedRequest, Shortest, ToolNames, VendorFields, ascii_name, tool_schema, write_json,
};
use neuron_model::{
    Message, ProviderError, ReasoningEffort, RequestRef, ResponseFormat, Role, SystemPrompt,
    ThinkingConfig, ToolChoice, ToolDefinition,
};
use serde::ser::{Error, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::message::{self, AssistantMessage, ToolMessage, UserContent};

/// Name of OpenAI in telemetry, and name of the API's JSON format in a
/// [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw).
pub(crate) const PROVIDER: &str = "openai";

/// The names of tools that both APIs accept: `^[a-zA-Z0-9_-]{1,64}$`.
///
/// <https://platform.openai.com/docs/api-reference/chat/create>
pub(crate) const NAMES: ToolNames = ToolNames::new(|name| ascii_name(name, 64), 64);

/// The settings of the client that affect requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    pub(crate) dialect: &'a Dialect,
    pub(crate) disables_parallel_calls: bool,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        static OPENAI: LazyLock<Dialect> = LazyLock::new(Dialect::openai);
        Self { dialect: &OPENAI, disables_parallel_calls: false }
    }
}

/// Serialises a request of Chat Completions. `model` is the model to which the request is sent, and `stream` requests a
/// streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
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
    settings.dialect.limits().check(renamed.original())?;
    let request = renamed.request();
    let management = request.context_management;
    if management.is_some_and(|management| !management.edits.is_empty()) {
        return Err(ProviderError::InvalidRequest(
            "Chat Completions manages no context: use the Responses API, or a ContextStrategy"
                .into(),
        ));
    }
    message::check(request.messages)?;
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
    let Settings { dialect, disables_parallel_calls } = settings;
    fields.leave_out(dialect.left_out);
    // False is the API's default, so `stream` is omitted unless it is true.
    if stream {
        fields.entry("stream", &true)?;
        // By default, OpenAI sends no token counts in streams.
        fields.entry(STREAM_OPTIONS, &StreamOptions { include_usage: true })?;
    }
    fields.some(dialect.token_limit.field(), request.max_tokens)?;
    fields.some("temperature", request.temperature.map(Shortest))?;
    fields.some("top_p", request.top_p.map(Shortest))?;
    let stops = request.stop_sequences;
    fields.some("stop", (!stops.is_empty()).then_some(stops))?;
    fields.some("reasoning_effort", effort(request))?;
    fields.some("response_format", format(request))?;
    let tools = Tools { tools: request.tools, strict: dialect.strict_tools };
    fields.some("tools", (!request.tools.is_empty()).then_some(tools))?;
    fields.some("tool_choice", tool_choice(request))?;
    // The API rejects `parallel_tool_calls` without tools.
    let one_call = disables_parallel_calls && has_tools(request);
    fields.some("parallel_tool_calls", one_call.then_some(false))?;
    // The other fields of `extra` come before the messages, which must be last.
    fields.rest_but("messages")?;
    fields.entry("messages", &Messages { request, settings })
}

/// Name of the request field that asks for the token counts of a streamed response.
const STREAM_OPTIONS: &str = "stream_options";

/// Returns `true` if a streamed request asks for token counts. The caller can turn the counts off with `stream_options`
/// in `extra`. Some dialects omit the field `stream_options`.
pub(crate) fn requests_usage(request: RequestRef<'_>, dialect: &Dialect) -> bool {
    let own = request.extra.and_then(|extra| extra.get(STREAM_OPTIONS));
    match own {
        None => !dialect.left_out.contains(&STREAM_OPTIONS),
        Some(Value::Object(own)) => own.get("include_usage") != Some(&Value::Bool(false)),
        Some(_) => false,
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Returns the value of `reasoning_effort`, or `None` for the default of the model. Disabled thinking is the effort
/// `none`.
pub(crate) fn effort(request: RequestRef<'_>) -> Option<&'static str> {
    match (request.reasoning_effort, request.thinking) {
        (Some(ReasoningEffort::None), _) | (None, Some(ThinkingConfig::Disabled)) => Some("none"),
        (Some(ReasoningEffort::Low), _) => Some("low"),
        (Some(ReasoningEffort::Medium), _) => Some("medium"),
        (Some(ReasoningEffort::High), _) => Some("high"),
        // The API has no token budget for reasoning, and enabled thinking is the default of models that can reason.
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonObject,
    JsonSchema { json_schema: Schema<'a> },
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

fn format(request: RequestRef<'_>) -> Option<Format<'_>> {
    match request.response_format? {
        ResponseFormat::JsonObject => Some(Format::JsonObject),
        ResponseFormat::JsonSchema { name, schema, strict } => {
            Some(Format::JsonSchema { json_schema: Schema { name, schema, strict: *strict } })
        }
        _ => None,
    }
}

/// Returns `true` if the request has tools in `tools` or in `extra`.
pub(crate) fn has_tools(request: RequestRef<'_>) -> bool {
    let more = request.extra.and_then(|extra| extra.get("tools"));
    !request.tools.is_empty() || more.is_some()
}

struct Tools<'a> {
    tools: &'a [ToolDefinition],
    strict: bool,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: Parameters<'a>,
            #[serde(skip_serializing_if = "Not::not")]
            strict: bool,
            #[serde(flatten)]
            vendor: VendorFields<'a>,
        }
        let mut tools = serializer.serialize_seq(None)?;
        for tool in self.tools {
            let function = Function {
                name: &tool.name,
                description: &tool.description,
                parameters: Parameters::of(tool, self.strict)?,
                strict: self.strict && tool.is_strict(),
                vendor: vendor_fields(tool),
            };
            tools.serialize_element(&Tool { r#type: "function", function })?;
        }
        tools.end()
    }
}

/// Returns the vendor fields of a tool that are meant for OpenAI's APIs, except the fields that this crate itself
/// writes.
pub(crate) fn vendor_fields(tool: &ToolDefinition) -> VendorFields<'_> {
    const WRITTEN: [&str; 5] = ["type", "name", "description", "parameters", "strict"];
    VendorFields { tool, provider: PROVIDER, written: &WRITTEN }
}

/// The JSON schema of a tool's arguments. A tool without arguments may have an object schema without `properties`.
/// Empty `properties` are then added, because the API requires them.
pub(crate) struct Parameters<'a>(Cow<'a, Value>);

impl<'a> Parameters<'a> {
    /// Returns the schema for strict tools if the tool is strict and the server accepts strict tools (`takes_strict`).
    /// Otherwise returns the plain schema.
    ///
    /// # Errors
    ///
    /// An error that names the tool if its arguments are no object.
    pub(crate) fn of<E: Error>(tool: &'a ToolDefinition, takes_strict: bool) -> Result<Self, E> {
        tool_schema(tool, takes_strict).map(Self)
    }
}

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = &*self.0 else {
            return self.0.serialize(serializer);
        };
        let lacks_properties = !fields.contains_key("properties");
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            map.serialize_entry(key, value)?;
        }
        if lacks_properties {
            map.serialize_entry("properties", &Map::new())?;
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Word(&'static str),
    Function { r#type: &'static str, function: Name<'a> },
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

fn tool_choice(request: RequestRef<'_>) -> Option<Choice<'_>> {
    Some(match request.tool_choice? {
        // The API rejects `tool_choice` without tools. Without tools, `auto` and `none` have no effect and are omitted.
        ToolChoice::Auto | ToolChoice::None if !has_tools(request) => return None,
        ToolChoice::Auto => Choice::Word("auto"),
        ToolChoice::None => Choice::Word("none"),
        ToolChoice::Required => Choice::Word("required"),
        ToolChoice::Specific { name } => {
            Choice::Function { r#type: "function", function: Name { name } }
        }
    })
}

struct Messages<'a> {
    request: RequestRef<'a>,
    settings: Settings<'a>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let role = self.settings.dialect.system_role.name();
        if let Some(prompt) = &self.request.system {
            let content = SystemContent(prompt);
            if !content.is_empty() {
                messages.serialize_element(&Plain { role, content })?;
            }
        }
        for message in self.request.messages {
            match message.role {
                Role::System => {
                    let content = message::texts(message).collect::<String>();
                    if !content.is_empty() {
                        messages.serialize_element(&Plain { role, content })?;
                    }
                }
                Role::Assistant => {
                    let message = AssistantMessage::new(message, self.settings.dialect);
                    if !message.is_empty() {
                        messages.serialize_element(&message)?;
                    }
                }
                Role::User => write_user(&mut messages, message, self.settings.dialect)?,
            }
        }
        messages.end()
    }
}

/// Serialises a user message. Each tool result becomes a separate message. These messages come before the other
/// content, because the API requires them directly after the tool calls.
fn write_user<S: SerializeSeq>(
    messages: &mut S,
    message: &Message,
    dialect: &Dialect,
) -> Result<(), S::Error> {
    for result in ToolMessage::all(message, dialect) {
        messages.serialize_element(&result)?;
    }
    let content = UserContent(message);
    if content.is_empty() {
        return Ok(());
    }
    messages.serialize_element(&Plain { role: "user", content })
}

#[derive(Serialize)]
struct Plain<C> {
    role: &'static str,
    content: C,
}

struct SystemContent<'a>(&'a SystemPrompt);

impl SystemContent<'_> {
    fn is_empty(&self) -> bool {
        match self.0 {
            SystemPrompt::Text(text) => text.trim().is_empty(),
            SystemPrompt::Blocks(blocks) => blocks.iter().all(|block| block.text.trim().is_empty()),
        }
    }
}

impl Serialize for SystemContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            SystemPrompt::Text(text) => serializer.serialize_str(text),
            SystemPrompt::Blocks(blocks) => serializer.collect_seq(
                blocks
                    .iter()
                    .filter(|block| !block.text.trim().is_empty())
                    .map(|block| message::Part::Text { text: &block.text }),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
