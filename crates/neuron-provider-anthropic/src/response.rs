//! Parsing of responses that are not streamed. Also converts the blocks of streamed responses.

use neuron_http::{Secret, newer_count, or_default, read_with_arguments};
use neuron_model::{
    AnswerMetadata, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    TokenUsage, ToolCall, UsageIteration,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ids::ResponseIds;
use crate::request::PROVIDER;
use crate::{error, fallback};

/// Parses a response that is not streamed. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a message.
pub(crate) fn read(body: &[u8], secret: &Secret) -> Result<CompletionResponse, ProviderError> {
    // Some proxies send errors with a successful status.
    let mut wire: WireMessage<Vec<Value>, String> = read_with_arguments(body).map_err(|error| {
        if let Some(error) = error::find_in(body) {
            return error;
        }
        let shown = secret.excerpt(body);
        ProviderError::Other(
            format!("the response is not a message ({error}); it begins with: {shown}").into(),
        )
    })?;
    let (content, reason) = (std::mem::take(&mut wire.content), wire.stop_reason.take());
    let mut ids = ResponseIds::default();
    let id = wire.id.as_deref().unwrap_or_default();
    let blocks = content.into_iter().map(|mut json| {
        if let Value::Object(fields) = &mut json {
            ids.complete(fields, id);
        }
        block(json)
    });
    let content = blocks.collect();
    Ok(wire.into_response(content, reason))
}

/// A response that is not streamed, with blocks of the type `C` and a stop reason of the type `R`. The event
/// `message_start` of a stream has the same fields, but the blocks and the stop reason arrive later.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct WireMessage<C, R> {
    #[serde(default)]
    pub(crate) id: Option<String>,
    #[serde(default)]
    pub(crate) model: Option<String>,
    content: C,
    #[serde(default)]
    stop_reason: Option<R>,
    // A value of another type must not make the whole response fail.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) stop_sequence: Option<String>,
    #[serde(default)]
    pub(crate) stop_details: Option<Value>,
    #[serde(default)]
    pub(crate) container: Option<Value>,
    #[serde(default)]
    pub(crate) usage: Option<WireUsage>,
}

impl<C, R> WireMessage<C, R> {
    /// Builds the response from these fields, the content blocks and the stop reason.
    pub(crate) fn into_response(
        self,
        mut content: Vec<ContentBlock>,
        reason: Option<String>,
    ) -> CompletionResponse {
        fallback::without_abandoned(&mut content);
        let mut usage = self.usage.unwrap_or_default();
        let mut metadata = usage.take_metadata();
        metadata.stop_sequence = self.stop_sequence;
        metadata.stop_details = self.stop_details;
        metadata.container = self.container;
        let message = Message { role: Role::Assistant, content }.with_metadata(&metadata);
        CompletionResponse {
            id: self.id.unwrap_or_default(),
            model: self.model.unwrap_or_default(),
            stop_reason: stop_reason(reason.as_deref(), &message),
            message,
            usage: usage.into(),
        }
    }
}

/// Converts the stop reason of the API. Without a stop reason, a message with tool calls has [`StopReason::ToolUse`],
/// and any other message has [`StopReason::EndTurn`].
fn stop_reason(reason: Option<&str>, message: &Message) -> StopReason {
    match reason {
        Some("end_turn") => StopReason::EndTurn,
        Some("tool_use") => StopReason::ToolUse,
        Some("max_tokens") => StopReason::MaxTokens,
        Some("stop_sequence") => StopReason::StopSequence,
        Some("pause_turn") => StopReason::PauseTurn,
        Some("refusal") => StopReason::Refusal,
        Some("compaction") => StopReason::Compaction,
        Some("model_context_window_exceeded") => StopReason::ContextWindowExceeded,
        Some(other) => StopReason::Other(other.to_owned()),
        None if message.tool_uses().next().is_some() => StopReason::ToolUse,
        None => StopReason::EndTurn,
    }
}

