//! Serialisation of requests.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>
//!
//! Equal requests are serialised to equal bytes, and `messages` is the last field. The body of each turn therefore
//! begins with the bytes of the previous turn's body, unless the conversation was compacted between them or has a cache
//! point at its end. The id of the model is a part of the URL.

use std::borrow::Cow;

use neuron_http::{RenamedRequest, RequestLimits, Shortest, write_json};
use neuron_model::{
    CacheControl, ContentBlock, Message, ProviderError, RequestRef, ResponseFormat, SystemPrompt,
    ThinkingConfig,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::allowed;
use crate::allowed::NAMES;
use crate::cache::{CachePoint, CachePoints};
use crate::messages::Conversation;
use crate::model::{Family, Model};
use crate::thinking;
use crate::tools::ToolConfig;

/// Maximum number of output tokens of a response that is requested as a whole. No byte arrives until a whole response
/// is complete, and the NAT gateways and load balancers of AWS close a connection that is idle for 350 seconds. Slow
/// models generate about this number of tokens in this time.
const MAX_WHOLE_OUTPUT_TOKENS: u64 = 16_384;

/// The settings of the client that affect requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings<'a> {
    /// Maximum number of output tokens. `None` means the default of the model's family.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) guardrail: Option<&'a Guardrail>,
}

/// A guardrail, which the server applies to the conversation and to the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Guardrail {
    #[serde(rename = "guardrailIdentifier")]
    pub(crate) id: String,
    #[serde(rename = "guardrailVersion")]
    pub(crate) version: String,
    /// With a trace, the response contains the reason why the guardrail intervened.
    pub(crate) trace: &'static str,
}

/// Returns the id of a request's model, or `default` if the request names none.
pub(crate) fn model_of<'a>(request: RequestRef<'a>, default: &'a str) -> &'a str {
    request.model_or(default)
}

/// Returns `true` if a response may be so long that it must be streamed. A response without a maximum may have any
/// length. `extra` takes precedence in the body, so it does here too.
pub(crate) fn needs_stream(
    request: RequestRef<'_>,
    model: Model<'_>,
    settings: Settings<'_>,
) -> bool {
    let own = request.extra.and_then(|extra| extra.get("inferenceConfig")?.get("maxTokens"));
    let tokens = match own {
        Some(own) => own.as_u64(),
        None => max_tokens(request, model, settings).and_then(|tokens| tokens.try_into().ok()),
    };
    tokens.is_none_or(|tokens| tokens > MAX_WHOLE_OUTPUT_TOKENS)
}

/// Serialises a request. The body is the same for a whole and for a streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
pub(crate) fn write(
    request: RequestRef<'_>,
    model: Model<'_>,
    settings: Settings<'_>,
) -> Result<Vec<u8>, ProviderError> {
    write_renamed(&NAMES.rename(request), model, settings)
}

