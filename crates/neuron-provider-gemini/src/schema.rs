//! JSON Schemas in the form that the API accepts.
//!
//! The fields `parametersJsonSchema` and `responseJsonSchema` accept JSON Schema, but not all of its keywords.
//!
//! <https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support>

use neuron_http::without_references;
use serde_json::{Map, Value};

/// Returns a schema without references and without the keywords that the API rejects. A keyword that restricts a value
/// becomes a part of the description, so that the model still sees it.
pub(crate) fn accepted(schema: &Value) -> Value {
    converted(&without_references(schema), &mut false)
}

/// Converts a schema. Sets `is_weaker` if the result accepts values that the schema does not accept.
fn converted(schema: &Value, is_weaker: &mut bool) -> Value {
    let fields = match schema {
        Value::Object(fields) => fields,
        // `true` accepts any value. `false` accepts none, for which the API has no form.
        other => {
            *is_weaker |= other == &Value::Bool(false);
            return Value::Object(Map::new());
        }
    };
    let mut result = Map::new();
    let mut notes = Vec::new();
    for (key, value) in fields {
        let value = match (key.as_str(), value) {
            ("title" | "examples" | "definitions", _) => continue,
            ("$ref" | "$dynamicRef" | "$recursiveRef", reference) => {
                if let Some(reference) = reference.as_str() {
                    notes.push(format!("has the unknown schema {reference}"));
                }
                continue;
            }
            // References are replaced before, so names and definitions have no use.
            (key, _) if key.starts_with('$') => continue,
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
            // The value of `const` is the only one that is accepted.
            ("enum", _) if fields.contains_key("const") => continue,
            ("const", value) => {
                result.insert("enum".to_owned(), Value::Array(vec![value.clone()]));
                continue;
            }
            // Within these, a weaker schema would reject values that the schema accepts.
            ("not" | "if", schema) => {
                let mut is_changed = !schema.is_object();
                let schema = converted(schema, &mut is_changed);
                if is_changed {
                    notes.push(condition(key, fields));
                    continue;
                }
                schema
            }
            ("then" | "else", schema) => {
                let mut is_changed = false;
                match fields.get("if").filter(|condition| condition.is_object()) {
                    Some(condition) => converted(condition, &mut is_changed),
                    None => continue,
                };
                if is_changed {
                    continue;
                }
                converted(schema, is_weaker)
            }
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                let schemas = schemas
                    .iter()
                    .map(|(name, schema)| (name.clone(), converted(schema, is_weaker)));
                Value::Object(schemas.collect())
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter().map(|schema| converted(schema, is_weaker)).collect()
            }
            ("items" | "contains", schema) => converted(schema, is_weaker),
            (
                "additionalProperties"
                | "additionalItems"
                | "unevaluatedProperties"
                | "unevaluatedItems"
                | "propertyNames",
                schema @ Value::Object(_),
            ) => converted(schema, is_weaker),
            (_, value) => value.clone(),
        };
        result.insert(key.clone(), value);
    }
    if !notes.is_empty() {
        *is_weaker = true;
        let notes = notes.join(", ");
        let description = match result.get("description").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => format!("{text} ({notes})"),
            _ => notes,
        };
        result.insert("description".to_owned(), description.into());
    }
    Value::Object(result)
}

/// Returns the JSON of `not`, or of `if` with its `then` and `else`, as a note for the model.
fn condition(key: &str, fields: &Map<String, Value>) -> String {
    let keys: &[&str] = if key == "if" { &["if", "then", "else"] } else { &["not"] };
    let shown = keys.iter().filter_map(|key| Some(format!("{key}: {}", fields.get(*key)?)));
    shown.collect::<Vec<_>>().join(", ")
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
        // The schema of arguments has this type always.
        let mut found = accepted(&schema);
        found["type"] = json!("object");
        assert_eq!(found, expected);
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
    fn unresolved_reference_becomes_a_note() {
        for reference in ["#/$defs/None", "https://a.example/schema.json"] {
            let note = format!("has the unknown schema {reference}");
            check(
                json!({"type": "object", "properties": {
                    "a": {"$ref": reference, "description": "An a."}, "b": {"$ref": reference},
                }}),
                json!({"type": "object", "properties": {
                    "a": {"description": format!("An a. ({note})")}, "b": {"description": note},
                }}),
            );
        }
    }

    #[test]
    fn every_nested_schema_is_converted() {
        let date = || json!({"type": "string", "format": "date"});
        let shown = || json!({"type": "string", "description": "format: date"});
        for key in ["contains", "propertyNames", "additionalProperties", "unevaluatedItems"] {
            check(json!({ key: date() }), json!({ key: shown(), "type": "object" }));
        }
        check(
            json!({"dependentSchemas": {"format": date()}}),
            json!({"dependentSchemas": {"format": shown()}, "type": "object"}),
        );
        check(
            json!({"if": {"properties": {"a": {"const": 1}}}, "then": date(), "else": date()}),
            json!({
                "if": {"properties": {"a": {"enum": [1]}}}, "then": shown(), "else": shown(),
                "type": "object",
            }),
        );
        check(json!({"not": {"const": 1}}), json!({"not": {"enum": [1]}, "type": "object"}));
    }

    /// A condition that lost a keyword would hold for more values, and the schema would reject valid values.
    #[test]
    fn condition_with_a_rejected_keyword_becomes_a_note() {
        check(
            json!({"not": {"format": "date"}}),
            json!({"description": "not: {\"format\":\"date\"}", "type": "object"}),
        );
        check(
            json!({"if": {"format": "date"}, "then": {"minLength": 1}}),
            json!({
                "description": "if: {\"format\":\"date\"}, then: {\"minLength\":1}",
                "type": "object",
            }),
        );
        check(json!({"then": {"minLength": 1}}), json!({"type": "object"}));
        check(json!({"not": true}), json!({"description": "not: true", "type": "object"}));
    }

    #[test]
    fn constant_replaces_the_list_of_values() {
        for schema in [json!({"const": 1, "enum": [1, 2]}), json!({"enum": [1, 2], "const": 1})] {
            assert_eq!(accepted(&schema), json!({"enum": [1]}));
        }
    }
}
