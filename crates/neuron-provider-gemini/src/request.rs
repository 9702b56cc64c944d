//! Serialisation of requests.
//!
//! <https://ai.google.dev/api/generate-content>
//!
//! Equal requests are serialised to equal bytes, and `contents` is the last field. The body of each turn therefore
//! begins with the bytes of the previous turn's body, unless the conversation was compacted between them. Prompt caches
//! need this. The name of the model is a part of the URL.

use neuron_http::{RenamedRequest, RequestLimits, Shortest, write_json};
use neuron_model::{
    ContentBlock, Message, ProviderError, RequestRef, ResponseFormat, SystemPrompt,
};
use serde::Serialize;
use serde_json::Value;

use crate::contents::{Target, contents, surround_with_user};
use crate::model::number_of_generation;
use crate::names::NAMES;
use crate::schema;
use crate::thinking::{Thinking, thinking};
use crate::tools::{Tools, tool_config};

/// Maximum number of output tokens of one request.
///
/// <https://ai.google.dev/gemini-api/docs/long-decode>
const MAX_OUTPUT_TOKENS: usize = 65_536;

/// Maximum number of output tokens of a response that is not streamed, for models with long decode.
const MAX_WHOLE_OUTPUT_TOKENS: u64 = 32_768;

/// First generation of models with long decode. Their maximum of output tokens is the maximum of all requests that
/// continue each other, and may be larger than the maximum of one request.
const LONG_DECODE: u32 = 4;

/// The maximum number of stop sequences. The types of images depend on the platform, see [`crate::media`].
///
/// <https://ai.google.dev/api/generate-content#generationconfig>
const LIMITS: RequestLimits = RequestLimits::new("Gemini").max_stop_sequences(5);

/// Returns the `maxOutputTokens` of a request. Models without long decode reject more than the maximum of one request,
/// so it replaces a larger number, unless the request continues an earlier response.
fn max_output_tokens(request: RequestRef<'_>, model: &str) -> Option<usize> {
    let token = request.extra.and_then(|extra| extra.get("continuationToken"));
    let continues = token.is_some_and(|token| !token.is_null());
    let is_long = number_of_generation(model).is_some_and(|number| number >= LONG_DECODE);
    let limit = if continues || is_long { usize::MAX } else { MAX_OUTPUT_TOKENS };
    request.max_tokens.map(|tokens| tokens.min(limit))
}

/// Returns `true` if the API generates so many tokens only in a stream. `extra` takes precedence in the body, so it does
/// here too. A model without a number in its name may have long decode.
pub(crate) fn needs_stream(request: RequestRef<'_>, model: &str) -> bool {
    let own = request.extra.and_then(|extra| {
        extra.get("generationConfig")?.get("maxOutputTokens").filter(|tokens| !tokens.is_null())
    });
    let tokens = match own {
        Some(own) => own.as_u64(),
        None => max_output_tokens(request, model).and_then(|tokens| tokens.try_into().ok()),
    };
    tokens.is_some_and(|tokens| tokens > MAX_WHOLE_OUTPUT_TOKENS)
        && number_of_generation(model).is_none_or(|number| number >= LONG_DECODE)
}

/// Serialises a request to `model`. `vendor` is the name of the platform.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
pub(crate) fn write(
    request: RequestRef<'_>,
    model: &str,
    vendor: &'static str,
) -> Result<Vec<u8>, ProviderError> {
    write_renamed(&NAMES.rename(request), model, vendor)
}

/// Serialises a request whose names of tools the API accepts, as [`write`] does.
pub(crate) fn write_renamed(
    renamed: &RenamedRequest<'_>,
    model: &str,
    vendor: &'static str,
) -> Result<Vec<u8>, ProviderError> {
    LIMITS.check(renamed.original())?;
    let request = renamed.request();
    if request.context_management.is_some_and(|management| !management.edits.is_empty()) {
        return Err(ProviderError::InvalidRequest(
            "Gemini does not edit conversations: use a ContextStrategy, which runs on the client"
                .into(),
        ));
    }
    let config = GenerationConfig::new(request, model, thinking(request, model)?);
    // The API rejects tools and a system instruction beside a cache, which contains them already. System messages are a
    // part of the conversation, so they are sent as contents then.
    let cache = |field| request.extra.and_then(|extra| extra.get(field));
    let is_cached = [cache("cachedContent"), cache("cached_content")]
        .into_iter()
        .flatten()
        .any(|cache| !cache.is_null());
    let (leading, messages) = match is_cached {
        true => (&[][..], request.messages),
        false => request.split_leading_system(),
    };
    let mut contents = contents(messages, Target::new(vendor, model))?;
    // The API's own error explains best that there are no messages.
    if !messages.is_empty() {
        surround_with_user(&mut contents);
    }
    write_json(request.extra, |fields| {
        fields.some("generationConfig", config.is_set().then_some(&config))?;
        if !is_cached {
            fields.some("tools", Tools::new(request.tools, vendor)?)?;
            fields.some("toolConfig", tool_config(request))?;
            let system = SystemInstruction::new(request.system, leading);
            fields.some("systemInstruction", (!system.parts.is_empty()).then_some(system))?;
        }
        // The other fields of `extra` come before the contents, which must be last.
        fields.rest_but("contents")?;
        fields.entry("contents", &contents)
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Shortest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<Shortest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<usize>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Value>,
}

impl<'a> GenerationConfig<'a> {
    fn new(request: RequestRef<'a>, model: &str, thinking_config: Option<Thinking>) -> Self {
        let (is_json, response_json_schema) = match request.response_format {
            Some(ResponseFormat::JsonObject) => (true, None),
            Some(ResponseFormat::JsonSchema { schema, .. }) => {
                (true, Some(schema::accepted(schema)))
            }
            _ => (false, None),
        };
        Self {
            temperature: request.temperature.map(Shortest),
            top_p: request.top_p.map(Shortest),
            max_output_tokens: max_output_tokens(request, model),
            stop_sequences: request.stop_sequences,
            thinking_config,
            response_mime_type: is_json.then_some("application/json"),
            response_json_schema,
        }
    }

    /// Returns `true` if the configuration has at least one field.
    fn is_set(&self) -> bool {
        self.temperature.is_some()
            || self.top_p.is_some()
            || self.max_output_tokens.is_some()
            || !self.stop_sequences.is_empty()
            || self.thinking_config.is_some()
            || self.response_mime_type.is_some()
    }
}

#[derive(Serialize)]
struct SystemInstruction<'a> {
    parts: Vec<TextPart<'a>>,
}

#[derive(Serialize)]
struct TextPart<'a> {
    text: &'a str,
}

impl<'a> SystemInstruction<'a> {
    fn new(prompt: Option<&'a SystemPrompt>, leading: &'a [Message]) -> Self {
        let (text, blocks) = match prompt {
            Some(SystemPrompt::Text(text)) => (Some(text.as_str()), &[][..]),
            Some(SystemPrompt::Blocks(blocks)) => (None, blocks.as_slice()),
            None => (None, &[][..]),
        };
        let leading = leading.iter().flat_map(|message| &message.content);
        let texts = text.into_iter().chain(blocks.iter().map(|block| block.text.as_str()));
        let texts = texts.chain(leading.filter_map(ContentBlock::as_text));
        let texts = texts.filter(|text| !text.is_empty());
        Self { parts: texts.map(|text| TextPart { text }).collect() }
    }
}

#[cfg(test)]
mod tests;
