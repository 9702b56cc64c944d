//! Serialisation of chat requests.
//!
//! <https://docs.ollama.com/api/chat>
//!
//! Equal requests are serialised to equal bytes, and `messages` is the last field. The body of each turn therefore
//! begins with the bytes of the previous turn's body, unless the conversation was compacted between them. Prompt caches
//! need this.

use neuron_http::{RequestLimits, Shortest, write_json};
use neuron_model::{
    ContentBlock, DocumentSource, ProviderError, ReasoningEffort, RequestRef, ResponseFormat,
    ThinkingConfig, ToolChoice,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::extra::{CHAT_FIELDS, with_options};
use crate::messages::{Messages, bare_base64, portable_block};
use crate::tools::Tools;

/// Name of Ollama in telemetry, and name of the API's JSON format in a [`ContentBlock::Raw`].
pub(crate) const PROVIDER: &str = "ollama";

/// The settings of the client that affect requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings<'a> {
    pub(crate) model: &'a str,
    pub(crate) keep_alive: Option<&'a Value>,
    /// Options of all requests. Must be a JSON object.
    pub(crate) options: Option<&'a Value>,
}

impl Settings<'_> {
    /// Returns the options that apply to all requests, or an empty map if none are set.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the options are not a JSON object.
    pub(crate) fn options(self) -> Result<Map<String, Value>, ProviderError> {
        match self.options {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(options)) => Ok(options.clone()),
            Some(_) => {
                Err(invalid("the options must be a JSON object: {\"num_ctx\": 8192}, for instance"))
            }
        }
    }
}

/// Serialises a chat request. `stream` requests a streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
pub(crate) fn write(
    request: RequestRef<'_>,
    settings: Settings<'_>,
    stream: bool,
) -> Result<Vec<u8>, ProviderError> {
    check(request)?;
    let options = options(request, settings)?;
    // The API has no tool choice, so the tools are omitted if the model must not call any.
    let may_call = request.tool_choice != Some(&ToolChoice::None);
    let tools = (may_call && !request.tools.is_empty()).then_some(Tools(request.tools));
    let mut extra = request.extra.map(|extra| with_options(extra, &CHAT_FIELDS)).transpose()?;
    if !may_call
        && let Some(extra) = &mut extra
        && extra.get("tools").is_some()
        && let Some(fields) = extra.to_mut().as_object_mut()
    {
        // The API has no tool choice. To forbid tools, a request must not contain any.
        fields.shift_remove("tools");
    }
    write_json(extra.as_deref(), |fields| {
        fields.entry("model", request.model_or(settings.model))?;
        // The API streams by default, so `stream` is always sent.
        fields.entry("stream", &stream)?;
        fields.some("format", format(request))?;
        fields.some("think", think(request))?;
        fields.some("keep_alive", settings.keep_alive)?;
        fields.some("options", (!options.is_empty()).then_some(&options))?;
        fields.some("tools", tools)?;
        // The other fields of `extra` come before the messages, which must be last.
        fields.rest_but("messages")?;
        let (system, messages) = (request.system, request.messages);
        fields.entry("messages", &Messages { system, messages })
    })
}

/// Returns an error if the API cannot express the request. Without the error, a part of the request would be lost
/// silently.
fn check(request: RequestRef<'_>) -> Result<(), ProviderError> {
    match &request.tool_choice {
        Some(ToolChoice::Required) => {
            return Err(invalid(
                "Ollama cannot force a tool call: use ToolChoice::Auto and ask for it in the prompt",
            ));
        }
        Some(ToolChoice::Specific { name }) => {
            return Err(invalid(&format!(
                "Ollama cannot force a call of `{name}`: use ToolChoice::Auto and give it no other tool"
            )));
        }
        _ => {}
    }
    RequestLimits::new("Ollama").check(request)?;
    if request.context_management.is_some_and(|management| !management.edits.is_empty()) {
        return Err(invalid(
            "Ollama does not edit conversations: use a ContextStrategy, which runs on the client",
        ));
    }
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks.filter_map(portable_block).try_for_each(check_block)
}

fn check_block(block: &ContentBlock) -> Result<(), ProviderError> {
    match block {
        ContentBlock::Image { source } if bare_base64(source).is_none() => Err(invalid(
            "Ollama fetches no images: send the bytes as ImageSource::Base64 instead of a URL",
        )),
        ContentBlock::Document { source: DocumentSource::PlainText { .. } } => Ok(()),
        ContentBlock::Document { .. } => Err(invalid(
            "Ollama reads no documents but plain text: send their text as DocumentSource::PlainText",
        )),
        _ => Ok(()),
    }
}

fn invalid(why: &str) -> ProviderError {
    ProviderError::InvalidRequest(why.to_owned())
}

/// Returns the options of all requests, overridden by the options of this request.
fn options(
    request: RequestRef<'_>,
    settings: Settings<'_>,
) -> Result<Map<String, Value>, ProviderError> {
    let mut options = settings.options()?;
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            options.insert(key.to_owned(), value);
        }
    };
    set("temperature", request.temperature.map(number).transpose()?);
    set("top_p", request.top_p.map(number).transpose()?);
    set("num_predict", request.max_tokens.map(Value::from));
    let stops = request.stop_sequences;
    set("stop", (!stops.is_empty()).then(|| stops.into()));
    Ok(options)
}

/// Converts a number to JSON with as few digits as possible.
fn number(number: f32) -> Result<Value, ProviderError> {
    let number = serde_json::to_value(Shortest(number));
    number.map_err(|error| invalid(&format!("cannot be written: {error}")))
}

#[derive(Serialize)]
#[serde(untagged)]
enum Format<'a> {
    Json(&'static str),
    Schema(&'a Value),
}

fn format(request: RequestRef<'_>) -> Option<Format<'_>> {
    match request.response_format? {
        ResponseFormat::JsonObject => Some(Format::Json("json")),
        ResponseFormat::JsonSchema { schema, .. } => Some(Format::Schema(schema)),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Think {
    Enabled(bool),
    Level(&'static str),
}

/// Returns the field `think`, which controls both thinking and its effort. Returns `None` for the default of the model.
fn think(request: RequestRef<'_>) -> Option<Think> {
    let level = match request.reasoning_effort {
        Some(ReasoningEffort::Low) => Some("low"),
        Some(ReasoningEffort::Medium) => Some("medium"),
        Some(ReasoningEffort::High) => Some("high"),
        _ => None,
    };
    match (request.thinking, level) {
        // Disabled thinking takes precedence over an effort.
        (Some(ThinkingConfig::Disabled), _) => Some(Think::Enabled(false)),
        (_, Some(level)) => Some(Think::Level(level)),
        (Some(ThinkingConfig::Enabled { .. } | ThinkingConfig::Adaptive), None) => {
            Some(Think::Enabled(true))
        }
        _ if request.reasoning_effort == Some(ReasoningEffort::None) => Some(Think::Enabled(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
