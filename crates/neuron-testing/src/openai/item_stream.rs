//! Converts an output item of the Responses API to stream events. The caller adds the sequence numbers.

use serde_json::{Value, json};

use super::obfuscation::obfuscation;
use crate::chunks::chunks;
use crate::json::merge;

/// The options that determine the events of an output item.
pub(super) struct ItemStream {
    pub(super) chunk_chars: usize,
    pub(super) include_obfuscation: bool,
}

impl ItemStream {
    /// Returns the events of an item, from `output_item.added` to `output_item.done`. `output_index` is the item's
    /// position in the response.
    pub(super) fn events(&self, item: &Value, output_index: usize) -> Vec<Value> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let at = json!({"item_id": item.get("id"), "output_index": output_index});
        let mut events = vec![json!({
            "type": "response.output_item.added",
            "output_index": output_index,
            "item": beginning(item, kind),
        })];
        match kind {
            "message" | "reasoning" => {
                for (list, index_key) in
                    [("summary", "summary_index"), ("content", "content_index")]
                {
                    let parts = item.get(list).and_then(Value::as_array).into_iter().flatten();
                    for (index, part) in parts.enumerate() {
                        let at = merge(at.clone(), json!({index_key: index}));
                        self.part(list, &at, part, &mut events);
                    }
                }
            }
            "function_call" => {
                self.deltas(&at, "function_call_arguments", "arguments", item, &mut events);
            }
            "custom_tool_call" => {
                self.deltas(&at, "custom_tool_call_input", "input", item, &mut events);
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

    /// Adds the events of one part of a message or of reasoning to `events`. `list` is the field that contains the
    /// part, `content` or `summary`. `at` has the ids and indexes that locate the part in the response.
    fn part(&self, list: &str, at: &Value, part: &Value, events: &mut Vec<Value>) {
        let (frame, name, key) = match part.get("type").and_then(Value::as_str) {
            _ if list == "summary" => ("reasoning_summary_part", "reasoning_summary_text", "text"),
            Some("refusal") => ("content_part", "refusal", "refusal"),
            Some("reasoning_text") => ("content_part", "reasoning_text", "text"),
            _ => ("content_part", "output_text", "text"),
        };
        let empty = merge(part.clone(), json!({key: ""}));
        events.push(event(&format!("{frame}.added"), at, json!({"part": empty})));
        self.deltas(at, name, key, part, events);
        events.push(event(&format!("{frame}.done"), at, json!({"part": part})));
    }

    /// Adds the events of a text to `events`, and reads the text from the field `key` of `source`. The events
    /// `response.{name}.delta` contain pieces of the text. The last event, `response.{name}.done`, contains the whole
    /// text. `at` has the ids and indexes that locate the text in the response.
    fn deltas(&self, at: &Value, name: &str, key: &str, source: &Value, events: &mut Vec<Value>) {
        let text = source.get(key).and_then(Value::as_str).unwrap_or_default();
        // The types of OpenAI's SDK require `logprobs` in the delta and done events of an output text, and in no other
        // events.
        let at = match name {
            "output_text" => &merge(at.clone(), json!({"logprobs": []})),
            _ => at,
        };
        for piece in chunks(text, self.chunk_chars) {
            let delta = event(&format!("{name}.delta"), at, json!({"delta": piece}));
            events.push(match self.include_obfuscation {
                true => merge(delta, json!({"obfuscation": obfuscation(piece)})),
                false => delta,
            });
        }
        events.push(event(&format!("{name}.done"), at, json!({key: text})));
    }
}

/// Returns the JSON of an item in its `output_item.added` event, which has no content yet.
fn beginning(item: &Value, kind: &str) -> Value {
    let mut item = item.clone();
    // A reasoning item has no `content` field before its content arrives.
    if kind == "reasoning"
        && let Some(fields) = item.as_object_mut()
    {
        fields.shift_remove("content");
    }
    merge(
        item,
        match kind {
            "message" => json!({"status": "in_progress", "content": []}),
            "function_call" => json!({"status": "in_progress", "arguments": ""}),
            "custom_tool_call" => json!({"input": ""}),
            "reasoning" => json!({"summary": []}),
            _ => Value::Null,
        },
    )
}

/// Returns the JSON of an event with the type `response.{name}` and the fields of `at` and `fields`. `at` has the ids
/// and indexes that locate the event's text in the response.
fn event(name: &str, at: &Value, fields: Value) -> Value {
    merge(merge(json!({"type": format!("response.{name}")}), at.clone()), fields)
}
