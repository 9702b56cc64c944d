//! Changes to JSON objects.

use serde_json::Value;

/// Sets fields of an object.
pub(crate) fn merge(mut object: Value, fields: Value) -> Value {
    if let (Value::Object(object), Value::Object(fields)) = (&mut object, fields) {
        object.extend(fields);
    }
    object
}
