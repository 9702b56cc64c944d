//! Gemini's rules for the schemas in `parameters` and `responseSchema`. These are objects of a fixed set of fields, and
//! not JSON Schema, which has fields of its own (`parametersJsonSchema`, `responseJsonSchema`).

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, Wording, invalid_at, invalid_value};

/// The values of `type`. Gemini accepts them in lower case too.
const TYPES: [&str; 8] =
    ["TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"];

/// Checks a schema and its subschemas. One field that Gemini does not know fails the whole request.
pub(super) fn check_schema(schema: &Object<'_>) -> Result<(), ApiError> {
    schema.fits("schema")?;
    let kind = schema.str("type").map(str::to_ascii_uppercase);
    if let Some(other) = kind.as_deref().filter(|kind| !TYPES.contains(kind)) {
        let found = Value::from(other).to_string();
        return Err(invalid_value(&schema.at("type"), "TYPE_ENUM", &found));
    }
    if kind.as_deref() == Some("ARRAY") && !schema.has("items") {
        return Err(invalid_at(&schema.at("items"), "missing field."));
    }
    let properties = schema.object("properties");
    let is_defined =
        |name: &str| properties.as_ref().is_some_and(|fields| fields.fields.contains_key(name));
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut required = required.filter_map(Value::as_str).enumerate();
    if let Some((index, _)) = required.find(|(_, name)| !is_defined(name)) {
        let path = schema.at(&format!("required[{index}]"));
        return Err(invalid_at(&path, "property is not defined"));
    }
    // `fits` has checked the fields of these subschemas, but not the rules about several fields.
    let mut children = schema.objects("anyOf").into_iter().chain(schema.object("items"));
    children.try_for_each(|child| check_schema(&child))?;
    ["properties", "defs"].into_iter().filter_map(|key| schema.object(key)).try_for_each(check_map)
}

/// Checks the schemas in a map. Gemini's parser numbers the entries of a map.
fn check_map(map: Object<'_>) -> Result<(), ApiError> {
    map.fields.values().enumerate().try_for_each(|(index, child)| {
        check_schema(&Object::new(Wording, format!("{}[{index}].value", map.path), child)?)
    })
}
