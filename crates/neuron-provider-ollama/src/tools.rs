//! Serialisation of the tools of a request. The API uses OpenAI's format.

use std::borrow::Cow;

use neuron_http::{VendorFields, tool_schema, without_references};
use neuron_model::ToolDefinition;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// The tools of a request, serialised in the format of the API.
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
        let mut tools = serializer.serialize_seq(Some(self.0.len()))?;
        for tool in self.0 {
            let function = Function {
                name: &tool.name,
                description: &tool.description,
                // The server drops `$ref`, and the model would then not see the referenced schema.
                parameters: Parameters(match tool_schema(tool, false)? {
                    Cow::Borrowed(schema) => without_references(schema),
                    Cow::Owned(schema) => Cow::Owned(without_references(&schema).into_owned()),
                }),
                vendor: VendorFields { tool, provider: PROVIDER, written: &WRITTEN },
            };
            tools.serialize_element(&Tool { r#type: "function", function })?;
        }
        tools.end()
    }
}

struct Parameters<'a>(Cow<'a, Value>);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Schema(&self.0).serialize(serializer)
    }
}

/// A JSON Schema, serialised with an object in place of `true` and `false`. Schema generators write `true` for any
/// value, but the server requires objects.
struct Schema<'a>(&'a Value);

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = match self.0 {
            Value::Object(schema) => schema,
            // `false` also becomes an empty object, although it accepts no value. The server has no equivalent.
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

    /// Each `$ref` in a schema must be replaced with its definition. Regression test. The server drops `$ref`, so
    /// models did not receive the schema of nested arguments.
    #[test]
    fn references_in_input_schema_are_replaced_with_definitions() {
        let tool: ToolDefinition = serde_json::from_value(json!({
            "name": "t",
            "description": "",
            "input_schema": {
                "type": "object",
                "properties": {"home": {"$ref": "#/$defs/Address"}, "any": true},
                "$defs": {"Address": {"type": "string"}},
            },
        }))
        .unwrap();
        let tools = serde_json::to_value(Tools(&[tool])).unwrap();
        assert_eq!(
            tools[0]["function"]["parameters"],
            json!({"type": "object", "properties": {"home": {"type": "string"}, "any": {}}})
        );
    }
}
