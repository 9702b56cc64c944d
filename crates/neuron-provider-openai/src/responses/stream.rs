//! The events of the Responses API as ours: bytes in, [`StreamEvent`]s out.
//! <https://platform.openai.com/docs/api-reference/responses-streaming>

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use neuron_http::{Answer, Secret, SseDecoder, complete, read_frame};
use neuron_types::{ContentBlock, ProviderError, StreamEvent, ToolCall};
use serde::Deserialize;
use serde_json::Value;

use super::response::{PARAGRAPH, WireResponse, item};
use crate::error::{self, ApiError};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct ResponseAnswer {
    id: String,
    model: String,
    /// The calls that are open, by the place of their item.
    calls: BTreeMap<usize, OpenCall>,
    /// Items that are complete, with their place.
    done: Vec<(usize, Value)>,
    /// The places of items whose text or reasoning came in pieces.
    shown: BTreeSet<usize>,
    /// The part of reasoning that came last.
    thought: Option<Thought>,
}

/// A part of the reasoning of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thought {
    place: usize,
    is_summary: bool,
    part: usize,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    name: String,
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
        if let Ok(PieceEvent { place, delta, .. }) = read_frame(data) {
            self.extend_text(place, delta, events);
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
        let place = event.output_index;
        match &*event.kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.response {
                    (self.id, self.model) = (response.id, response.model);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.begin(place, item, events);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.finish_item(place, item, events);
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.extend_text(place, event.delta.unwrap_or_default(), events);
            }
            "response.reasoning_summary_text.delta" => {
                let thought = Thought { place, is_summary: true, part: event.summary_index };
                self.think(thought, event.delta, events);
            }
            "response.reasoning_text.delta" => {
                let thought = Thought { place, is_summary: false, part: event.content_index };
                self.think(thought, event.delta, events);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if let Some(call) = self.calls.get_mut(&place)
                    && let Some(delta) = event.delta.filter(|delta| !delta.is_empty())
                {
                    call.has_pieces = true;
                    let id = call.id.clone();
                    events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
                }
            }
            "response.completed" | "response.incomplete" => {
                self.finish(event.response.unwrap_or_default(), events);
                return Ok(true);
            }
            "response.failed" | "response.cancelled" => {
                let error = event.response.and_then(|response| response.error());
                return Err(error::from_event(&error.unwrap_or_default()));
            }
            // The SDK's types have an error flat; the API nests it. Proxies forget the type.
            "error" => {
                return Err(error::from_event(&ApiError::of_event(data).unwrap_or_default()));
            }
            "" => {
                if let Some(error) = ApiError::find_in(data) {
                    return Err(error::from_event(&error));
                }
            }
            // Whatever the API adds.
            _ => {}
        }
        Ok(false)
    }
}

impl ResponseAnswer {
    fn extend_text(&mut self, place: usize, text: String, events: &mut VecDeque<StreamEvent>) {
        if !text.is_empty() {
            self.shown.insert(place);
            events.push_back(StreamEvent::TextDelta(text));
        }
    }

    fn think(
        &mut self,
        thought: Thought,
        delta: Option<String>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let Some(delta) = delta.filter(|delta| !delta.is_empty()) else {
            return;
        };
        if let Some(last) = self.thought.filter(|last| last.place == thought.place) {
            // Of an item that has both, the message has one.
            if last.is_summary != thought.is_summary {
                return;
            }
            if last.part != thought.part {
                events.push_back(StreamEvent::ThinkingDelta(PARAGRAPH.to_owned()));
            }
        }
        self.thought = Some(thought);
        self.shown.insert(thought.place);
        events.push_back(StreamEvent::ThinkingDelta(delta));
    }

