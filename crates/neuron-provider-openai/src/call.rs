//! Tool calls of Chat Completions. Converts them between the JSON of the API and content blocks.

use std::borrow::Cow;

use neuron_model::{ContentBlock, ToolCall, ToolUseRef};
use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::lenient;
use crate::message_fields::merge;
use crate::request::PROVIDER;

/// The JSON of a tool call, or of a fragment of a streamed tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCall {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) index: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    id: String,
    /// Type of the call, `function` or `custom`. Ignored, because the JSON also has a field with the name of the type.
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    function: Option<WireFunction>,
    custom: Option<WireFunction>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// The field `function` or `custom` of a call, with the name of the called tool and its arguments. A function has JSON
/// arguments, and a custom tool has free text as input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction {
    #[serde(deserialize_with = "lenient::or_default")]
    name: String,
    /// Arguments of a function, as a JSON text. Some servers send a JSON object instead of the text.
    arguments: Value,
    /// Input of a custom tool, as free text.
    input: Value,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl WireFunction {
    /// Returns the arguments of a function or the input of a custom tool.
    fn arguments(&self) -> &Value {
        if self.arguments.is_null() { &self.input } else { &self.arguments }
    }

    /// Returns a sort key for the amount of content. A field with a tool name sorts highest, then a field with
    /// arguments only, and then an empty field.
    fn rank(&self) -> (bool, bool) {
        (!self.name.is_empty(), !lenient::is_blank(self.arguments()))
    }
}

/// The fields of a tool call. While the response is streamed, they contain only the data that was received so far.
#[derive(Debug, Default)]
pub(crate) struct CallFields {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// Set if the call is of a custom tool. `arguments` is then free text and not JSON.
    is_custom: bool,
    /// Fields of the call that this crate does not know.
    more: Map<String, Value>,
    /// Fields of `function` or `custom` that this crate does not know.
    function_more: Map<String, Value>,
}

impl From<WireCall> for CallFields {
    fn from(wire: WireCall) -> Self {
        let function = wire.function.unwrap_or_default();
        let custom = wire.custom.unwrap_or_default();
        // Snowflake Cortex sends each call with an empty stub of the other kind.
        let is_custom = custom.rank() > function.rank();
        let function = if is_custom { custom } else { function };
        let arguments = match function.arguments() {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let WireFunction { name, more, .. } = function;
        let mut fields =
            Self { id: wire.id, name, arguments, is_custom, more: wire.more, function_more: more };
        // Some servers send empty values for absent fields. They must not turn a plain call into a raw block.
        for more in [&mut fields.more, &mut fields.function_more] {
            more.retain(|_, value| !lenient::is_blank(value));
        }
        fields
    }
}

impl CallFields {
    /// Parses a call of a response that is not streamed. Returns `None` if `json` is not a call.
    pub(crate) fn read(json: &Value) -> Option<Self> {
        WireCall::deserialize(json).ok().map(Self::from)
    }

    /// Parses `function_call`, the format of a single call before OpenAI introduced `tool_calls`. Returns `None` if
    /// `function` is not a call.
    pub(crate) fn parse_function_call(function: Value) -> Option<Self> {
        let function = serde_json::from_value(function).ok()?;
        Some(WireCall { function: Some(function), ..WireCall::default() }.into())
    }

    /// Returns `true` if every field is empty.
    pub(crate) fn is_blank(&self) -> bool {
        self.id.is_empty()
            && self.name.is_empty()
            && self.arguments.is_empty()
            && self.more.is_empty()
            && self.function_more.is_empty()
    }

    /// Adds a fragment of a streamed call. The fragment's arguments are appended. Its id and name are used only if the
    /// call has none yet. Its unknown fields replace or extend fields of the same name, see [`merge`].
    pub(crate) fn extend(&mut self, fragment: Self) {
        if self.id.is_empty() {
            self.id = fragment.id;
        }
        if self.name.is_empty() {
            self.name = fragment.name;
        }
        self.arguments.push_str(&fragment.arguments);
        self.is_custom |= fragment.is_custom;
        for (key, value) in fragment.more {
            merge(&mut self.more, key, value, |_| false);
        }
        for (key, value) in fragment.function_more {
            merge(&mut self.function_more, key, value, |_| false);
        }
    }

    /// Converts the call into the JSON of the API.
    pub(crate) fn into_json(self) -> Value {
        let (kind, key) = match self.is_custom {
            true => ("custom", "input"),
            false => ("function", "arguments"),
        };
        let mut function = Map::new();
        function.insert("name".to_owned(), self.name.into());
        function.insert(key.to_owned(), self.arguments.into());
        function.extend(self.function_more);
        let mut json = Map::new();
        json.insert("id".to_owned(), self.id.into());
        json.insert("type".to_owned(), kind.into());
        json.insert(kind.to_owned(), function.into());
        json.extend(self.more);
        json.into()
    }

