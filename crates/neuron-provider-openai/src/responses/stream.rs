//! Decoding of streams of the Responses API into [`StreamEvent`]s.
//!
//! <https://platform.openai.com/docs/api-reference/responses-streaming>

use std::borrow::Cow;
use std::collections::VecDeque;

use neuron_http::{Decoder, Secret, SseDecoder, complete, read_frame};
use neuron_model::{ContentBlock, ProviderError, StreamEvent, ToolUseRef};
use serde::Deserialize;
use serde_json::Value;

use super::items::{DoneItem, Key, Kind, OpenCall, OpenItems, Order, missing};
use super::response::{CallIds, PARAGRAPH, WireResponse, item, set_call_id, text_of};
use crate::dialect::Vendor;
use crate::error::{self, ApiError};
use crate::lenient;

/// A decoder of one streamed response. Collects the response while it emits events.
#[derive(Debug, Default)]
pub(crate) struct ResponsesDecoder {
    id: String,
    model: String,
    items: OpenItems,
    ids: CallIds,
    /// Complete items, in the order in which they were completed.
    done: Vec<DoneItem>,
    /// Part to which the latest reasoning delta belonged.
    thought: Option<ReasoningPart>,
    vendor: Vendor,
}

/// The identity of a part of an item's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReasoningPart {
    /// Position of the item in `OpenItems`.
    item: usize,
    /// Set for a part of the summary, not set for a part of the reasoning text.
    is_summary: bool,
    /// Index of the part within the summary or the text.
    part: usize,
}

impl Decoder for ResponsesDecoder {
    type Framing = SseDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        // Proxies send empty events to keep the connection open. Some also end the stream with the `[DONE]` of Chat
        // Completions.
        if matches!(data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(false);
        }
        if let Ok(DeltaEvent { output_index, item_id, delta, .. }) = read_frame(data) {
            self.extend_text(Key { output_index, id: &item_id, call_id: "" }, delta, events);
            return Ok(false);
        }
        let event: WireEvent<'_> = match read_frame(data) {
            Ok(event) => event,
            // An event of an unknown type may use the names of known fields for values of other types.
            Err(_) if is_unknown(data) => return Ok(false),
            Err(error) => {
                let shown = secret.excerpt(data);
                let text = format!("an event is not as expected ({error}): {shown}");
                return Err(ProviderError::StreamError(text));
            }
        };
        let output_index = event.output_index;
        let key = Key { output_index, id: &event.item_id, call_id: "" };
        match &*event.kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                // Each of these events contains the whole response so far, so the latest id and model are used.
                if let Some(response) = event.response {
                    (self.id, self.model) = (response.id, response.model);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    self.begin(output_index, item, events);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.finish_item(output_index, item, events);
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.extend_text(key, event.delta.unwrap_or_default(), events);
            }
            "response.reasoning_summary_text.delta" => {
                let thought = (true, event.summary_index);
                self.extend_reasoning(key, thought, event.delta, events);
            }
            "response.reasoning_text.delta" => {
                let thought = (false, event.content_index);
                self.extend_reasoning(key, thought, event.delta, events);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let index = self.items.find(Kind::Call, key);
                if let Some(item) = index.and_then(|index| self.items.get_mut(index))
                    && let Some(call) = &mut item.call
                    && let Some(delta) = event.delta.filter(|delta| !delta.is_empty())
                {
                    call.arguments.push_str(&delta);
                    let id = call.id.clone();
                    events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
                }
            }
            "response.completed" => {
                self.finish(event.response.unwrap_or_default(), events);
                return Ok(true);
            }
            "response.incomplete" => {
                self.finish(event.response.unwrap_or_default().incomplete(), events);
                return Ok(true);
            }
            "response.failed" | "response.cancelled" => {
                let error = event.response.and_then(|response| response.error());
                return Err(error::from_event(&error.unwrap_or_default()));
            }
            // The API sends the error in a field of the event. The types of OpenAI's SDK have the error's fields in the
            // event itself. Some proxies send an error event without a type.
            "error" => {
                return Err(error::from_event(&ApiError::of_event(data).unwrap_or_default()));
            }
            "" => {
                if let Some(error) = ApiError::find_in(data) {
                    return Err(error::from_event(&error));
                }
            }
            // Other events are ignored, because OpenAI may add events.
            _ => {}
        }
        Ok(false)
    }
}

