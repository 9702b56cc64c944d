//! Our tools as the API's JSON, which is OpenAI's.

use std::borrow::Cow;

use neuron_types::ToolDefinition;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

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
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: Parameters(inlined(&tool.input_schema)),
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
    let definitions = DEFINITIONS.iter().find_map(|key| schema.get(*key)?.as_object());
    let Some(definitions) = definitions else {
        return Cow::Borrowed(schema);
    };
    let mut schema = resolved(schema, definitions, &mut Vec::new());
    if let Value::Object(fields) = &mut schema {
        for key in DEFINITIONS {
            fields.shift_remove(key);
        }
    }
    Cow::Owned(schema)
}

/// Where generators put the schemas that others refer to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

fn resolved<'a>(
    schema: &'a Value,
    definitions: &'a Map<String, Value>,
    open: &mut Vec<&'a str>,
) -> Value {
    let fields = match schema {
        Value::Object(fields) => fields,
        Value::Array(schemas) => {
            return schemas.iter().map(|schema| resolved(schema, definitions, open)).collect();
        }
        other => return other.clone(),
    };
    let mut result = Map::new();
    if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(referred)
        && let Some(definition) = definitions.get(name)
        && !open.contains(&name)
    {
        open.push(name);
        if let Value::Object(definition) = resolved(definition, definitions, open) {
            result = definition;
        }
        open.pop();
    }
    // What stands beside a reference is more specific than what it refers to.
    for (key, value) in fields.iter().filter(|(key, _)| *key != "$ref") {
        result.insert(key.clone(), resolved(value, definitions, open));
    }
    Value::Object(result)
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

    #[test]
    fn a_schema_without_references_stays_as_it_is() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        check(schema.clone(), schema);
    }
}
