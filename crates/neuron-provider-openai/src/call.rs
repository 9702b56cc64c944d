//! Tool calls of Chat Completions, in the wire format and as content blocks.

use std::borrow::Cow;

use neuron_types::{ContentBlock, ToolCall, ToolDefinition, ToolUseRef};
use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::lenient;
use crate::message::called_name;
use crate::message_fields::merge;
use crate::request::PROVIDER;

/// A tool call, or a fragment of a streamed call.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireCall {
    #[serde(deserialize_with = "lenient::count")]
    pub(crate) index: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    id: String,
    /// Ignored. The type is the name of the field beside it.
    #[serde(rename = "type")]
    _kind: IgnoredAny,
    function: Option<WireFunction>,
    custom: Option<WireFunction>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A function call, or a custom call with free text as input.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction {
    #[serde(deserialize_with = "lenient::or_default")]
    name: String,
    /// A text. Some servers send the JSON object itself.
    arguments: Value,
    /// The input of a custom call, a free text.
    input: Value,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl WireFunction {
    fn arguments(&self) -> &Value {
        if self.arguments.is_null() { &self.input } else { &self.arguments }
    }

    /// Orders an empty stub below a fragment, and a fragment below the beginning of a call.
    fn rank(&self) -> (bool, bool) {
        (!self.name.is_empty(), !lenient::is_blank(self.arguments()))
    }
}

/// The fields of a call that have arrived so far.
#[derive(Debug, Default)]
pub(crate) struct CallFields {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// Set for a custom call, whose input is free text.
    is_custom: bool,
    /// Unknown fields of the call.
    more: Map<String, Value>,
    /// Unknown fields of the call's function.
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
        // Stubs of absent fields are dropped, so that they do not turn a plain call into a raw block.
        for more in [&mut fields.more, &mut fields.function_more] {
            more.retain(|_, value| !lenient::is_blank(value));
        }
        fields
    }
}

impl CallFields {
    /// Parses a call that is not streamed. `None` if it has another form.
    pub(crate) fn read(json: &Value) -> Option<Self> {
        WireCall::deserialize(json).ok().map(Self::from)
    }

    /// Parses the single `function_call` that responses had before `tool_calls`.
    pub(crate) fn parse_function_call(function: Value) -> Option<Self> {
        let function = serde_json::from_value(function).ok()?;
        Some(WireCall { function: Some(function), ..WireCall::default() }.into())
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.id.is_empty()
            && self.name.is_empty()
            && self.arguments.is_empty()
            && self.more.is_empty()
            && self.function_more.is_empty()
    }

    /// Adds a fragment. Arguments are appended, other known fields keep their first value, and unknown fields take the
    /// last.
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

    /// Converts the call into the format of the API.
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

    /// Converts the call into a plain tool use or, if it has unknown fields, into a raw block with a portable tool use.
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
        // The stored arguments must be valid, because raw fields are sent back unchanged.
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

/// Generates an id for a call without one, as some compatible servers send it.
///
/// `seed` identifies the response. The id satisfies the strictest vendors, with letters, digits, `_` and `-`, and at
/// most 40 characters. The number in it is incremented until no other call has the id.
pub(crate) fn generate_id(mut index: usize, seed: &str, is_taken: impl Fn(&str) -> bool) -> String {
    const TAIL: usize = 24;
    let allowed = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '_';
    // Response ids differ at their end. Their prefix is often the same.
    let tail: Vec<char> = seed.chars().rev().filter(allowed).take(TAIL).collect();
    let prefix = match tail.is_empty() {
        true => "call".to_owned(),
        false => format!("call_{}", tail.iter().rev().collect::<String>()),
    };
    loop {
        let id = format!("{prefix}_{index}");
        if !is_taken(&id) {
            return id;
        }
        index += 1;
    }
}

/// Returns the seed for generated ids, which is the response id, or else its creation time.
pub(crate) fn seed(id: &str, created: Option<usize>) -> Cow<'_, str> {
    match created {
        Some(created) if id.is_empty() && created > 0 => created.to_string().into(),
        _ => id.into(),
    }
}

/// A call that is sent back.
pub(crate) struct Call<'a> {
    call: ToolUseRef<'a>,
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    /// The call in the format of the API, if it came from this vendor and has unknown fields.
    own: Option<&'a Map<String, Value>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        block: &'a ContentBlock,
        tools: &[ToolDefinition],
        dialect: &Dialect,
    ) -> Option<Self> {
        let call = block.as_tool_use()?;
        let own = match block {
            ContentBlock::Raw { provider, json: Value::Object(json), .. }
                if *provider == dialect.name && is_call(json) =>
            {
                Some(json)
            }
            _ => None,
        };
        let (id, name) = (dialect.call_id(call.id), called_name(call.name, tools));
        Some(Self { call, id, name, own })
    }
}

/// Returns `true` for a call in the format of Chat Completions. Items of the Responses API have neither field.
pub(crate) fn is_call(json: &Map<String, Value>) -> bool {
    json.contains_key("custom") || json.contains_key("function")
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The input of a custom call is free text, so it needs no repair.
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
        let Call { call, name, own, .. } = self.0;
        let own = own.and_then(|own| own.get("function")?.as_object());
        let text = own.and_then(|own| own.get("arguments")?.as_str());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", name)?;
        map.serialize_entry("arguments", &arguments_text(text, call.input))?;
        for (key, value) in own.into_iter().flatten() {
            if key != "name" && key != "arguments" {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// Returns arguments as the text of a JSON object. Servers reject other text with status 400 or 500, and the chat
/// templates of llama.cpp fail if the JSON is not an object.
///
/// `text` is the model's own text of `input`, which is kept if it is an object. Invalid JSON is sent in the form of
/// [`ToolCall::invalid_json`].
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

    /// Other vendors reject ids with more than 40 characters or with other characters, and conversations may move to
    /// them.
    #[test]
    fn generated_id_is_accepted_by_every_vendor() {
        let generate_id = |index, seed| generate_id(index, seed, |_| false);
        assert_eq!(generate_id(0, ""), "call_0");
        assert_eq!(generate_id(1, "::"), "call_1");
        assert_eq!(generate_id(2, "gen-1a:b"), "call_gen-1ab_2");
        let long = generate_id(100, "chatcmpl-0123456789abcdef0123456789abcdef");
        assert_eq!(long, "call_89abcdef0123456789abcdef_100");
        assert!(long.len() <= 40);
    }
}
