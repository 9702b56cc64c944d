//! Parsing of responses that are not streamed. Also builds the responses of streams.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_ResponseSyntax>

use neuron_http::{Secret, or_default, read_with_arguments};
use neuron_model::{
    AnswerMetadata, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::content::{Origin, Reader};
use crate::error;
use crate::usage::WireUsage;

/// Parses a response that is not streamed. The API key is removed from errors that quote the body.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a complete
/// response of the API.
pub(crate) fn read(
    body: &[u8],
    secret: &Secret,
    origin: Origin,
) -> Result<CompletionResponse, ProviderError> {
    let unreadable = |why: &str| {
        // Some proxies send errors with a successful status.
        error::find_in(body, "the answer").unwrap_or_else(|| {
            let shown = secret.excerpt(body);
            ProviderError::Other(
                format!("the body is not a response of Bedrock ({why}); it begins with: {shown}")
                    .into(),
            )
        })
    };
    let wire: WireResponse =
        read_with_arguments(body).map_err(|error| unreadable(&error.to_string()))?;
    if wire.end.stop_reason.is_none() {
        return Err(unreadable("it is incomplete, because it has no stopReason"));
    }
    let mut reader = Reader::new(origin);
    let message = wire.output.and_then(|output| output.message).unwrap_or_default();
    let mut content = Vec::new();
    for mut json in message.content.unwrap_or_default() {
        if let Some(call) = json.get_mut("toolUse").and_then(Value::as_object_mut) {
            reader.complete(call);
        }
        content.extend(reader.read(json));
    }
    Ok(wire.end.into_response(content, reader.origin))
}

#[derive(Debug, Deserialize)]
struct WireResponse {
    #[serde(default)]
    output: Option<WireOutput>,
    #[serde(flatten)]
    end: ResponseEnd,
}

#[derive(Debug, Deserialize)]
struct WireOutput {
    #[serde(default)]
    message: Option<WireMessage>,
}

#[derive(Debug, Default, Deserialize)]
struct WireMessage {
    #[serde(default)]
    content: Option<Vec<Value>>,
}

/// The fields of a response except its content. The last events of a stream contain these fields too.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ResponseEnd {
    pub(crate) stop_reason: Option<String>,
    // A value of another type must not make the whole response fail.
    #[serde(deserialize_with = "or_default")]
    additional_model_response_fields: Option<Map<String, Value>>,
    #[serde(deserialize_with = "or_default")]
    usage: Option<WireUsage>,
    #[serde(deserialize_with = "or_default")]
    trace: Option<Value>,
    #[serde(deserialize_with = "or_default")]
    service_tier: Option<ServiceTier>,
}

#[derive(Debug, Deserialize)]
struct ServiceTier {
    r#type: String,
}

impl ResponseEnd {
    /// Merges the fields of a later event. A later value replaces an earlier value.
    pub(crate) fn update(&mut self, later: Self) {
        let Self { stop_reason, additional_model_response_fields, usage, trace, service_tier } =
            later;
        self.stop_reason = stop_reason.or(self.stop_reason.take());
        self.additional_model_response_fields =
            additional_model_response_fields.or(self.additional_model_response_fields.take());
        self.usage = usage.or(self.usage.take());
        self.trace = trace.or(self.trace.take());
        self.service_tier = service_tier.or(self.service_tier.take());
    }

    /// Builds the response from these fields and the content blocks.
    pub(crate) fn into_response(
        self,
        content: Vec<ContentBlock>,
        origin: Origin,
    ) -> CompletionResponse {
        let reason = self.stop_reason.as_deref().unwrap_or_default();
        let invoked = self.trace.as_ref().and_then(|trace| {
            trace.get("promptRouter")?.get("invokedModelId")?.as_str().map(str::to_owned)
        });
        let message = Message { role: Role::Assistant, content };
        CompletionResponse {
            id: origin.request_id,
            // A prompt router chooses the model itself.
            model: invoked.unwrap_or(origin.model),
            stop_reason: stop_reason(reason, &message),
            message: message.with_metadata(&self.metadata()),
            usage: self.usage.unwrap_or_default().into(),
        }
    }

    fn metadata(&self) -> AnswerMetadata {
        let mut metadata = AnswerMetadata::default();
        metadata.service_tier = self.service_tier.as_ref().map(|tier| tier.r#type.clone());
        let fields = self.additional_model_response_fields.as_ref();
        let stop = fields.and_then(|fields| fields.get("stop_sequence")?.as_str());
        metadata.stop_sequence = stop.map(str::to_owned);
        if let Some(reason @ ("guardrail_intervened" | "content_filtered")) =
            self.stop_reason.as_deref()
        {
            let details = match &self.trace {
                Some(trace) => json!({"stopReason": reason, "trace": trace}),
                None => json!({ "stopReason": reason }),
            };
            metadata.stop_details = Some(details);
        }
        metadata
    }
}

/// Converts the stop reason of the API. The calls decide between the end of a turn and tool use, because some models
/// send `end_turn` with calls, or `tool_use` without a call (<https://github.com/strands-agents/sdk-python/issues/1810>).
fn stop_reason(reason: &str, message: &Message) -> StopReason {
    match reason {
        "end_turn" | "tool_use" if message.tool_uses().next().is_some() => StopReason::ToolUse,
        "end_turn" | "tool_use" => StopReason::EndTurn,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "guardrail_intervened" | "content_filtered" => StopReason::ContentFilter,
        "model_context_window_exceeded" => StopReason::ContextWindowExceeded,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests;