/// Serialises a request whose names of tools the API accepts, as [`write`] does.
pub(crate) fn write_renamed(
    renamed: &RenamedRequest<'_>,
    model: Model<'_>,
    settings: Settings<'_>,
) -> Result<Vec<u8>, ProviderError> {
    let request = renamed.request();
    check(request, model)?;
    limits(model).check(renamed.original())?;
    let (extra, more_tools) = split_tools(request.extra);
    let (leading, messages) = match model.is_prompt() {
        // The system prompt is a part of the prompt.
        true => (&[][..], request.messages),
        false => request.split_leading_system(),
    };
    let mut conversation = Conversation::new(messages, model)?;
    // The points are counted in the order of the fields for which the server counts them.
    let in_tools = more_tools.iter().filter_map(|tool| tool.get("cachePoint"));
    let mut points = CachePoints::new(model, in_tools.chain(conversation.own_cache_points()));
    let tools = ToolConfig::new(request, more_tools, model, &conversation, &mut points)?;
    let system = system(request.system, leading, &mut points);
    if let Some(point) = points.last(request.cache) {
        conversation.end_with(point, model.family);
    }
    let mut fields_of_model = thinking::fields(request, model)?;
    let has_budget = matches!(request.thinking, Some(ThinkingConfig::Enabled { .. }));
    if has_budget && model.family == Family::Claude && conversation.began_without_reasoning() {
        // Claude rejects a budget until such a turn ends (<https://github.com/anomalyco/opencode/issues/3077>).
        fields_of_model.remove("thinking");
    }
    if tools.as_ref().is_some_and(|tools| tools.forbids_calls) {
        fields_of_model.insert("tool_choice".to_owned(), json!({"type": "none"}));
    }
    let config = InferenceConfig::new(request, model, settings);
    write_json(extra.as_deref(), |fields| {
        fields.some("inferenceConfig", config.is_set().then_some(config))?;
        let is_set = !fields_of_model.is_empty();
        fields.some("additionalModelRequestFields", is_set.then_some(fields_of_model))?;
        // Only Claude reports the stop sequence, and only if it is asked for it.
        let asks_for_stop = model.family == Family::Claude && !request.stop_sequences.is_empty();
        let paths = asks_for_stop.then_some(["/stop_sequence"]);
        fields.some("additionalModelResponseFieldPaths", paths)?;
        fields.some("outputConfig", output_config(request))?;
        fields.some("guardrailConfig", settings.guardrail)?;
        fields.some("toolConfig", tools)?;
        fields.some("system", (!system.is_empty()).then_some(system))?;
        // The other fields of `extra` come before the messages, which must be last.
        fields.rest_but("messages")?;
        fields.entry("messages", &conversation.turns)
    })
}

/// Returns the limits of the API and of the model. Only Claude rejects stop sequences of white space.
///
/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html>
fn limits(model: Model<'_>) -> RequestLimits {
    let limits = RequestLimits::new("Bedrock").max_stop_sequences(2500);
    match model.family {
        Family::Claude => limits.without_blank_stop_sequences(),
        _ => limits,
    }
}

/// Returns an error if the API cannot express the request.
fn check(request: RequestRef<'_>, model: Model<'_>) -> Result<(), ProviderError> {
    let sampling = [
        ("max_tokens", request.max_tokens.is_some()),
        ("temperature", request.temperature.is_some()),
        ("top_p", request.top_p.is_some()),
    ];
    // A prompt of Prompt management defines these settings itself
    // (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>).
    let defined = [
        ("stop_sequences", !request.stop_sequences.is_empty()),
        ("system", request.system.is_some()),
        ("tools", !request.tools.is_empty()),
        ("tool_choice", request.tool_choice.is_some()),
        ("thinking", request.thinking.is_some()),
        ("reasoning_effort", request.reasoning_effort.is_some()),
    ];
    let mut set = sampling.iter().chain(&defined).filter(|(_, is_set)| *is_set);
    if model.is_prompt()
        && let Some((name, _)) = set.next()
    {
        return Err(ProviderError::InvalidRequest(format!(
            "`{}` is a prompt, which defines {name} itself: leave it out of the request",
            model.id
        )));
    }
    if thinking::excludes_sampling(request, model)
        && let Some((name, _)) = sampling.into_iter().find(|(_, is_set)| *is_set)
    {
        return Err(ProviderError::InvalidRequest(format!(
            "`{}` accepts no {name} with ReasoningEffort::High: leave it out, or lower the effort",
            model.id
        )));
    }
    if request.context_management.is_some_and(|management| !management.edits.is_empty()) {
        return Err(ProviderError::InvalidRequest(
            "Bedrock does not edit conversations: use a ContextStrategy, which runs on the client"
                .into(),
        ));
    }
    if let Some(ResponseFormat::JsonObject) = request.response_format {
        return Err(ProviderError::InvalidRequest(
            "Bedrock has no free JSON mode: use ResponseFormat::JsonSchema".into(),
        ));
    }
    Ok(())
}

