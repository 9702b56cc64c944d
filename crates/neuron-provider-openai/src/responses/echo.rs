//! Serialisation of tool calls of earlier responses in a request.

use neuron_types::{ContentBlock, ToolCall};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::search::Search;

/// A function call of an earlier response that is not sent back unchanged. Servers reject a conversation with a call whose
/// arguments are truncated or are not a JSON text. A namespace that does not exist in the request is left out.
pub(crate) struct EchoedCall<'a> {
    json: &'a Value,
    /// The arguments, if those in `json` are invalid.
    repaired: Option<&'a Value>,
    strips_namespace: bool,
}

impl<'a> EchoedCall<'a> {
    /// Returns the call if `block` is a function call that needs a change. Returns `None` for any other item, and for a
    /// call that can be sent back unchanged.
    pub(crate) fn new(
        block: &'a ContentBlock,
        json: &'a Value,
        search: &Search<'_>,
    ) -> Option<Self> {
        let is_function = json.get("type").is_some_and(|kind| kind == "function_call");
        let call = block.as_tool_use().filter(|_| is_function)?;
        let text = json.get("arguments").and_then(Value::as_str).unwrap_or_default();
        let is_json = !text.trim().is_empty() && ToolCall::invalid_json(call.input).is_none();
        let repaired = (!is_json).then_some(call.input);
        let strips_namespace = search.strips_namespace(json);
        let is_changed = repaired.is_some() || strips_namespace;
        is_changed.then_some(Self { json, repaired, strips_namespace })
    }
}

impl Serialize for EchoedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut call = serializer.serialize_map(None)?;
        for (key, value) in self.json.as_object().into_iter().flatten() {
            match key.as_str() {
                "arguments" if self.repaired.is_some() => {}
                "namespace" if self.strips_namespace => {}
                _ => call.serialize_entry(key, value)?,
            }
        }
        if let Some(input) = self.repaired {
            call.serialize_entry("arguments", &JsonText(input))?;
        }
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