/// Converts the JSON of a block. A block of an unknown type or with unknown fields becomes a [`ContentBlock::Raw`] with
/// unchanged JSON.
pub(crate) fn block(json: Value) -> ContentBlock {
    let Value::Object(mut fields) = json else {
        return raw(json, None);
    };
    // The fields that must be texts, and the other known fields.
    let (texts, others): (&[&str], &[&str]) = match text_of(&fields, "type") {
        Some("text") => (&["type", "text"], &[]),
        Some("thinking") => (&["type", "thinking"], &["signature"]),
        Some("redacted_thinking") => (&["type", "data"], &[]),
        Some("tool_use") => (&["type", "id", "name"], &["input"]),
        Some("compaction") => (&["type", "content"], &[]),
        _ => return raw(Value::Object(fields), None),
    };
    if texts.iter().any(|key| text_of(&fields, key).is_none()) {
        return raw(Value::Object(fields), None);
    }
    let is_known = |key: &String| texts.contains(&key.as_str()) || others.contains(&key.as_str());
    // Null and an empty list of citations carry no information, so the block need not become a raw block.
    let says_more = |(key, value): (&String, &Value)| {
        let no_citations = || key == "citations" && value.as_array().is_some_and(Vec::is_empty);
        !is_known(key) && !value.is_null() && !no_citations()
    };
    if !fields.iter().any(says_more) {
        return portable(&mut fields);
    }
    let known = fields.iter().filter(|(key, _)| is_known(key));
    let portable = portable(&mut known.map(|(key, value)| (key.clone(), value.clone())).collect());
    raw(Value::Object(fields), Some(portable))
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable: portable.map(Box::new) }
}

/// Moves the fields of a known block into a [`ContentBlock`].
fn portable(fields: &mut Map<String, Value>) -> ContentBlock {
    let mut take = |key: &str| match fields.get_mut(key) {
        Some(Value::String(text)) => std::mem::take(text),
        _ => String::new(),
    };
    match take("type").as_str() {
        "thinking" => {
            ContentBlock::Thinking { thinking: take("thinking"), signature: take("signature") }
        }
        "redacted_thinking" => ContentBlock::RedactedThinking { data: take("data") },
        "compaction" => ContentBlock::Compaction { content: take("content") },
        "tool_use" => {
            let (id, name) = (take("id"), take("name"));
            let input = match fields.get_mut("input").map(Value::take) {
                // Some compatible servers omit empty arguments. They send arguments as a text if the model did not
                // write an object.
                None | Some(Value::Null) => ToolCall::parse_input(""),
                Some(Value::String(text)) => ToolCall::parse_input(&text),
                Some(input) => input,
            };
            ContentBlock::ToolUse { id, name, input }
        }
        _ => ContentBlock::Text(take("text")),
    }
}

/// Returns the text of the field `key`, or `None` if the field is missing or is not a text.
fn text_of<'f>(fields: &'f Map<String, Value>, key: &str) -> Option<&'f str> {
    fields.get(key)?.as_str()
}

/// The token counts of a response. A stream sends them several times, and each later count replaces the earlier count.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    input_tokens: Option<usize>,
    output_tokens: Option<usize>,
    cache_read_input_tokens: Option<usize>,
    cache_creation_input_tokens: Option<usize>,
    output_tokens_details: Option<OutputDetails>,
    iterations: Option<Vec<WireIteration>>,
    #[serde(deserialize_with = "or_default")]
    service_tier: Option<String>,
    #[serde(deserialize_with = "or_default")]
    server_tool_use: Option<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireIteration {
    r#type: String,
    model: Option<String>,
    input_tokens: Option<usize>,
    output_tokens: Option<usize>,
    cache_read_input_tokens: Option<usize>,
    cache_creation_input_tokens: Option<usize>,
}

