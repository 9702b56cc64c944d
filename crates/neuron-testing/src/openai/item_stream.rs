//! The events of one output item of the Responses API, without their numbers.

use serde_json::{Value, json};

use super::obfuscation::obfuscation;
use crate::chunks::chunks;

/// How the events of items are written.
pub(super) struct ItemStream {
    pub(super) chunk_chars: usize,
    pub(super) include_obfuscation: bool,
}

impl ItemStream {
    /// Returns the events of an item, from the one that adds it to the one that has it whole.
    pub(super) fn events(&self, item: &Value, output_index: usize) -> Vec<Value> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let at = Place { item_id: item.get("id").cloned().unwrap_or_default(), output_index };
        let mut events = vec![json!({
            "type": "response.output_item.added",
            "output_index": output_index,
            "item": beginning(item, kind),
        })];
        let list = |key: &str| item.get(key).and_then(Value::as_array).into_iter().flatten();
        match kind {
            "message" => {
                for (index, part) in list("content").enumerate() {
                    self.part(&at.at("content_index", index), part, &mut events);
                }
            }
            "reasoning" => {
                for (index, part) in list("summary").enumerate() {
                    self.summary(&at.at("summary_index", index), part, &mut events);
                }
                for (index, part) in list("content").enumerate() {
                    self.part(&at.at("content_index", index), part, &mut events);
                }
            }
            "function_call" => {
                self.deltas(&at.whole(), "function_call_arguments", "arguments", item, &mut events);
            }
            "custom_tool_call" => {
                self.deltas(&at.whole(), "custom_tool_call_input", "input", item, &mut events);
            }
            _ => {}
        }
        events.push(json!({
            "type": "response.output_item.done",
            "output_index": output_index,
            "item": item,
        }));
        events
    }

    /// A part of a message, or reasoning that is not summarised.
    fn part(&self, at: &Value, part: &Value, events: &mut Vec<Value>) {
        let (kind, key) = match part.get("type").and_then(Value::as_str) {
            Some("refusal") => ("refusal", "refusal"),
            Some("reasoning_text") => ("reasoning_text", "text"),
            _ => ("output_text", "text"),
        };
        let empty = with(part, [(key, "".into())]);
        events.push(event("content_part.added", at, [("part", empty)]));
        self.deltas(at, kind, key, part, events);
        events.push(event("content_part.done", at, [("part", part.clone())]));
    }

    fn summary(&self, at: &Value, part: &Value, events: &mut Vec<Value>) {
        let empty = with(part, [("text", "".into())]);
        events.push(event("reasoning_summary_part.added", at, [("part", empty)]));
        self.deltas(at, "reasoning_summary_text", "text", part, events);
        events.push(event("reasoning_summary_part.done", at, [("part", part.clone())]));
    }

    /// The text under a key, in pieces and then whole.
    fn deltas(&self, at: &Value, name: &str, key: &str, source: &Value, events: &mut Vec<Value>) {
        let text = source.get(key).and_then(Value::as_str).unwrap_or_default();
        // The SDK's types want them on both events of a text, and on no other.
        let at = match name {
            "output_text" => with(at, [("logprobs", json!([]))]),
            _ => at.clone(),
        };
        for piece in chunks(text, self.chunk_chars) {
            let mut delta = event(&format!("{name}.delta"), &at, [("delta", piece.into())]);
            if self.include_obfuscation {
                delta = with(&delta, [("obfuscation", obfuscation(piece).into())]);
            }
            events.push(delta);
        }
        events.push(event(&format!("{name}.done"), &at, [(key, text.into())]));
    }
}

/// Where an event belongs.
struct Place {
    item_id: Value,
    output_index: usize,
}

impl Place {
    fn whole(&self) -> Value {
        json!({"item_id": self.item_id, "output_index": self.output_index})
    }

    fn at(&self, key: &str, index: usize) -> Value {
        with(&self.whole(), [(key, index.into())])
    }
}

/// An item before anything of it was streamed.
fn beginning(item: &Value, kind: &str) -> Value {
    let in_progress = ("status", Value::from("in_progress"));
    match kind {
        "message" => with(item, [in_progress, ("content", json!([]))]),
        "function_call" => with(item, [in_progress, ("arguments", "".into())]),
        "custom_tool_call" => with(item, [("input", "".into())]),
        "reasoning" => {
            let mut item = with(item, [("summary", json!([]))]);
            if let Some(fields) = item.as_object_mut() {
                fields.shift_remove("content");
            }
            item
        }
        _ => item.clone(),
    }
}

fn event<const N: usize>(name: &str, at: &Value, fields: [(&str, Value); N]) -> Value {
    let mut event = json!({"type": format!("response.{name}")});
    if let (Some(target), Some(place)) = (event.as_object_mut(), at.as_object()) {
        target.extend(place.clone());
    }
    with(&event, fields)
}

/// A copy of an object with these fields set.
fn with<const N: usize>(object: &Value, fields: [(&str, Value); N]) -> Value {
    let mut object = object.clone();
    if let Some(target) = object.as_object_mut() {
        target.extend(fields.map(|(key, value)| (key.to_owned(), value)));
    }
    object
}
