//! JSON Schemas in the form that the API accepts.
//!
//! The fields `parametersJsonSchema` and `responseJsonSchema` accept JSON Schema, but not all of its keywords.
//!
//! <https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support>

use neuron_http::without_references;
use serde_json::{Map, Value};

/// Returns the schema of a tool's arguments. Its root is always an object.
pub(crate) fn of_arguments(schema: &Value) -> Value {
    let mut schema = accepted(schema);
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("type")
    {
        fields.insert("type".to_owned(), "object".into());
    }
    schema
}

/// Returns a schema without references and without the keywords that the API rejects. A keyword that restricts a value
/// becomes a part of the description, so that the model still sees it.
pub(crate) fn accepted(schema: &Value) -> Value {
    converted(&without_references(schema))
}

fn converted(schema: &Value) -> Value {
    let fields = match schema {
        Value::Object(fields) => fields,
        // `true` accepts any value. `false` accepts none, for which the API has no form.
        _ => return Value::Object(Map::new()),
    };
    let mut result = Map::new();
    let mut notes = Vec::new();
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            ("$schema" | "$id" | "$comment" | "title" | "examples", _) => continue,
            ("format", format) => {
                // Formats of numbers, such as `uint32`, say nothing that the bounds do not say.
                if is_text(fields)
                    && let Some(format) = format.as_str()
                {
                    notes.push(format!("format: {format}"));
                }
                continue;
            }
            ("exclusiveMinimum" | "exclusiveMaximum", bound) => {
                let relation = if key == "exclusiveMinimum" { "greater" } else { "less" };
                if bound.is_number() {
                    notes.push(format!("{relation} than {bound}"));
                }
                continue;
            }
            ("const", value) => {
                result.insert("enum".to_owned(), Value::Array(vec![value.clone()]));
                continue;
            }
            ("properties" | "patternProperties", Value::Object(schemas)) => {
                let schemas =
                    schemas.iter().map(|(name, schema)| (name.clone(), converted(schema)));
                Value::Object(schemas.collect())
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().map(converted).collect()
            }
            ("items", Value::Array(schemas)) => schemas.iter().map(converted).collect(),
            ("items", schema) => converted(schema),
            ("additionalProperties", schema @ Value::Object(_)) => converted(schema),
            (_, value) => value.clone(),
        };
        result.insert(key.clone(), value);
    }
    if !notes.is_empty() {
        let notes = notes.join(", ");
        let description = match result.get("description").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => format!("{text} ({notes})"),
            _ => notes,
        };
        result.insert("description".to_owned(), description.into());
    }
    Value::Object(result)
}

/// Returns `true` if a schema with these fields may accept a text.
fn is_text(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        assert_eq!(of_arguments(&schema), expected);
    }

    #[test]
    fn rejected_keywords_are_removed_or_described() {
        check(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Args",
                "type": "object",
                "properties": {
                    "title": {"type": "string", "title": "Title", "format": "date", "description": "When."},
                    "size": {"type": "integer", "format": "uint32", "minimum": 0, "exclusiveMaximum": 10},
                    "kind": {"const": "a"},
                    "any": true,
                    "list": {"type": "array", "items": {"type": ["string", "null"], "format": "uri", "examples": []}},
                    "choice": {"anyOf": [{"const": 1, "title": "One"}, {"exclusiveMinimum": true}]},
                    "map": {"type": "object", "additionalProperties": {"title": "x", "type": "number"}},
                },
                "required": ["title"],
                "additionalProperties": false,
            }),
            json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "When. (format: date)"},
                    "size": {"type": "integer", "minimum": 0, "description": "less than 10"},
                    "kind": {"enum": ["a"]},
                    "any": {},
                    "list": {"type": "array", "items": {"type": ["string", "null"], "description": "format: uri"}},
                    "choice": {"anyOf": [{"enum": [1]}, {}]},
                    "map": {"type": "object", "additionalProperties": {"type": "number"}},
                },
                "required": ["title"],
                "additionalProperties": false,
            }),
        );
    }

    #[test]
    fn references_are_replaced_and_definitions_are_converted() {
        check(
            json!({
                "$ref": "#/$defs/Args",
                "$defs": {
                    "Args": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}},
                    "X": {"type": "string", "title": "X", "format": "uuid"},
                },
            }),
            json!({
                "type": "object",
                "properties": {"x": {"type": "string", "description": "format: uuid"}},
            }),
        );
    }

    #[test]
    fn root_of_arguments_is_an_object() {
        for schema in [json!({}), json!(true), json!(null), json!({"title": "x"})] {
            check(schema, json!({"type": "object"}));
        }
        assert_eq!(accepted(&json!({"enum": ["a"]})), json!({"enum": ["a"]}));
    }
}
