//! An answer of the Responses API: in one piece, and as events.

use neuron_types::CompletionResponse;
use serde_json::{Value, json};

use super::CREATED;
use super::dialect::Dialect;
use super::error::ApiError;
use super::item::{Encrypted, incomplete_reason, output_items};
use super::item_stream::ItemStream;
use super::usage::responses_usage;
use crate::Wire;

/// Returns the JSON body that the Responses API sends for this response.
///
/// Reasoning has its signature as encrypted content. Blocks that the vendor has no form for are
/// left out.
///
/// # Example
///
/// ```
/// use neuron_testing::openai::responses_body;
/// use neuron_types::{CompletionResponse, Message, StopReason, TokenUsage};
///
/// let body = responses_body(&CompletionResponse {
///     id: "resp_1".into(),
///     model: "gpt-5.4-mini".into(),
///     message: Message::assistant("hello"),
///     usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
///     stop_reason: StopReason::EndTurn,
/// });
/// assert_eq!(body["output"][0]["content"][0]["text"], "hello");
/// assert_eq!(body["status"], "completed");
/// ```
#[must_use]
pub fn responses_body(response: &CompletionResponse) -> Value {
    Writer { response, request: &Value::Null, encrypted: Encrypted::Known }.finished()
}

/// Returns the whole event stream that the Responses API sends for this response, as bytes.
///
/// A delta has `chunk_chars` characters; `wire` says how lines are written (what it says of chunks
/// and cuts is for the server).
///
/// # Example
///
/// ```
/// use neuron_testing::Wire;
/// use neuron_testing::openai::responses_bytes;
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "resp_1".into(), model: "gpt-5.4-mini".into(), message: Message::assistant("hi"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let bytes = responses_bytes(&response, 16, &Wire::default());
/// assert!(bytes.starts_with(b"event: response.created\ndata: {"));
/// ```
#[must_use]
pub fn responses_bytes(response: &CompletionResponse, chunk_chars: usize, wire: &Wire) -> Vec<u8> {
    Writer { response, request: &Value::Null, encrypted: Encrypted::Known }
        .frames(chunk_chars, true, wire)
        .concat()
}

/// Writes a response as the answer to a request, whose settings the vendor repeats.
pub(super) struct Writer<'a> {
    pub(super) response: &'a CompletionResponse,
    /// The request's body.
    pub(super) request: &'a Value,
    pub(super) encrypted: Encrypted,
}

impl Writer<'_> {
    /// The answer in one piece, also in the last event.
    pub(super) fn finished(&self) -> Value {
        let reason = incomplete_reason(&self.response.stop_reason);
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let details = reason.map(|reason| json!({"reason": reason}));
        let output = output_items(self.response, self.encrypted);
        let completed_at = if reason.is_some() { Value::Null } else { CREATED.into() };
        self.object([
            ("status", status.into()),
            ("completed_at", completed_at),
            ("incomplete_details", details.unwrap_or_default()),
            ("output", output.into()),
            ("usage", responses_usage(&self.response.usage)),
        ])
    }

    /// Returns the bytes of every event.
    pub(super) fn frames(
        &self,
        chunk_chars: usize,
        include_obfuscation: bool,
        wire: &Wire,
    ) -> Vec<Vec<u8>> {
        let mut events = vec![
            json!({"type": "response.created", "response": self.begun()}),
            json!({"type": "response.in_progress", "response": self.begun()}),
        ];
        let stream = ItemStream { chunk_chars, include_obfuscation };
        for (index, item) in output_items(self.response, self.encrypted).iter().enumerate() {
            events.extend(stream.events(item, index));
        }
        let last = match incomplete_reason(&self.response.stop_reason) {
            Some(_) => "response.incomplete",
            None => "response.completed",
        };
        events.push(json!({"type": last, "response": self.finished()}));
        numbered(events, 0, wire)
    }

    /// Returns the events with which a stream breaks after so many of its own.
    pub(super) fn error_frames(
        &self,
        error: &ApiError,
        sent: usize,
        dialect: &Dialect,
        wire: &Wire,
    ) -> Vec<Vec<u8>> {
        let code = error.code.as_ref().unwrap_or(&error.kind);
        if dialect.flat_stream_errors {
            let event = json!({
                "type": "error",
                "code": code,
                "message": error.message,
                "param": error.param,
            });
            return numbered(vec![event], sent, wire);
        }
        let failure = json!({"code": code, "message": error.message});
        let failed = self.object([("status", "failed".into()), ("error", failure)]);
        let events = vec![
            json!({"type": "error", "error": error.object()}),
            json!({"type": "response.failed", "response": failed}),
        ];
        numbered(events, sent, wire)
    }

    fn begun(&self) -> Value {
        self.object([("status", "in_progress".into())])
    }

    /// The object with the settings of the request, and with these fields set.
    fn object<const N: usize>(&self, fields: [(&str, Value); N]) -> Value {
        let asked = |key: &str, default: Value| match self.request.get(key) {
            None | Some(Value::Null) => default,
            Some(value) => value.clone(),
        };
        let mut object = json!({
            "id": self.response.id,
            "object": "response",
            "created_at": CREATED,
            "status": "completed",
            "background": asked("background", false.into()),
            "completed_at": null,
            "error": null,
            "incomplete_details": null,
            "instructions": asked("instructions", Value::Null),
            "max_output_tokens": asked("max_output_tokens", Value::Null),
            "max_tool_calls": asked("max_tool_calls", Value::Null),
            "model": self.response.model,
            "output": [],
            "parallel_tool_calls": asked("parallel_tool_calls", true.into()),
            "previous_response_id": asked("previous_response_id", Value::Null),
            "prompt_cache_key": asked("prompt_cache_key", Value::Null),
            "reasoning": asked("reasoning", json!({"effort": null, "summary": null})),
            "safety_identifier": asked("safety_identifier", Value::Null),
            "service_tier": asked("service_tier", "default".into()),
            "store": asked("store", true.into()),
            "temperature": asked("temperature", 1.0.into()),
            "text": asked("text", json!({"format": {"type": "text"}, "verbosity": "medium"})),
            "tool_choice": asked("tool_choice", "auto".into()),
            "tools": asked("tools", json!([])),
            "top_logprobs": asked("top_logprobs", 0.into()),
            "top_p": asked("top_p", 1.0.into()),
            "truncation": asked("truncation", "disabled".into()),
            "usage": null,
            "user": asked("user", Value::Null),
            "metadata": asked("metadata", json!({})),
        });
        if let Some(target) = object.as_object_mut() {
            target.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        }
        object
    }
}

/// Writes events whose names are their types, numbered from `first`.
fn numbered(events: Vec<Value>, first: usize, wire: &Wire) -> Vec<Vec<u8>> {
    let numbered = events.into_iter().zip(first..).map(|(mut event, number)| {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("sequence_number".into(), number.into());
        }
        let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
        wire.event(name, &event)
    });
    numbered.collect()
}
