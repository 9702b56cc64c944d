//! Serialisation of blocks of earlier responses for the next request.
//!
//! A block is sent back unchanged, except for fields that the API accepts only in responses.

use neuron_http::ObjectInput;
use neuron_model::ContentBlock;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::search::Search;

/// A [`ContentBlock::Raw`] of an earlier response, serialised for the next request.
pub(crate) struct Echo<'a> {
    json: &'a Value,
    /// Set if the block is a tool call whose `input` is not an object. The arguments are then serialised as an object,
    /// because the API requires one.
    input: Option<ObjectInput<'a>>,
    /// Name of the tool, if the block is a tool call. A model may call tools with names that the API rejects.
    name: Option<&'a str>,
    search: &'a Search<'a>,
}

impl<'a> Echo<'a> {
    /// Wraps the [`ContentBlock::Raw`] `block`, whose JSON is `json`.
    pub(crate) fn new(block: &'a ContentBlock, json: &'a Value, search: &'a Search<'a>) -> Self {
        let call = block.as_tool_use();
        let name = call.map(|call| call.name);
        let call = call.filter(|_| !json.get("input").is_some_and(Value::is_object));
        Self { json, input: call.map(|call| ObjectInput(call.input)), name, search }
    }

    /// Returns `true` if the block is the model's reasoning.
    pub(crate) fn is_thinking(&self) -> bool {
        let kind = self.json.get("type").and_then(Value::as_str);
        matches!(kind, Some("thinking" | "redacted_thinking"))
    }
}

impl Serialize for Echo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.json else {
            return self.json.serialize(serializer);
        };
        let mut block = serializer.serialize_map(None)?;
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("name", _) if self.name.is_some() => block.serialize_entry(key, &self.name)?,
                ("input", _) if self.input.is_some() => {}
                ("citations", Value::Array(list)) => {
                    block.serialize_entry(key, &Citations(list))?;
                }
                ("content", Value::Object(found)) if found.contains_key(REFERENCES) => {
                    block.serialize_entry(key, &Found { found, search: self.search })?;
                }
                _ => block.serialize_entry(key, value)?,
            }
        }
        if let Some(input) = &self.input {
            block.serialize_entry("input", input)?;
        }
        block.end()
    }
}

/// Name of the list of tools in the result of a tool search.
const REFERENCES: &str = "tool_references";

/// The result of a tool search, serialised without references to tools that are not in the request.
struct Found<'a> {
    found: &'a Map<String, Value>,
    search: &'a Search<'a>,
}

impl Serialize for Found<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut result = serializer.serialize_map(None)?;
        for (key, value) in self.found {
            match value {
                Value::Array(list) if key == REFERENCES => {
                    let is_known = |tool: &&Value| {
                        let name = tool.get("tool_name").and_then(Value::as_str);
                        name.is_some_and(|name| self.search.knows(name))
                    };
                    let known: Vec<&Value> = list.iter().filter(is_known).collect();
                    result.serialize_entry(key, &known)?;
                }
                _ => result.serialize_entry(key, value)?,
            }
        }
        result.end()
    }
}

/// The citations of a text block, serialised without their `file_id`.
///
/// The API accepts `file_id` only in responses. <https://platform.claude.com/docs/en/api/messages> shows this in the
/// types `CitationCharLocation` and `CitationCharLocationParam`.
struct Citations<'a>(&'a [Value]);

impl Serialize for Citations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Citation))
    }
}

struct Citation<'a>(&'a Value);

impl Serialize for Citation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_object() {
            Some(fields) => serializer.collect_map(without_file(fields)),
            None => self.0.serialize(serializer),
        }
    }
}

/// Returns the fields of a citation except `file_id`.
fn without_file(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    fields.iter().filter(|(key, _)| *key != "file_id")
}
