//! Searches in a request's body, independent of the vendor's format.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Returns `true` if a string of a body contains a text.
pub(super) fn has_text(body: &Value, text: &str) -> bool {
    any(body, &mut |value| value.as_str().is_some_and(|found| found.contains(text)))
}

/// Returns `true` if a body contains a number.
pub(super) fn has_number(body: &Value, number: f64) -> bool {
    any(body, &mut |value| value.as_f64() == Some(number))
}

/// Returns `true` if a body contains a value with this order of fields, as JSON or as the text of a string.
pub(super) fn has_value(body: &Value, wanted: &Value) -> bool {
    // Values are equal in any order of their fields, but their texts are not.
    let wanted = wanted.to_string();
    let is_wanted = |found: &Value| {
        let found = found.to_string();
        found == wanted
    };
    any(body, &mut |value| {
        let inner = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        is_wanted(value) || inner.as_ref().is_some_and(is_wanted)
    })
}

fn any(value: &Value, wanted: &mut impl FnMut(&Value) -> bool) -> bool {
    wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| any(item, wanted)),
            Value::Object(fields) => fields.values().any(|field| any(field, wanted)),
            _ => false,
        }
}

/// Returns the bytes of a field of a body, as sent.
pub(super) fn field_text<'b>(body: &'b [u8], field: &str) -> Option<&'b str> {
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    fields.get(field).map(|value| value.get())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_at_any_depth() {
        let body = json!({"a": [{"b": "the text"}, 0.7], "c": "{\"y\":1,\"x\":2}"});
        assert!(has_text(&body, "text"));
        assert!(!has_text(&body, "b"));
        assert!(has_number(&body, 0.7));
        assert!(!has_number(&body, 0.699_999_988_079_071));
        assert!(has_value(&body, &json!({"y": 1, "x": 2})));
        assert!(!has_value(&body, &json!({"x": 2, "y": 1})));
        assert!(has_value(&body, &json!({"b": "the text"})));
    }

    #[test]
    fn a_field_keeps_its_bytes() {
        let body = br#"{"a": [1,  2], "b":"\u0041"}"#;
        assert_eq!(field_text(body, "a"), Some("[1,  2]"));
        assert_eq!(field_text(body, "b"), Some(r#""\u0041""#));
        assert_eq!(field_text(body, "c"), None);
    }
}
