//! Searches the JSON body of a request for values, whatever the vendor's format is.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Returns `true` if a string in `body`, at any depth, contains `text`. Keys are not searched.
pub(super) fn has_text(body: &Value, text: &str) -> bool {
    any(body, &mut |value| value.as_str().is_some_and(|found| found.contains(text)))
}

/// Returns `true` if `body` contains exactly this number, at any depth.
pub(super) fn has_number(body: &Value, number: f64) -> bool {
    any(body, &mut |value| value.as_f64() == Some(number))
}

/// Returns `true` if `body` contains `wanted` at any depth, with the same order of fields. `wanted` may also be in a
/// string that contains it as JSON text.
pub(super) fn has_value(body: &Value, wanted: &Value) -> bool {
    // Equal JSON values may have different orders of fields, so the texts are compared.
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

/// Returns `true` if `wanted` returns `true` for `value` or for a value inside it.
fn any(value: &Value, wanted: &mut impl FnMut(&Value) -> bool) -> bool {
    wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| any(item, wanted)),
            Value::Object(fields) => fields.values().any(|field| any(field, wanted)),
            _ => false,
        }
}

/// Returns the original JSON text of a top-level field. Returns `None` if the field is missing or the body is not JSON.
pub(super) fn field_text<'b>(body: &'b [u8], field: &str) -> Option<&'b str> {
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    fields.get(field).map(|value| value.get())
}