    /// Converts the call into a content block. A plain call becomes a [`ContentBlock::ToolUse`]. A call of a custom
    /// tool, or a call with unknown fields, becomes a [`ContentBlock::Raw`]. The raw block keeps the JSON, and contains
    /// a tool use for other providers.
    pub(crate) fn into_block(mut self) -> ContentBlock {
        let input = match self.is_custom {
            // Tools accept JSON, so free text becomes a JSON string.
            true => Value::String(self.arguments.clone()),
            false => match ToolCall::parse_input(&self.arguments) {
                // Models send `null` for calls without arguments.
                Value::Null => json!({}),
                input => input,
            },
        };
        if !self.is_custom && self.more.is_empty() && self.function_more.is_empty() {
            return ContentBlock::ToolUse { id: self.id, name: self.name, input };
        }
        // The JSON is sent back to the server, which rejects invalid arguments.
        if !self.is_custom {
            self.arguments = arguments_text(Some(&self.arguments), &input).into_owned();
        }
        let portable =
            ContentBlock::ToolUse { id: self.id.clone(), name: self.name.clone(), input };
        ContentBlock::Raw {
            provider: PROVIDER.to_owned(),
            json: self.into_json(),
            portable: Some(Box::new(portable)),
        }
    }
}

/// Generates an id for the calls that a compatible server sent without an id. A second call gets it with a number.
///
/// `seed` identifies the response, so that calls of different responses get different ids. An id consists of at most 29
/// letters, digits, `_` and `-`, because some vendors reject other ids.
pub(crate) fn generate_id(seed: &str) -> String {
    const TAIL: usize = 24;
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    // Response ids often share a prefix and differ only at their end.
    let tail: Vec<char> = seed.chars().rev().filter(allowed).take(TAIL).collect();
    match tail.is_empty() {
        true => "call".to_owned(),
        false => format!("call_{}", tail.iter().rev().collect::<String>()),
    }
}

/// Returns the value that identifies a response in generated call ids, see [`generate_id`]. This is the id of the
/// response or, if the id is empty, the time of its creation.
pub(crate) fn seed(id: &str, created: Option<usize>) -> Cow<'_, str> {
    match created {
        Some(created) if id.is_empty() && created > 0 => created.to_string().into(),
        _ => id.into(),
    }
}

/// A tool call of an earlier response, serialised for the next request.
pub(crate) struct Call<'a> {
    call: ToolUseRef<'a>,
    /// Id in the format that the server requires.
    id: Cow<'a, str>,
    /// The original JSON of the call. Set if the call came from this vendor and has unknown fields.
    own: Option<&'a Map<String, Value>>,
}

impl<'a> Call<'a> {
    /// Returns the tool call in a block. Returns `None` if the block is not a tool call.
    pub(crate) fn new(block: &'a ContentBlock, dialect: &Dialect) -> Option<Self> {
        let call = block.as_tool_use()?;
        let own = match block {
            ContentBlock::Raw { provider, json: Value::Object(json), .. }
                if *provider == dialect.name && is_call(json) =>
            {
                Some(json)
            }
            _ => None,
        };
        Some(Self { call, id: dialect.call_id(call.id), own })
    }
}

/// Returns `true` if `json` is a tool call of Chat Completions, which has a field `function` or `custom`. An item of
/// the Responses API has neither field.
pub(crate) fn is_call(json: &Map<String, Value>) -> bool {
    json.contains_key("custom") || json.contains_key("function")
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The input of a custom tool is free text, so truncated input is valid too.
        if let Some(own) = self.own.filter(|own| own.contains_key("custom")) {
            return own.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function(self))?;
        for (key, value) in self.own.into_iter().flatten() {
            if !["id", "type", "function"].contains(&key.as_str()) {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

struct Function<'a>(&'a Call<'a>);

impl Serialize for Function<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Call { call, own, .. } = self.0;
        let own = own.and_then(|own| own.get("function")?.as_object());
        let text = own.and_then(|own| own.get("arguments")?.as_str());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", call.name)?;
        map.serialize_entry("arguments", &arguments_text(text, call.input))?;
        for (key, value) in own.into_iter().flatten() {
            if key != "name" && key != "arguments" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// Returns the arguments of a call as the text of a JSON object. Servers reject any other text with status 400 or 500.
/// The chat templates of llama.cpp fail if the JSON is not an object.
///
/// `text` is the text that the model sent, and `input` is its parsed value. A `text` with a valid object is returned
/// unchanged. Invalid JSON becomes the object that [`ToolCall::invalid_json`] describes. Null becomes `{}`, and any
/// other value is wrapped in an object.
fn arguments_text<'a>(text: Option<&'a str>, input: &Value) -> Cow<'a, str> {
    let is_valid = input.is_object() && ToolCall::invalid_json(input).is_none();
    match (text, input) {
        (Some(text), _) if is_valid && text.trim_start().starts_with('{') => text.into(),
        (_, Value::Object(_)) => input.to_string().into(),
        (_, Value::Null) => "{}".into(),
        _ => json!({"input": input}).to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generated id must consist of at most 40 letters, digits, `_` and `-`. A conversation may move to another
    /// vendor, and some vendors reject other ids.
    #[test]
    fn generated_id_is_accepted_by_every_vendor() {
        assert_eq!(generate_id(""), "call");
        assert_eq!(generate_id("::"), "call");
        assert_eq!(generate_id("gen-1a:b"), "call_gen-1ab");
        let long = generate_id("chatcmpl-0123456789abcdef0123456789abcdef");
        assert_eq!(long, "call_89abcdef0123456789abcdef");
        assert!(long.len() <= 29);
    }
}