impl ResponsesDecoder {
    pub(crate) fn new(vendor: Vendor) -> Self {
        Self { vendor, ..Self::default() }
    }

    /// Appends the fragment `piece` to the open item that matches `kind` and `key`. Begins a new item if none matches.
    /// Returns the item's position.
    fn extend_item(&mut self, kind: Kind, key: Key<'_>, piece: &str) -> usize {
        let index = self.items.find(kind, key).unwrap_or_else(|| self.items.begin(kind, key));
        if let Some(item) = self.items.get_mut(index) {
            item.shown.push_str(piece);
        }
        index
    }

    /// Adds a delta of text to its item, and emits it.
    fn extend_text(&mut self, key: Key<'_>, text: String, events: &mut VecDeque<StreamEvent>) {
        if !text.is_empty() {
            self.extend_item(Kind::Message, key, &text);
            events.push_back(StreamEvent::TextDelta(text));
        }
    }

    /// Adds a delta of reasoning to its item, and emits it. `is_summary` and `part` identify the part of the item's
    /// reasoning.
    fn extend_reasoning(
        &mut self,
        key: Key<'_>,
        (is_summary, part): (bool, usize),
        delta: Option<String>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let Some(delta) = delta.filter(|delta| !delta.is_empty()) else {
            return;
        };
        let thought = ReasoningPart {
            item: self.extend_item(Kind::Reasoning, key, &delta),
            is_summary,
            part,
        };
        if let Some(last) = self.thought.filter(|last| last.item == thought.item) {
            // For an item with a summary and a text, the message contains only one of them. The events must match the
            // message.
            if last.is_summary != thought.is_summary {
                return;
            }
            if last.part != thought.part {
                events.push_back(StreamEvent::ThinkingDelta(PARAGRAPH.to_owned()));
            }
        }
        self.thought = Some(thought);
        events.push_back(StreamEvent::ThinkingDelta(delta));
    }

