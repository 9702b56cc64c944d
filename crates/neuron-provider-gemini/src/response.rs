//! Parsing of responses that are not streamed. Also collects the chunks of streamed responses.
//!
//! <https://ai.google.dev/api/generate-content#GenerateContentResponse>

use neuron_http::{Secret, or_default, read_with_arguments};
use neuron_model::{
    AnswerMetadata, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error;
use crate::metadata::CandidateFields;
use crate::parts::{Origin, Parts};
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
        let shown = secret.excerpt(body);
        ProviderError::Other(
            format!("the body is not a response of Gemini ({why}); it begins with: {shown}").into(),
        )
    };
    let chunk = WireChunk::parse(body, "the answer", unreadable)?;
    let mut collected = PartialResponse::new(origin);
    collected.take(chunk, |_| {})?;
    if !collected.has_ended() {
        let error = error::find_in(body, "the answer");
        let why = match collected.has_candidate {
            true => "it is incomplete, because it has no finishReason",
            false => "it has no candidate and no reason why",
        };
        return Err(error.unwrap_or_else(|| unreadable(why)));
    }
    Ok(collected.into_response())
}

/// The JSON of a response that is not streamed, or of a chunk of a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct WireChunk {
    candidates: Option<Vec<WireCandidate>>,
    /// Set if the API refused the prompt.
    prompt_feedback: Option<Value>,
    // A value of another type must not make the whole response fail.
    #[serde(deserialize_with = "or_default")]
    usage_metadata: Option<WireUsage>,
    #[serde(deserialize_with = "or_default")]
    model_version: Option<String>,
    #[serde(deserialize_with = "or_default")]
    response_id: Option<String>,
    /// Error, sent instead of all other fields.
    error: Option<Value>,
}

impl WireChunk {
    /// Parses the JSON of a response or of a chunk. `place` is the part of the response for the text of an error, such
    /// as `the stream`.
    ///
    /// # Errors
    ///
    /// The server's error if the JSON is an error. The error of `unreadable`, which receives the reason, if the JSON is
    /// of another format.
    pub(crate) fn parse(
        data: &[u8],
        place: &str,
        unreadable: impl FnOnce(&str) -> ProviderError,
    ) -> Result<Self, ProviderError> {
        match read_with_arguments(data) {
            Ok(Self { error: Some(error), .. }) => {
                Err(error::within(place, &json!({ "error": error })))
            }
            Ok(chunk) => Ok(chunk),
            Err(error) => {
                let found = error::find_in(data, place);
                Err(found.unwrap_or_else(|| unreadable(&error.to_string())))
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireCandidate {
    content: Option<WireContent>,
    /// Number of the candidate. Omitted for the first candidate.
    index: Option<u64>,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireContent {
    parts: Option<Vec<Value>>,
}

/// The parts of a response that were received so far.
#[derive(Debug)]
pub(crate) struct PartialResponse {
    parts: Parts,
    candidate: CandidateFields,
    has_candidate: bool,
    prompt_feedback: Option<Value>,
    usage: WireUsage,
    model: String,
    id: String,
}

impl PartialResponse {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            parts: Parts::new(origin),
            candidate: CandidateFields::default(),
            has_candidate: false,
            prompt_feedback: None,
            usage: WireUsage::default(),
            model: String::new(),
            id: String::new(),
        }
    }

    /// Adds a chunk of the response. Calls `added` with the content of each part. Of several candidates, only the first
    /// is used.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if the chunk has a malformed fragment of a function call.
    pub(crate) fn take(
        &mut self,
        chunk: WireChunk,
        mut added: impl FnMut(ContentBlock),
    ) -> Result<(), ProviderError> {
        self.usage.update(chunk.usage_metadata.unwrap_or_default());
        if self.model.is_empty() {
            self.model = chunk.model_version.unwrap_or_default();
        }
        if self.id.is_empty() {
            self.id = chunk.response_id.unwrap_or_default();
        }
        self.prompt_feedback = chunk.prompt_feedback.or(self.prompt_feedback.take());
        let candidates = chunk.candidates.unwrap_or_default().into_iter();
        for candidate in candidates.filter(|candidate| candidate.index.unwrap_or_default() == 0) {
            self.has_candidate = true;
            self.candidate.update(candidate.fields);
            let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
            for part in parts {
                if let Some(block) = self.parts.add(part)? {
                    added(block);
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if the API refused the prompt. There is no candidate then.
    fn is_blocked(&self) -> bool {
        let reason = self.prompt_feedback.as_ref().and_then(|feedback| feedback.get("blockReason"));
        // The default value of the enum means that there is no reason: `BLOCK_REASON_UNSPECIFIED` on Google AI, and
        // `BLOCKED_REASON_UNSPECIFIED` on Vertex AI.
        let reason = reason.and_then(Value::as_str);
        reason.is_some_and(|reason| !reason.is_empty() && !reason.ends_with("_UNSPECIFIED"))
    }

    /// Returns `true` if the reason why the response ended has arrived. The API documents that the model has not
    /// stopped as long as a candidate has no finish reason. A model that stops within a call is not complete, unless it
    /// stopped because of a limit or a refusal.
    ///
    /// <https://ai.google.dev/api/generate-content#candidate>
    pub(crate) fn has_ended(&self) -> bool {
        let reason = self.candidate.finish_reason();
        reason.is_some_and(|reason| reason != "STOP" || !self.parts.is_in_call())
            || self.is_blocked()
    }

    /// Returns `true` if the calls of the response must not run, because the model wrote a call that the API could not
    /// parse, or a call that was not allowed.
    pub(crate) fn has_malformed_calls(&self) -> bool {
        let reason = self.candidate.finish_reason().unwrap_or_default();
        reason.starts_with("MALFORMED_") || reason.starts_with("UNEXPECTED_")
    }

    /// Builds the response. A response without a finish reason is a refusal, because only a block of the prompt ends a
    /// response without one.
    pub(crate) fn into_response(self) -> CompletionResponse {
        let content = match self.has_malformed_calls() {
            true => self.parts.into_blocks_without_calls(),
            false => self.parts.into_blocks(),
        };
        let message = Message { role: Role::Assistant, content };
        let (stop_reason, metadata) = match self.candidate.finish_reason() {
            Some(reason) => (stop_reason(reason, &message), self.candidate.into_metadata()),
            None => {
                let mut metadata = AnswerMetadata::default();
                metadata.stop_details = self.prompt_feedback;
                (StopReason::Refusal, metadata)
            }
        };
        CompletionResponse {
            id: self.id,
            model: self.model,
            stop_reason,
            message: message.with_metadata(&metadata),
            usage: self.usage.into(),
        }
    }
}

/// Converts the stop reason of the API. The API has no reason for tool calls and for stop sequences: both are `STOP`.
fn stop_reason(reason: &str, message: &Message) -> StopReason {
    match reason {
        "STOP" if message.tool_uses().next().is_some() => StopReason::ToolUse,
        "STOP" => StopReason::EndTurn,
        // `CONTINUATION` is the maximum number of tokens of one request. A further request could continue.
        "MAX_TOKENS" | "CONTINUATION" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => StopReason::ContentFilter,
        "ESCALATION" | "PUP_LIMITED_DISABLED" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests;
