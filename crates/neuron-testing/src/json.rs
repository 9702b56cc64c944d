//! Helpers that change JSON objects.

use serde_json::Value;

/// Sets every field of `fields` in `object`, and returns `object`. Replaces fields of the same name.
pub(crate) fn merge(mut object: Value, fields: Value) -> Value {
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}

/// Removes the fields of an object whose value is null, and returns the object.
pub(crate) fn sparse(mut object: Value) -> Value {
    if let Value::Object(object) = &mut object {
        object.retain(|_, value| !value.is_null());
    }
    object
}
