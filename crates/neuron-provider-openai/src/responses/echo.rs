//! Calls of earlier answers in a request.

use neuron_types::{ContentBlock, ToolCall};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A function call of an earlier answer whose arguments are not a JSON text, because they were cut
/// off or the server has its own form. Servers reject a conversation with such a call.
pub(crate) struct MendedCall<'a> {
    json: &'a Value,
    input: &'a Value,
}

impl<'a> MendedCall<'a> {
    /// Returns `None` for other items and for calls that can go back as they came.
    pub(crate) fn new(block: &'a ContentBlock, json: &'a Value) -> Option<Self> {
        let is_function = json.get("type").is_some_and(|kind| kind == "function_call");
        let call = block.as_tool_use().filter(|_| is_function)?;
        let text = json.get("arguments").and_then(Value::as_str).unwrap_or_default();
        let is_json = !text.trim().is_empty() && ToolCall::invalid_json(call.input).is_none();
        (!is_json).then_some(Self { json, input: call.input })
    }
}

impl Serialize for MendedCall<'_> {
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

/// A tool's arguments as a JSON text. Arguments that were cut off are an object with their text, see
/// [`ToolCall::invalid_json`].
pub(crate) struct JsonText<'a>(pub(crate) &'a Value);

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}
