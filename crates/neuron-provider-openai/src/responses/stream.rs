//! The events of the Responses API as ours: bytes in, [`StreamEvent`]s out.
//! <https://platform.openai.com/docs/api-reference/responses-streaming>

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use neuron_http::{Answer, Secret, SseDecoder, complete, read_frame};
use neuron_types::{ProviderError, StreamEvent, ToolCall};
use serde::Deserialize;
use serde_json::Value;

use super::response::{PARAGRAPH, WireResponse, item};
use crate::error::{self, ApiError};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct ResponseAnswer {
    id: String,
    model: String,
    /// The ids of the calls that are open, by the place of their item.
    calls: BTreeMap<usize, OpenCall>,
    /// Items that are complete, by their place.
    done: BTreeMap<usize, Value>,
    /// The place of the reasoning whose text came in pieces.
    reasoning: Option<usize>,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    /// Whether its arguments came in pieces.
    has_pieces: bool,
}

impl Answer for ResponseAnswer {
    type Framing = SseDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        // Proxies send such events to keep a connection open, and `[DONE]` as they do elsewhere.
        if matches!(data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(false);
        }
        if let Ok(PieceEvent { kind, output_index, delta }) = read_frame(data)
            && kind != PieceKind::None
        {
            self.extend(kind, output_index, delta, events);
            return Ok(false);
        }
        let event: WireEvent<'_> = match read_frame(data) {
            Ok(event) => event,
            // What the API adds may give our fields other types.
            Err(_) if is_unknown(data) => return Ok(false),
            Err(error) => {
                let shown = secret.excerpt(data);
                let text = format!("an event is not as expected ({error}): {shown}");
                return Err(ProviderError::StreamError(text));
            }
        };
        match &*event.kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.response {
                    (self.id, self.model) = (response.id, response.model);
                }
            }
            "response.output_item.added" => self.begin(event.output_index, event.item, events),
            "response.output_item.done" => self.finish_item(event.output_index, event.item, events),
            "response.reasoning_summary_part.added" | "response.content_part.added"
                if self.reasoning == Some(event.output_index) =>
            {
                events.push_back(StreamEvent::ThinkingDelta(PARAGRAPH.to_owned()));
            }
            "response.completed" | "response.incomplete" => {
                self.finish(event.response.unwrap_or_default(), events);
                return Ok(true);
            }
            "response.failed" | "response.cancelled" => {
                let error = event.response.and_then(|response| response.error());
                return Err(error::from_event(&error.unwrap_or_default()));
            }
            "error" => {
                // The SDK's types have it flat; the API nests it.
                let nested = event.error.and_then(ApiError::read);
                let flat = || serde_json::from_slice::<FlatError>(data).unwrap_or_default().into();
                return Err(error::from_event(&nested.unwrap_or_else(flat)));
            }
            // Whatever the API adds.
            _ => {}
        }
        Ok(false)
    }
}

impl ResponseAnswer {
    fn extend(
        &mut self,
        kind: PieceKind,
        place: usize,
        delta: String,
        events: &mut VecDeque<StreamEvent>,
    ) {
        match kind {
            PieceKind::Text => events.push_back(StreamEvent::TextDelta(delta)),
            PieceKind::Thinking => {
                self.reasoning = Some(place);
                events.push_back(StreamEvent::ThinkingDelta(delta));
            }
            PieceKind::Arguments => {
                if let (Some(call), false) = (self.calls.get_mut(&place), delta.is_empty()) {
                    call.has_pieces = true;
                    let id = call.id.clone();
                    events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
                }
            }
            PieceKind::None => {}
        }
    }

    fn begin(&mut self, place: usize, item: Option<Value>, events: &mut VecDeque<StreamEvent>) {
        let Some(item) = item.filter(is_call) else {
            return;
        };
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, name) = (text("call_id"), text("name"));
        self.calls.insert(place, OpenCall { id: id.clone(), has_pieces: false });
        events.push_back(StreamEvent::ToolUseStart { id, name });
    }

    fn finish_item(
        &mut self,
        place: usize,
        json: Option<Value>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let Some(json) = json else {
            return;
        };
        if is_call(&json) && !self.calls.contains_key(&place) {
            self.begin(place, Some(json.clone()), events);
        }
        let block = item(json.clone());
        if let (Some(open), Some(call)) = (self.calls.remove(&place), block.as_tool_use()) {
            let id = open.id;
            let text = ["arguments", "input"].iter().find_map(|key| json.get(*key)?.as_str());
            if let Some(text) = text.filter(|text| !open.has_pieces && !text.is_empty()) {
                let (id, delta) = (id.clone(), text.to_owned());
                events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
            }
            events.push_back(StreamEvent::ToolUseEnd { id });
            if ToolCall::invalid_json(call.input).is_none() {
                events.push_back(StreamEvent::ToolUse {
                    id: call.id.to_owned(),
                    name: call.name.to_owned(),
                    input: call.input.clone(),
                });
            }
        }
        self.done.insert(place, json);
    }

    fn finish(&mut self, mut response: WireResponse, events: &mut VecDeque<StreamEvent>) {
        for (_, call) in std::mem::take(&mut self.calls) {
            events.push_back(StreamEvent::ToolUseEnd { id: call.id });
        }
        if response.id.is_empty() {
            response.id = std::mem::take(&mut self.id);
        }
        if response.model.is_empty() {
            response.model = std::mem::take(&mut self.model);
        }
        let items = std::mem::take(&mut self.done).into_values().collect();
        complete(response.into_response(items), events);
    }
}

fn is_call(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    matches!(kind, Some("function_call" | "custom_tool_call"))
}

/// The event of which a stream has thousands: a piece of a text, of reasoning or of arguments.
///
/// It is read first and alone, because it is much smaller than [`WireEvent`], and moving that from one
/// function to the next takes as long as reading it.
#[derive(Deserialize)]
struct PieceEvent {
    #[serde(rename = "type")]
    kind: PieceKind,
    #[serde(default)]
    output_index: usize,
    delta: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum PieceKind {
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text,
    #[serde(
        rename = "response.reasoning_summary_text.delta",
        alias = "response.reasoning_text.delta"
    )]
    Thinking,
    #[serde(
        rename = "response.function_call_arguments.delta",
        alias = "response.custom_tool_call_input.delta"
    )]
    Arguments,
    /// Another event.
    #[serde(other)]
    None,
}

/// Any other of the API's events: each has some of these fields.
#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: usize,
    #[serde(default)]
    item: Option<Value>,
    /// A text, if the event is as expected.
    #[serde(default, rename = "delta")]
    _delta: Option<String>,
    #[serde(default)]
    response: Option<WireResponse>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlatError {
    code: Option<Value>,
    message: Option<String>,
}

impl From<FlatError> for ApiError {
    fn from(flat: FlatError) -> Self {
        Self::new(flat.code, flat.message)
    }
}

/// The events that are read; others are passed over.
const EVENTS: [&str; 17] = [
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_part.added",
    "response.reasoning_text.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "error",
];

/// Whether this is JSON, but an event that is not read.
fn is_unknown(data: &[u8]) -> bool {
    let event = serde_json::from_slice::<Value>(data).unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| !EVENTS.contains(&kind))
}

#[cfg(test)]
mod tests;
