//! Serialisation of tool calls of earlier responses in a request.

use neuron_types::{ContentBlock, ToolCall};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A function call of an earlier response whose arguments are truncated, or are not a JSON text. The call is sent back
/// with valid arguments, because servers reject a conversation with an invalid call.
pub(crate) struct RepairedCall<'a> {
    json: &'a Value,
    input: &'a Value,
}

impl<'a> RepairedCall<'a> {
    /// Returns the repaired call if `block` is a function call with invalid arguments. Returns `None` for any other
    /// item, and for a call that can be sent back unchanged.
    pub(crate) fn new(block: &'a ContentBlock, json: &'a Value) -> Option<Self> {
        let is_function = json.get("type").is_some_and(|kind| kind == "function_call");
        let call = block.as_tool_use().filter(|_| is_function)?;
        let text = json.get("arguments").and_then(Value::as_str).unwrap_or_default();
        let is_json = !text.trim().is_empty() && ToolCall::invalid_json(call.input).is_none();
        (!is_json).then_some(Self { json, input: call.input })
    }
}

impl Serialize for RepairedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.json.as_object().into_iter().flatten();
        let mut call = serializer.serialize_map(None)?;
        for (key, value) in fields.filter(|(key, _)| *key != "arguments") {
            call.serialize_entry(key, value)?;
        }
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