    fn begin(&mut self, place: usize, item: &Value, events: &mut VecDeque<StreamEvent>) {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, name) = (text("call_id"), text("name"));
        // What is not known yet is known at its end.
        if is_call(item) && !id.is_empty() && !name.is_empty() {
            let call = OpenCall { id: id.clone(), name: name.clone(), has_pieces: false };
            // A server that puts two items in one place does not end the first.
            let open = self.calls.insert(place, call);
            events.extend(open.map(|call| StreamEvent::ToolUseEnd { id: call.id }));
            events.push_back(StreamEvent::ToolUseStart { id, name });
        }
    }

    fn finish_item(&mut self, place: usize, json: Value, events: &mut VecDeque<StreamEvent>) {
        let block = item(json.clone());
        let was_shown = self.shown.contains(&place);
        match block.portable() {
            Some(ContentBlock::ToolUse { id, name, input }) => {
                let open = self.calls.remove(&place).unwrap_or_else(|| {
                    let (id, name) = (id.clone(), name.clone());
                    events.push_back(StreamEvent::ToolUseStart {
                        id: id.clone(),
                        name: name.clone(),
                    });
                    OpenCall { id, name, has_pieces: false }
                });
                if let Some(delta) = arguments(&json).filter(|_| !open.has_pieces) {
                    events.push_back(StreamEvent::ToolUseInputDelta { id: open.id.clone(), delta });
                }
                let OpenCall { id, name, .. } = open;
                events.push_back(StreamEvent::ToolUseEnd { id: id.clone() });
                if ToolCall::invalid_json(input).is_none() {
                    events.push_back(StreamEvent::ToolUse { id, name, input: input.clone() });
                }
            }
            // What did not come in pieces comes whole.
            Some(ContentBlock::Text(text)) if !was_shown => {
                events.push_back(StreamEvent::TextDelta(text.clone()));
            }
            Some(ContentBlock::Thinking { thinking, .. }) if !was_shown => {
                events.push_back(StreamEvent::ThinkingDelta(thinking.clone()));
            }
            _ => {}
        }
        self.done.push((place, json));
    }

    fn finish(&mut self, mut response: WireResponse, events: &mut VecDeque<StreamEvent>) {
        // Some servers send no items but those of the response.
        let output = response.output.take().unwrap_or_default();
        if output.len() > self.done.len() {
            for (place, item) in output.into_iter().enumerate() {
                if self.done.iter().all(|(done, _)| *done != place) {
                    self.finish_item(place, item, events);
                }
            }
        }
        for (_, call) in std::mem::take(&mut self.calls) {
            events.push_back(StreamEvent::ToolUseEnd { id: call.id });
        }
        if response.id.is_empty() {
            response.id = std::mem::take(&mut self.id);
        }
        if response.model.is_empty() {
            response.model = std::mem::take(&mut self.model);
        }
        let mut items = std::mem::take(&mut self.done);
        // Servers that give each item the same place send them in order, which a stable sort keeps.
        items.sort_by_key(|(place, _)| *place);
        let items = items.into_iter().map(|(_, item)| item).collect();
        complete(response.into_response(items), events);
    }
}

/// The text of a call's arguments, if there are any.
fn arguments(call: &Value) -> Option<String> {
    let arguments = ["arguments", "input"].iter().find_map(|key| call.get(*key));
    match arguments? {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        other => Some(other.to_string()),
    }
}

fn is_call(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    matches!(kind, Some("function_call" | "custom_tool_call"))
}

/// The event of which a stream has thousands: a piece of text.
///
/// It is read first and alone: a struct with few fields is read much faster than [`WireEvent`] with its
/// many (`benches/README.md`). Whatever has another form is read again as that.
#[derive(Deserialize)]
struct PieceEvent {
    #[serde(rename = "type")]
    _kind: PieceKind,
    #[serde(default, rename = "output_index")]
    place: usize,
    delta: String,
}

#[derive(Deserialize)]
enum PieceKind {
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text,
}

/// Any of the API's events: each has some of these fields.
#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: usize,
    #[serde(default)]
    summary_index: usize,
    #[serde(default)]
    content_index: usize,
    #[serde(default)]
    item: Option<Value>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    response: Option<WireResponse>,
}

/// The events that are read; others are passed over.
const EVENTS: [&str; 16] = [
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
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