    /// Begins an item. Emits the start of a tool call if its id and its name are known.
    fn begin(
        &mut self,
        output_index: Option<usize>,
        json: Value,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let key = Key::of(output_index, &json);
        let Some(kind) = Kind::of(&json) else {
            return;
        };
        let index = self.items.begin(kind, key);
        let Some(item) = self.items.get_mut(index).filter(|item| item.call.is_none()) else {
            return;
        };
        let name = text_of(&json, "name").to_owned();
        // Without an id or a name, the start is emitted when the item is complete.
        if kind == Kind::Call && !key.call_id.is_empty() && !name.is_empty() {
            let id = self.ids.give(key.call_id, &self.id);
            events.push_back(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
            item.call = Some(OpenCall { json, id, name, arguments: String::new() });
        }
    }

    /// Ends an item and emits the content that no delta contained.
    fn finish_item(
        &mut self,
        output_index: Option<usize>,
        json: Value,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let key = Key::of(output_index, &json);
        let kind = Kind::of(&json);
        let number = self.items.number();
        let open = kind.and_then(|kind| self.items.end(kind, key));
        let order = (output_index, open.as_ref().map_or(number, |item| item.number));
        // An item without a `response.output_item.added` event gets the next number. Some proxies send the last event
        // of an item twice.
        let is_open = open.is_some();
        let is_repeated =
            !is_open && self.done.iter().any(|done| done.repeats(output_index, &json));
        if is_repeated {
            return;
        }
        if kind == Some(Kind::Call) {
            let announced = open.and_then(|item| item.call.take());
            self.finish_call(order, json, announced, events);
            return;
        }
        let was_shown = open.is_some_and(|item| !item.shown.is_empty());
        let done = DoneItem::new(order, key, json.clone());
        match item(json).portable() {
            // Content that did not arrive in deltas is emitted whole.
            Some(ContentBlock::Text(text)) if !was_shown => {
                events.push_back(StreamEvent::TextDelta(text.clone()));
            }
            Some(ContentBlock::Thinking { thinking, .. }) if !was_shown => {
                events.push_back(StreamEvent::ThinkingDelta(thinking.clone()));
            }
            _ => {}
        }
        self.done.push(done);
    }

    /// Ends a tool call. `sent` is its complete item, and `announced` is the call if its start was emitted.
    fn finish_call(
        &mut self,
        order: Order,
        sent: Value,
        announced: Option<OpenCall>,
        events: &mut VecDeque<StreamEvent>,
    ) {
        let mut json = sent.clone();
        // All events of a call must have the same id.
        match &announced {
            Some(call) => set_call_id(&mut json, &call.id),
            None => self.ids.complete(&mut json, &self.id),
        }
        let block = item(json.clone());
        if let Some(call) = block.as_tool_use() {
            let (id, name) = (call.id.to_owned(), call.name.to_owned());
            // If arguments arrived in deltas, they were emitted already.
            let has_pieces = announced.as_ref().is_some_and(|call| !call.arguments.is_empty());
            if announced.is_none() {
                events.push_back(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
            }
            if let Some(delta) = arguments(&json).filter(|_| !has_pieces) {
                events.push_back(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
            }
            events.push_back(StreamEvent::ToolUseEnd { id });
            let name = announced.map_or(name, |call| call.name);
            events.extend(StreamEvent::tool_use(ToolUseRef { name: &name, ..call }));
        }
        self.done.push(DoneItem::new(order, Key::of(None, &sent), json));
    }

    /// Ends all open items and emits the complete response. `response` is the response in the last event.
    fn finish(&mut self, mut response: WireResponse, events: &mut VecDeque<StreamEvent>) {
        // Some servers send items only in the last event.
        let output = response.output.take().unwrap_or_default();
        if output.len() > self.done.len() {
            for (output_index, item) in missing(&self.done, output) {
                self.finish_item(Some(output_index), item, events);
            }
        }
        // Some servers omit the last event of an item, so the item is built from its fragments.
        for mut item in self.items.take_open() {
            if let Some(mut call) = item.call.take() {
                let json = call.whole();
                self.finish_call(item.order(), json, Some(call), events);
            } else if let Some(json) = item.message() {
                self.done.push(DoneItem::new(item.order(), Key::of(None, &json), json.clone()));
            }
        }
        if response.id.is_empty() {
            response.id = std::mem::take(&mut self.id);
        }
        if response.model.is_empty() {
            response.model = std::mem::take(&mut self.model);
        }
        let mut items = std::mem::take(&mut self.done);
        items.sort_by_key(|item| item.order);
        let items = items.into_iter().map(|item| item.json).collect();
        let mut response = response.into_response(items);
        self.vendor.sign(&mut response.message);
        complete(response, events);
    }
}

/// Returns the arguments of a tool call item, or the input of a custom tool call. Returns `None` if they are empty.
fn arguments(call: &Value) -> Option<String> {
    let arguments = ["arguments", "input"].iter().find_map(|key| call.get(*key));
    match arguments? {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        other => Some(other.to_string()),
    }
}

/// A text delta, which is the most frequent event.
///
/// The decoder first tries to deserialise each event as a `DeltaEvent`, and then as a [`WireEvent`]. A `DeltaEvent` is
/// much faster to deserialise because it has few fields (`benches/README.md`).
#[derive(Deserialize)]
struct DeltaEvent<'a> {
    #[serde(rename = "type")]
    _kind: DeltaKind,
    #[serde(default)]
    output_index: Option<usize>,
    #[serde(borrow, default)]
    item_id: Cow<'a, str>,
    delta: String,
}

#[derive(Deserialize)]
enum DeltaKind {
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text,
}

/// An event of any type. Each type of event has some of these fields.
#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: Option<usize>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    item_id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    summary_index: usize,
    #[serde(default, deserialize_with = "lenient::or_default")]
    content_index: usize,
    #[serde(default)]
    item: Option<Value>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    response: Option<WireResponse>,
}

/// The types of events that the decoder handles. Events of other types are ignored.
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

/// Returns `true` if `data` is a JSON event of a type that is not in [`EVENTS`].
fn is_unknown(data: &[u8]) -> bool {
    let event = serde_json::from_slice::<Value>(data).unwrap_or_default();
    let kind = event.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| !EVENTS.contains(&kind))
}

#[cfg(test)]
mod tests;
