//! Encodes a response of the Responses API, as one JSON body and as the events of a stream.

use std::sync::LazyLock;

use neuron_types::CompletionResponse;
use serde_json::{Value, json};

use super::CREATED;
use super::dialect::Dialect;
use super::error::ApiError;
use super::item::{incomplete_reason, output_items};
use super::item_stream::ItemStream;
use super::usage::responses_usage;
use crate::Wire;
use crate::json::merge;

/// Returns the JSON body that the Responses API sends for a response that is not streamed.
///
/// The signature of a reasoning block becomes the encrypted content of its item. Content blocks that the API cannot
/// express are left out.
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
    Writer { response, request: &Value::Null, encrypted: Some("") }.finished()
}

/// Returns the bytes of the whole event stream that the Responses API sends for this response.
///
/// A delta has `chunk_chars` characters. The events have the line format of `wire`. The splits and cuts of `wire` are
/// ignored, because only a server applies them.
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
    Writer { response, request: &Value::Null, encrypted: Some("") }
        .frames(chunk_chars, true, wire)
        .concat()
}

/// Encodes a response. The request is needed too, because OpenAI repeats the settings of the request in the response.
pub(super) struct Writer<'a> {
    pub(super) response: &'a CompletionResponse,
    /// The JSON body of the request.
    pub(super) request: &'a Value,
    /// The encrypted content of reasoning that has no signature. If `None`, no reasoning item has encrypted content.
    pub(super) encrypted: Option<&'static str>,
}

impl Writer<'_> {
    /// Returns the JSON of the whole response. The last event of a stream also contains this JSON.
    pub(super) fn finished(&self) -> Value {
        let reason = incomplete_reason(&self.response.stop_reason);
        let status = if reason.is_some() { "incomplete" } else { "completed" };
        let details = reason.map(|reason| json!({"reason": reason}));
        let output = output_items(self.response, self.encrypted);
        self.object(json!({
            "status": status,
            "completed_at": reason.is_none().then_some(CREATED),
            "incomplete_details": details,
            "output": output,
            "usage": responses_usage(&self.response.usage),
        }))
    }

    /// Returns the encoded events of a stream, one item per event.
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

    /// Returns the encoded events that report `error` in a stream. `sent` is the number of earlier events, and the
    /// first sequence number of the new events.
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
        let failed = self.object(json!({"status": "failed", "error": failure}));
        let events = vec![
            json!({"type": "error", "error": error.object()}),
            json!({"type": "response.failed", "response": failed}),
        ];
        numbered(events, sent, wire)
    }

    /// Returns the JSON of the response before its first item.
    fn begun(&self) -> Value {
        self.object(json!({"status": "in_progress"}))
    }

    /// Returns a response object with the request's settings, then `fields`. Settings that the request does not have
    /// get OpenAI's defaults.
    fn object(&self, fields: Value) -> Value {
        static DEFAULTS: LazyLock<Value> = LazyLock::new(|| {
            serde_json::from_str(include_str!("response.json")).unwrap_or_default()
        });
        let mut object = DEFAULTS.clone();
        for (key, value) in object.as_object_mut().into_iter().flatten() {
            if let Some(asked) = self.request.get(key).filter(|asked| !asked.is_null()) {
                value.clone_from(asked);
            }
        }
        let response = self.response;
        let own = json!({"id": response.id, "created_at": CREATED, "model": response.model});
        merge(merge(object, own), fields)
    }
}

/// Encodes events with sequence numbers from `first`. The name of each event is the `type` in its JSON.
fn numbered(events: Vec<Value>, first: usize, wire: &Wire) -> Vec<Vec<u8>> {
    let numbered = events.into_iter().zip(first..).map(|(event, number)| {
        let event = merge(event, json!({"sequence_number": number}));
        let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
        wire.event(name, &event)
    });
    numbered.collect()
}
