//! Our tools as the API's JSON, which is OpenAI's.

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
            parameters: Schema<'a>,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: Schema(&tool.input_schema),
            },
        }))
    }
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
