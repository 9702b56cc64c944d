//! Field names in snake case. The JSON format of protocol buffers accepts them, and Google's client for Python sends
//! some.

use serde_json::Value;

/// Fields whose values have names of the caller.
const OPAQUE: &str = "args response parametersJsonSchema responseJsonSchema jsonSchema labels default example \
                      partMetadata partialArgs";

/// Fields whose values are maps from names of the caller to schemas.
const MAPS: &str = "properties defs";

/// Converts the names of fields from snake case to camel case.
pub(super) fn in_camel_case(value: &Value) -> Value {
    converted(value, true)
}

/// Converts a value. Unless `has_fields`, the names in the value itself are the caller's.
fn converted(value: &Value, has_fields: bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(in_camel_case).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let name = if has_fields { camel_case(name) } else { name.clone() };
                let is_in = |names: &str| has_fields && names.split(' ').any(|it| it == name);
                let value = match is_in(OPAQUE) {
                    true => value.clone(),
                    false => converted(value, !is_in(MAPS)),
                };
                (name, value)
            });
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let mut letters = word.chars();
        let start = letters.next().map(|first| first.to_ascii_uppercase());
        camel.chars().chain(start).chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_names_of_fields_are_converted() {
        let sent = json!({
            "system_instruction": {"parts": [{"thought_signature": "a"}]},
            "tools": [{"function_declarations": [{
                "parameters": {"properties": {"max_items": {"max_items": 2, "default": {"a_b": 1}}}},
                "parameters_json_schema": {"any_of": []},
            }]}],
            "contents": [{"parts": [{"function_call": {"args": {"function_call": 1}}}]}],
            "topP": 1,
        });
        let expected = json!({
            "systemInstruction": {"parts": [{"thoughtSignature": "a"}]},
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