impl WireUsage {
    /// Returns the model that generated the response after a fallback. Returns `None` if the requested model generated
    /// it.
    pub(crate) fn fallback_model(&self) -> Option<&str> {
        let passes = self.iterations.iter().flatten();
        // After several fallbacks, the model of the last one generated the response.
        let served = passes.rev().find(|pass| pass.r#type == "fallback_message");
        served?.model.as_deref()
    }

    /// Moves the service tier and the uses of server tools out of the counts.
    fn take_metadata(&mut self) -> AnswerMetadata {
        let mut metadata = AnswerMetadata::default();
        metadata.service_tier = self.service_tier.take();
        let uses = self.server_tool_use.take().unwrap_or_default().into_iter();
        let uses = uses.filter_map(|(name, count)| Some((name, count.as_u64()?)));
        metadata.server_tool_usage = uses.filter(|(_, count)| *count > 0).collect();
        metadata
    }

    /// Merges the counts of a later event. A later count replaces an earlier count of the same field, unless it is zero.
    pub(crate) fn update(&mut self, later: Self) {
        self.input_tokens = newer_count(self.input_tokens, later.input_tokens);
        self.output_tokens = newer_count(self.output_tokens, later.output_tokens);
        self.cache_read_input_tokens =
            newer_count(self.cache_read_input_tokens, later.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer_count(self.cache_creation_input_tokens, later.cache_creation_input_tokens);
        self.output_tokens_details =
            later.output_tokens_details.or(self.output_tokens_details.take());
        self.iterations = later.iterations.or(self.iterations.take());
        self.service_tier = later.service_tier.or(self.service_tier.take());
        self.server_tool_use = later.server_tool_use.or(self.server_tool_use.take());
    }
}

/// Converts the counts into the number of billed tokens. [`TokenUsage`] includes cached input tokens, which the API
/// reports separately. It also includes compactions, which the API's totals exclude.
impl From<WireUsage> for TokenUsage {
    fn from(wire: WireUsage) -> Self {
        let reasoning_tokens =
            wire.output_tokens_details.and_then(|details| details.thinking_tokens);
        // If the API sends iterations, its totals exclude some of them. The sum of the iterations is used instead.
        let passes = wire.iterations.unwrap_or_default();
        if passes.is_empty() {
            let (read, created) = (wire.cache_read_input_tokens, wire.cache_creation_input_tokens);
            return Self {
                input_tokens: all_input(wire.input_tokens, read, created),
                output_tokens: wire.output_tokens.unwrap_or_default(),
                cache_read_tokens: read,
                cache_creation_tokens: created,
                reasoning_tokens,
                iterations: None,
                cost: None,
            };
        }
        let iterations: Vec<_> = passes.into_iter().map(UsageIteration::from).collect();
        let mut usage = Self { reasoning_tokens, ..Self::default() };
        for pass in &iterations {
            usage += &Self {
                input_tokens: pass.input_tokens,
                output_tokens: pass.output_tokens,
                cache_read_tokens: pass.cache_read_tokens,
                cache_creation_tokens: pass.cache_creation_tokens,
                ..Self::default()
            };
        }
        usage.iterations = Some(iterations);
        usage
    }
}

impl From<WireIteration> for UsageIteration {
    fn from(wire: WireIteration) -> Self {
        let (read, created) = (wire.cache_read_input_tokens, wire.cache_creation_input_tokens);
        Self {
            kind: wire.r#type,
            model: wire.model,
            input_tokens: all_input(wire.input_tokens, read, created),
            output_tokens: wire.output_tokens.unwrap_or_default(),
            cache_read_tokens: read,
            cache_creation_tokens: created,
        }
    }
}

/// Returns the sum of uncached input tokens, of tokens read from the cache, and of tokens written to the cache.
fn all_input(fresh: Option<usize>, read: Option<usize>, created: Option<usize>) -> usize {
    [fresh, read, created].into_iter().flatten().fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
