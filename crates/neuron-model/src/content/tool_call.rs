//! A call of a tool, and its result.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::long_integers;
use crate::{ContentItem, ToolUseRef};

/// A tool call, as passed to the registry and its middleware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call, unique within its message. Empty if no model made the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments of the call.
    pub input: Value,
}

/// The only key of the JSON object that stores arguments with invalid JSON. See [`ToolCall::invalid_json`].
const INVALID_JSON: &str = "invalid_json";

impl ToolUseRef<'_> {
    /// Creates an owned copy of the call.
    #[must_use]
    pub fn to_call(self) -> ToolCall {
        ToolCall { id: self.id.to_owned(), name: self.name.to_owned(), input: self.input.clone() }
    }
}

impl ToolCall {
    /// Returns a borrowed view of the call.
    #[must_use]
    pub fn view(&self) -> ToolUseRef<'_> {
        ToolUseRef { id: &self.id, name: &self.name, input: &self.input }
    }

    /// Returns the raw text of arguments that were not valid JSON. Returns `None` for valid arguments.
    ///
    /// Arguments are invalid if the model made an error or if its response was truncated. Providers then store the raw
    /// text as `{"invalid_json": "<raw text>"}`. The loop does not run a call with such arguments.
    #[must_use]
    pub fn invalid_json(input: &Value) -> Option<&str> {
        // An object with more fields is an ordinary argument object.
        let fields = input.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(INVALID_JSON)?.as_str()
    }

    /// Parses the JSON text of arguments. An empty text becomes an empty object. Invalid JSON becomes the form that
    /// [`invalid_json`](Self::invalid_json) describes.
    ///
    /// An integer that does not fit into 64 bits becomes a text with its digits, because a floating-point number would be
    /// another value. A tool with an integer argument then rejects it and names the digits, and a tool can accept the text.
    /// For arguments that a vendor sends as an object and not as a text, see
    /// [`quote_long_integers`](Self::quote_long_integers).
    #[must_use]
    pub fn parse_input(text: &str) -> Value {
        if text.trim().is_empty() {
            return Value::Object(serde_json::Map::new());
        }
        let parsed = serde_json::from_str(&Self::quote_long_integers(text));
        parsed.unwrap_or_else(|_| Self::invalid_json_input(text))
    }

    /// Returns a JSON text with quotes around each integer that does not fit into 64 bits. A provider of a vendor that
    /// sends arguments as an object can parse the result instead of the vendor's response, because parsing rounds such
    /// an integer. Other JSON is returned unchanged.
    #[must_use]
    pub fn quote_long_integers(json: &str) -> Cow<'_, str> {
        long_integers::quoted(json).map_or(Cow::Borrowed(json), Cow::Owned)
    }

    /// Creates the arguments `{"invalid_json": raw}`, the form in which providers store arguments with invalid JSON.
    #[must_use]
    pub fn invalid_json_input(raw: impl Into<String>) -> Value {
        Value::Object([(INVALID_JSON.to_owned(), Value::String(raw.into()))].into_iter().collect())
    }
}

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The content that the model receives.
    pub content: Vec<ContentItem>,
    /// The result as JSON, for programs. `None` if the tool returns no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Set if the tool failed. The content then describes the failure for the model.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolOutput {
    /// Creates a result with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentItem::Text(text.into())],
            structured_content: None,
            is_error: false,
        }
    }

    /// Creates an error result with one text.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}