/// Splits off the tools in `extra`. The API has no field `tools`, so they become a part of `toolConfig`.
fn split_tools(extra: Option<&Value>) -> (Option<Cow<'_, Value>>, &[Value]) {
    let Some(extra) = extra else {
        return (None, &[]);
    };
    match (extra, extra.get("tools").and_then(Value::as_array)) {
        (Value::Object(fields), Some(tools)) => {
            let rest = fields.iter().filter(|(key, _)| *key != "tools");
            let rest: Map<String, Value> =
                rest.map(|(key, value)| (key.clone(), value.clone())).collect();
            (Some(Cow::Owned(rest.into())), tools)
        }
        _ => (Some(Cow::Borrowed(extra)), &[]),
    }
}

/// Returns the maximum number of output tokens. Returns `None` if the model rejects a maximum.
fn max_tokens(request: RequestRef<'_>, model: Model<'_>, settings: Settings<'_>) -> Option<usize> {
    if model.is_prompt() || thinking::excludes_sampling(request, model) {
        return None;
    }
    if let Some(tokens) = request.max_tokens.or(settings.max_tokens) {
        return Some(tokens);
    }
    let tokens = model.default_max_tokens();
    match request.thinking {
        // Thinking counts towards the maximum, so the budget is added to keep the same maximum for the visible output.
        Some(ThinkingConfig::Enabled { budget_tokens }) if model.family == Family::Claude => {
            Some(tokens.saturating_add(budget_tokens))
        }
        _ => Some(tokens),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<Shortest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<Shortest>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
}

impl<'a> InferenceConfig<'a> {
    fn new(request: RequestRef<'a>, model: Model<'_>, settings: Settings<'_>) -> Self {
        Self {
            max_tokens: max_tokens(request, model, settings),
            temperature: request.temperature.map(Shortest),
            top_p: request.top_p.map(Shortest),
            stop_sequences: request.stop_sequences,
        }
    }

    /// Returns `true` if the configuration has at least one field.
    fn is_set(&self) -> bool {
        self.max_tokens.is_some()
            || self.temperature.is_some()
            || self.top_p.is_some()
            || !self.stop_sequences.is_empty()
    }
}

/// Returns the field `outputConfig`. The API expects the schema as a text.
fn output_config(request: RequestRef<'_>) -> Option<Value> {
    let Some(ResponseFormat::JsonSchema { name, schema, .. }) = request.response_format else {
        return None;
    };
    let schema = json!({"schema": schema.to_string(), "name": allowed::name(name)});
    Some(json!({"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}))
}

/// A block of the system prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum SystemBlock<'a> {
    Text(&'a str),
    CachePoint(CachePoint),
}

/// Returns the blocks of the system prompt and of the system messages at the beginning of the conversation. Blank texts
/// are left out with their cache points, because the API rejects them.
fn system<'a>(
    prompt: Option<&'a SystemPrompt>,
    leading: &'a [Message],
    points: &mut CachePoints,
) -> Vec<SystemBlock<'a>> {
    let (text, blocks) = match prompt {
        Some(SystemPrompt::Text(text)) => (Some(text.as_str()), &[][..]),
        Some(SystemPrompt::Blocks(blocks)) => (None, blocks.as_slice()),
        None => (None, &[][..]),
    };
    let leading = leading.iter().flat_map(|message| &message.content);
    let plain = |text: &'a str| (text, None::<CacheControl>);
    let texts = text.into_iter().map(plain);
    let texts = texts.chain(blocks.iter().map(|block| (block.text.as_str(), block.cache_control)));
    let texts = texts.chain(leading.filter_map(ContentBlock::as_text).map(plain));
    let mut system = Vec::new();
    for (text, control) in texts.filter(|(text, _)| !text.trim().is_empty()) {
        system.push(SystemBlock::Text(text));
        system.extend(points.next(control).map(SystemBlock::CachePoint));
    }
    system
}

#[cfg(test)]
pub(crate) mod tests;
