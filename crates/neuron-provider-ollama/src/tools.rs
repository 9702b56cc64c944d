//! Our tools as the API's JSON, which is OpenAI's.

use std::borrow::Cow;

use neuron_http::VendorFields;
use neuron_types::ToolDefinition;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::request::PROVIDER;

pub(crate) struct Tools<'a>(pub(crate) &'a [ToolDefinition]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            r#type: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: Parameters<'a>,
            #[serde(flatten)]
            vendor: VendorFields<'a>,
        }
        const WRITTEN: [&str; 3] = ["name", "description", "parameters"];
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: Parameters(match tool.plain_schema() {
                    Cow::Borrowed(schema) => inlined(schema),
                    Cow::Owned(schema) => Cow::Owned(inlined(&schema).into_owned()),
                }),
                vendor: VendorFields { tool, provider: PROVIDER, written: &WRITTEN },
            },
        }))
    }
}

struct Parameters<'a>(Cow<'a, Value>);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Schema(&self.0).serialize(serializer)
    }
}

/// Puts what is referred to where it is referred to: the server drops references, and the model would
/// never learn what an argument looks like. Where a schema refers to itself, anything goes.
fn inlined(schema: &Value) -> Cow<'_, Value> {
    let Some(fields) = schema.as_object() else {
        return Cow::Borrowed(schema);
    };
    let Some(definitions) = DEFINITIONS.iter().find_map(|key| fields.get(*key)?.as_object()) else {
        return Cow::Borrowed(schema);
    };
    let resolved = DEPTHS.into_iter().find_map(|depth| {
        let mut references = References { definitions, open: Vec::new(), depth, left: AT_MOST };
        references.object(fields, &DEFINITIONS)
    });
    resolved.map_or(Cow::Borrowed(schema), Cow::Owned)
}

/// How deep references within what is referred to are followed: as deep as keeps the schema small.
/// Definitions that refer to each other multiply with every step, and those of foreign tools may be
/// made to.
const DEPTHS: [usize; 6] = [32, 8, 4, 2, 1, 0];

/// The most objects that may come in place of references.
const AT_MOST: usize = 10_000;

/// Where generators put the schemas that others refer to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

struct References<'a> {
    definitions: &'a Map<String, Value>,
    /// The names that are being followed.
    open: Vec<&'a str>,
    depth: usize,
    /// How many more objects may come in place of references.
    left: usize,
}

impl<'a> References<'a> {
    /// Returns the schema with what it refers to; `None` when that would be too much.
    fn resolved(&mut self, schema: &'a Value) -> Option<Value> {
        match schema {
            Value::Object(fields) => self.object(fields, &[]),
            Value::Array(schemas) => schemas.iter().map(|schema| self.resolved(schema)).collect(),
            other => Some(other.clone()),
        }
    }

    fn object(&mut self, fields: &'a Map<String, Value>, but: &[&str]) -> Option<Value> {
        if !self.open.is_empty() {
            self.left = self.left.checked_sub(1)?;
        }
        let mut result = Map::new();
        if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(referred)
            && let Some(definition) = self.definitions.get(name)
            && !self.open.contains(&name)
            && self.open.len() < self.depth
        {
            self.open.push(name);
            if let Value::Object(definition) = self.resolved(definition)? {
                result = definition;
            }
            self.open.pop();
        }
        // What stands beside a reference is more specific than what it refers to.
        for (key, value) in fields {
            if key != "$ref" && !but.contains(&key.as_str()) {
                result.insert(key.clone(), self.resolved(value)?);
            }
        }
        Some(Value::Object(result))
    }
}

fn referred(reference: &str) -> Option<&str> {
    let path = reference.strip_prefix("#/")?;
    DEFINITIONS.iter().find_map(|key| path.strip_prefix(key)?.strip_prefix('/'))
}

