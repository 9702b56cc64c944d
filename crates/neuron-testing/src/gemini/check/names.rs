//! Field names in snake case. The JSON format of protocol buffers accepts them, and Google's client for Python sends
//! some.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::wording::Wording;
use crate::shape::{Wording as _, words};

/// Fields whose values have names of the caller.
const OPAQUE: [&str; 10] = [
    "args",
    "response",
    "parametersJsonSchema",
    "responseJsonSchema",
    "jsonSchema",
    "labels",
    "default",
    "example",
    "partMetadata",
    "partialArgs",
];

/// Fields whose values are maps from names of the caller to schemas.
const MAPS: [&str; 2] = ["properties", "defs"];

/// Converts the names of known fields from snake case to camel case. Unknown names stay as they are, so that an error
/// quotes them as they were sent.
pub(super) fn in_camel_case(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(in_camel_case).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let camel = camel_case(name);
                let name = if KNOWN.contains(&camel) { camel } else { name.clone() };
                let value = match (name.as_str(), value) {
                    (name, value) if OPAQUE.contains(&name) => value.clone(),
                    (name, Value::Object(map)) if MAPS.contains(&name) => {
                        let entry =
                            |(key, value): (&String, _)| (key.clone(), in_camel_case(value));
                        Value::Object(map.iter().map(entry).collect())
                    }
                    (_, value) => in_camel_case(value),
                };
                (name, value)
            });
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The names of all fields in `shapes.json`.
static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut known = HashSet::new();
    add_names(Wording.shapes(), &mut known);
    known
});

fn add_names(shape: &Value, known: &mut HashSet<String>) {
    known.extend(words(shape, "unchecked").map(str::to_owned));
    for (name, kind) in shape.as_object().into_iter().flatten() {
        known.insert(name.clone());
        add_names(kind, known);
    }
}

fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut is_start = false;
    for c in name.chars() {
        match c {
            '_' if !camel.is_empty() => is_start = true,
            c if is_start => {
                camel.push(c.to_ascii_uppercase());
                is_start = false;
            }
            c => camel.push(c),
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_known_names_of_fields_are_converted() {
        let sent = json!({
            "system_instruction": {"parts": [{"thought_signature": "a", "my_field": 1}]},
            "tools": [{"function_declarations": [{
                "parameters": {"properties": {"max_items": {"max_items": 2, "default": {"a_b": 1}}}},
                "parameters_json_schema": {"any_of": []},
            }]}],
            "contents": [{"parts": [{"function_call": {"args": {"function_call": 1}}}]}],
            "topP": 1,
        });
        let expected = json!({
            "systemInstruction": {"parts": [{"thoughtSignature": "a", "my_field": 1}]},
            "tools": [{"functionDeclarations": [{
                "parameters": {"properties": {"max_items": {"maxItems": 2, "default": {"a_b": 1}}}},
                "parametersJsonSchema": {"any_of": []},
            }]}],
            "contents": [{"parts": [{"functionCall": {"args": {"function_call": 1}}}]}],
            "topP": 1,
        });
        assert_eq!(in_camel_case(&sent), expected);
    }
}
