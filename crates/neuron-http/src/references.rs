//! Replaces the references in a JSON Schema with their definitions ([`without_references`]).

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Returns a JSON Schema with each `$ref` replaced by its definition, for vendors that do not accept references. A
/// recursive reference becomes a schema that accepts any value.
///
/// If the definitions refer to each other so often that the result would be huge, only the outer references are
/// replaced.
///
/// # Example
///
/// ```
/// use neuron_http::without_references;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"home": {"$ref": "#/$defs/Address"}},
///     "$defs": {"Address": {"type": "string"}},
/// });
/// assert_eq!(
///     *without_references(&schema),
///     json!({"type": "object", "properties": {"home": {"type": "string"}}})
/// );
/// ```
#[must_use]
pub fn without_references(schema: &Value) -> Cow<'_, Value> {
    let Some(fields) = schema.as_object() else {
        return Cow::Borrowed(schema);
    };
    let Some(definitions) = DEFINITIONS.iter().find_map(|key| fields.get(*key)?.as_object()) else {
        return Cow::Borrowed(schema);
    };
    let resolved = DEPTHS.into_iter().find_map(|depth| {
        let mut references = References { definitions, open: Vec::new(), depth, left: MAX_OBJECTS };
        references.object(fields, &DEFINITIONS)
    });
    // Even depth 0 may exceed the maximum size. The schema is then sent unchanged.
    resolved.map_or(Cow::Borrowed(schema), Cow::Owned)
}

/// Maximum depths of nested references. Each depth is tried, in this order, until the resulting schema is small enough.
/// A definition that refers to others several times makes the schema grow exponentially with the depth. A foreign
/// server may send such a schema on purpose.
const DEPTHS: [usize; 6] = [32, 8, 4, 2, 1, 0];

/// Maximum number of JSON objects that the replaced references may add to a schema.
const MAX_OBJECTS: usize = 10_000;

/// Names of the schema fields that contain definitions. Schema generators use either name.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The state while the references of one schema are replaced.
struct References<'a> {
    definitions: &'a Map<String, Value>,
    /// Names of the definitions that are being inserted, from the outermost to the innermost.
    open: Vec<&'a str>,
    /// Maximum number of nested definitions.
    depth: usize,
    /// Number of JSON objects that replaced references may still add.
    left: usize,
}

impl<'a> References<'a> {
    /// Returns the schema without references. Returns `None` if the result would have too many objects.
    fn resolved(&mut self, schema: &'a Value) -> Option<Value> {
        match schema {
            Value::Object(fields) => self.object(fields, &[]),
            Value::Array(schemas) => schemas.iter().map(|schema| self.resolved(schema)).collect(),
            other => Some(other.clone()),
        }
    }

    /// Returns an object schema without references and without the fields in `but`. Returns `None` if the result would
    /// have too many objects.
    fn object(&mut self, fields: &'a Map<String, Value>, but: &[&str]) -> Option<Value> {
        // Only objects within definitions count, because only these multiply.
        if !self.open.is_empty() {
            self.left = self.left.checked_sub(1)?;
        }
        let mut result = Map::new();
        if let Some(name) = fields.get("$ref").and_then(Value::as_str).and_then(definition_name)
            && let Some(definition) = self.definitions.get(name)
            // A recursive reference is dropped. The schema without `$ref` accepts any value.
            && !self.open.contains(&name)
            && self.open.len() < self.depth
        {
            self.open.push(name);
            if let Value::Object(definition) = self.resolved(definition)? {
                result = definition;
            }
            self.open.pop();
        }
        // A field beside `$ref` is more specific than the same field of the definition, and replaces it.
        for (key, value) in fields {
            if key != "$ref" && !but.contains(&key.as_str()) {
                result.insert(key.clone(), self.resolved(value)?);
            }
        }
        Some(Value::Object(result))
    }
}

/// Returns the name of the definition in a reference such as `#/$defs/Name`. Returns `None` for any other reference.
fn definition_name(reference: &str) -> Option<&str> {
    let path = reference.strip_prefix("#/")?;
    DEFINITIONS.iter().find_map(|key| path.strip_prefix(key)?.strip_prefix('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        assert_eq!(*without_references(&schema), expected);
    }

    /// Each `$ref` in a schema must be replaced with its definition. Regression test. The server drops `$ref`, so
    /// models did not receive the schema of nested arguments.
    #[test]
    fn references_are_replaced_with_definitions() {
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
    fn recursive_schema_is_cut_off() {
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

    /// A schema must stay small even if its references multiply. Each definition in the test refers to the next
    /// definition twice, so the complete schema would have 2^40 objects. Regression test. Such a request was never
    /// sent.
    #[test]
    fn multiplying_references_stay_below_the_limit() {
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
        let text = without_references(&schema).to_string();
        let level = r#"{"type":"object","properties":{"a":"#;
        assert!(text.contains(&level.repeat(8)) && !text.contains("$ref"), "{}", text.len());
        assert!(text.len() < 1_000_000, "{}", text.len());
    }

    /// The stack must not grow with the length of a chain of references. A tool of a foreign server may have a chain of
    /// any length.
    #[test]
    fn long_chain_of_references_does_not_overflow_the_stack() {
        let link = |number| {
            let next = json!({"$ref": format!("#/$defs/D{}", number + 1)});
            (format!("D{number}"), json!({"properties": {"next": next}}))
        };
        let definitions: Map<_, _> = (0..100_000).map(link).collect();
        let schema = json!({"properties": {"D": {"$ref": "#/$defs/D0"}}, "$defs": definitions});
        let text = without_references(&schema).to_string();
        assert_eq!(text.matches("next").count(), 32);
    }

    /// A tool's property with the name `definitions` must be kept. It is not the schema field of the same name, which
    /// contains definitions and is removed.
    #[test]
    fn property_named_definitions_is_kept() {
        check(
            json!({
                "$ref": "#/$defs/Args",
                "$defs": {"Args": {"properties": {"definitions": {"type": "string"}, "x": {"$ref": "#/$defs/X"}}}, "X": {"type": "null"}},
            }),
            json!({"properties": {"definitions": {"type": "string"}, "x": {"type": "null"}}}),
        );
    }

    #[test]
    fn schema_without_references_is_unchanged() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        check(schema.clone(), schema);
    }
}