/// A JSON Schema. The server reads it and the schemas of its properties as objects, and refuses the
/// short form `true`, which generators write for "anything".
struct Schema<'a>(&'a Value);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = match self.0 {
            Value::Object(schema) => schema,
            Value::Bool(_) => return serializer.serialize_map(Some(0))?.end(),
            other => return other.serialize(serializer),
        };
        let mut fields = serializer.serialize_map(Some(schema.len()))?;
        for (key, value) in schema {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    fields.serialize_entry(key, &Properties(properties))?;
                }
                ("anyOf", Value::Array(schemas)) => {
                    let schemas: Vec<_> = schemas.iter().map(Schema).collect();
                    fields.serialize_entry(key, &schemas)?;
                }
                _ => fields.serialize_entry(key, value)?,
            }
        }
        fields.end()
    }
}

struct Properties<'a>(&'a Map<String, Value>);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, schema)| (name, Schema(schema))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let parameters = Parameters(inlined(&schema));
        assert_eq!(serde_json::to_value(&parameters).unwrap(), expected);
    }

    /// The server dropped `$ref`: a model was never told what a nested argument is.
    #[test]
    fn references_are_put_in_place() {
        let address = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        check(
            json!({
                "type": "object",
                "properties": {
                    "home": {"$ref": "#/$defs/Address", "description": "where"},
                    "others": {"type": "array", "items": {"$ref": "#/$defs/Address"}},
                    "work": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
                },
                "$defs": {"Address": address},
            }),
            json!({
                "type": "object",
                "properties": {
                    "home": {"type": "object", "properties": {"city": {"type": "string"}}, "description": "where"},
                    "others": {"type": "array", "items": address},
                    "work": {"anyOf": [address, {"type": "null"}]},
                },
            }),
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        check(
            json!({
                "type": "object",
                "properties": {"root": {"$ref": "#/definitions/Node"}},
                "definitions": {"Node": {
                    "type": "object",
                    "properties": {"next": {"$ref": "#/definitions/Node"}, "gone": {"$ref": "#/definitions/None"}},
                }},
            }),
            json!({
                "type": "object",
                "properties": {"root": {"type": "object", "properties": {"next": {}, "gone": {}}}},
            }),
        );
    }

    /// Each definition refers to the next one twice: in full that would be 2^40 objects, and the
    /// request was never written.
    #[test]
    fn a_schema_whose_references_multiply_stays_small() {
        let mut definitions = Map::new();
        for number in 0..40 {
            let next = json!({"$ref": format!("#/$defs/D{}", number + 1)});
            definitions.insert(
                format!("D{number}"),
                json!({"type": "object", "properties": {"a": next, "b": next}}),
            );
        }
        let schema = json!({
            "type": "object",
            "properties": {"top": {"$ref": "#/$defs/D0"}},
            "$defs": definitions,
        });
        let text = serde_json::to_string(&Parameters(inlined(&schema))).unwrap();
        let level = r#"{"type":"object","properties":{"a":"#;
        assert!(text.contains(&level.repeat(8)) && !text.contains("$ref"), "{}", text.len());
        assert!(text.len() < 1_000_000, "{}", text.len());
    }

    /// A chain as long as a foreign tool likes to make it must not be followed on the stack.
    #[test]
    fn a_long_chain_of_references_ends() {
        let link = |number| {
            let next = json!({"$ref": format!("#/$defs/D{}", number + 1)});
            (format!("D{number}"), json!({"properties": {"next": next}}))
        };
        let definitions: Map<_, _> = (0..100_000).map(link).collect();
        let schema = json!({"properties": {"D": {"$ref": "#/$defs/D0"}}, "$defs": definitions});
        let text = serde_json::to_string(&Parameters(inlined(&schema))).unwrap();
        assert_eq!(text.matches("next").count(), 32);
    }

    /// A property may be called as the place of the definitions is.
    #[test]
    fn a_property_called_definitions_is_kept() {
        check(
            json!({
                "$ref": "#/$defs/Args",
                "$defs": {"Args": {"properties": {"definitions": {"type": "string"}, "x": {"$ref": "#/$defs/X"}}}, "X": {"type": "null"}},
            }),
            json!({"properties": {"definitions": {"type": "string"}, "x": {"type": "null"}}}),
        );
    }

    #[test]
    fn a_schema_without_references_stays_as_it_is() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        check(schema.clone(), schema);
    }
}
