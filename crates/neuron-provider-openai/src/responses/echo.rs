//! Serialisation of tool calls of earlier responses in a request.

use neuron_model::{ContentBlock, ToolCall};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::search::Search;

/// A function call of an earlier response that the server would reject. Its arguments are truncated or are not a JSON
/// text, the API does not accept its name, it has no `call_id`, as on compatible servers, or its namespace does not exist
/// in the request. The call is sent back with valid values.
pub(crate) struct RepairedCall<'a> {
    json: &'a Value,
    id: &'a str,
    input: &'a Value,
    name: &'a str,
    strips_namespace: bool,
}

impl<'a> RepairedCall<'a> {
    /// Returns the repaired call if `block` is a function call with an invalid value. Returns `None` for any other item,
    /// and for a call that can be sent back unchanged.
    pub(crate) fn new(
        block: &'a ContentBlock,
        json: &'a Value,
        search: &Search<'_>,
    ) -> Option<Self> {
        let is_function = json.get("type").is_some_and(|kind| kind == "function_call");
        let call = block.as_tool_use().filter(|_| is_function)?;
        let text = json.get("arguments").and_then(Value::as_str).unwrap_or_default();
        let is_json = !text.trim().is_empty() && ToolCall::invalid_json(call.input).is_none();
        let has_id = json.get("call_id").is_some_and(|id| id == call.id);
        let strips_namespace = search.strips_namespace(json);
        let has_name = json.get("name").is_some_and(|name| name == call.name);
        let is_valid = is_json && has_id && has_name && !strips_namespace;
        let (id, input, name) = (call.id, call.input, call.name);
        (!is_valid).then_some(Self { json, id, input, name, strips_namespace })
    }
}

impl Serialize for RepairedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut call = serializer.serialize_map(None)?;
        for (key, value) in self.json.as_object().into_iter().flatten() {
            match key.as_str() {
                "arguments" | "call_id" => {}
                "namespace" if self.strips_namespace => {}
                "name" => call.serialize_entry(key, self.name)?,
                _ => call.serialize_entry(key, value)?,
            }
        }
        call.serialize_entry("call_id", self.id)?;
        call.serialize_entry("arguments", &JsonText(self.input))?;
        call.end()
    }
}

/// The arguments of a tool call, serialised as a JSON text. Truncated arguments become an object that contains the
/// truncated text, see [`ToolCall::invalid_json`].
pub(crate) struct JsonText<'a>(pub(crate) &'a Value);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}
