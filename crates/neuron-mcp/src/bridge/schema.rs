//! Conversion of argument schemas into a form that model vendors accept.
//!
//! Vendors require an object schema at the root, with `type` and `properties`. Vendors parse every schema as JSON
//! Schema 2020-12 and ignore `$schema`. Some vendors reject a boolean in place of a property's schema. However, servers
//! also send schemas of older drafts, boolean schemas, or no schema.
//!
//! The converted schema accepts the same arguments. The only exception is draft 04, where 1.0 is not an integer.
//! Nothing is fetched, so [`refuses`] leaves out a tool with a `$ref` to another document.

use std::collections::HashSet;

use neuron_types::ToolDefinition;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// Returns the reason why the schemas of a tool of a server cannot be used. Returns `None` if the tool can be
/// used.
pub(super) fn refuses(definition: &ToolDefinition) -> Option<String> {
    let schemas = [Some(&definition.input_schema), definition.output_schema.as_ref()];
    if schemas.into_iter().flatten().any(needs_another_document) {
        return Some("its schema refers to another document, which is not fetched".to_owned());
    }
    let input_schema = cleaned(&definition.input_schema);
    let shown = ToolDefinition { input_schema, ..definition.clone() };
    let is_refused = shown.arguments_schema().is_err();
    is_refused.then(|| "its input schema describes no object".to_owned())
}

/// Returns `true` if a schema refers to a document outside of it. A bundled schema refers to its own parts by their ids.
fn needs_another_document(schema: &Value) -> bool {
    let mut ids = HashSet::new();
    anywhere_in(schema, &mut |part| {
        ids.extend(part.get("$id").and_then(Value::as_str).map(str::to_owned));
        false
    });
    let is_part = |address: &str| ids.contains(address.split('#').next().unwrap_or_default());
    anywhere_in(schema, &mut |part| addresses(part).any(|address| !is_part(address)))
}

/// Converts the JSON Schema of a tool's arguments into a form that all model vendors accept.
pub(crate) fn cleaned(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(false) => nothing(),
        // A missing or invalid schema accepts all arguments.
        _ => Object::new(),
    };
    // `$id` sets the base URI of references to other documents. Without such references, `$id` is not needed.
    if !anywhere(&schema, &mut refers_elsewhere) {
        schema.shift_remove("$id");
    }
    if let Some(translated) = translated(&schema) {
        schema = translated;
    }
    schema.shift_remove("$comment");
    Value::Object(as_object(schema))
}

/// Converts a schema to JSON Schema 2020-12. Returns `None` if this module cannot convert the schema, for example
/// because a subschema has an `$id` of its own.
fn translated(schema: &Object) -> Option<Object> {
    let is_part_for_itself = |part: &Object| {
        part.get("$id").and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'))
            || part.contains_key("$schema")
            || part.contains_key("$recursiveRef")
    };
    if schema.values().any(|value| anywhere_in(value, &mut |part| is_part_for_itself(part))) {
        return None;
    }
    let mut translated = schema.clone();
    let dialect = Dialect::of(schema);
    translated.shift_remove("$schema");
    if dialect == Dialect::Draft4 {
        translated.shift_remove("id");
    }
    clean(&mut translated, dialect);
    // A reference is a path in the schema. The conversion may have moved the part at that path.
    let translated = Value::Object(translated);
    let mut is_lost = |part: &Object| {
        let place =
            part.get("$ref").and_then(Value::as_str).and_then(|address| address.strip_prefix('#'));
        place.is_some_and(|place| place.starts_with('/') && translated.pointer(place).is_none())
    };
    if anywhere_in(&translated, &mut is_lost) {
        return None;
    }
    match translated {
        Value::Object(translated) => Some(translated),
        _ => None,
    }
}

/// Adds `type` and `properties` to the root of a schema if they are missing, because arguments are always an object.
/// Replaces a list of types that contains `object` by the type `object`.
fn as_object(schema: Object) -> Object {
    let mut object = Object::new();
    let takes_objects = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "object"),
        None | Some(Value::Null) => true,
        Some(_) => false,
    };
    if takes_objects {
        object.insert("type".to_owned(), json!("object"));
    }
    for (keyword, value) in schema {
        if !(takes_objects && keyword == "type") {
            object.insert(keyword, value);
        }
    }
    object.entry("properties").or_insert_with(|| json!({}));
    object
}

/// Returns a schema that rejects every value.
fn nothing() -> Object {
    [("not".to_owned(), json!({}))].into_iter().collect()
}

/// Versions of JSON Schema that this module distinguishes, from old to new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    /// Draft 04 and earlier, where `exclusiveMinimum` and `exclusiveMaximum` are booleans.
    Draft4,
    /// Draft 06, which has no `if`.
    Draft6,
    /// Draft 07, where all keywords beside a `$ref` are ignored, as in earlier drafts.
    Draft7,
    /// Draft 2019-09, where `items` may be a list, as in earlier drafts.
    Draft2019,
    /// Draft 2020-12, which is the default of MCP for a schema without `$schema` (MCP specification 2025-11-25, "JSON
    /// Schema Usage").
    Draft2020,
}

impl Dialect {
    /// Returns the version of JSON Schema that the keyword `$schema` names. Default: 2020-12.
    fn of(schema: &Object) -> Self {
        let name = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let says = |dialect: &str| name.contains(dialect);
        if says("draft-03") || says("draft-04") {
            Self::Draft4
        } else if says("draft-06") {
            Self::Draft6
        } else if says("draft-07") {
            Self::Draft7
        } else if says("2019-09") {
            Self::Draft2019
        } else {
            Self::Draft2020
        }
    }
}

/// Keywords whose value is a single schema.
const ONE: [&str; 11] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas. The value of `items` may also be a single schema.
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is a map from names to schemas. In `dependencies`, a name can also have a list of names instead
/// of a schema.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords for which model vendors accept `true` or `false` in place of a schema.
const MAY_BE_BOOLEAN: [&str; 3] =
    ["additionalProperties", "unevaluatedItems", "unevaluatedProperties"];

/// Keywords by the last version of JSON Schema that does not define them.
const NEWER: [(Dialect, &[&str]); 4] = [
    (Dialect::Draft4, &["const", "contains", "propertyNames"]),
    (Dialect::Draft6, &["else", "if", "then"]),
    (
        Dialect::Draft7,
        &[
            "dependentRequired",
            "dependentSchemas",
            "maxContains",
            "minContains",
            "unevaluatedItems",
            "unevaluatedProperties",
        ],
    ),
    (Dialect::Draft2019, &["$dynamicRef", "prefixItems"]),
];

/// Converts a schema and all of its subschemas to JSON Schema 2020-12. Replaces each boolean subschema by an equivalent
/// object. Only the keywords in [`MAY_BE_BOOLEAN`] keep a boolean.
fn clean(schema: &mut Object, dialect: Dialect) {
    // Some libraries write `null` for an empty list or map.
    for keyword in ["required", "properties"] {
        if schema.get(keyword) == Some(&Value::Null) {
            schema.shift_remove(keyword);
        }
    }
    // The dialect ignores keywords that it does not define, but 2020-12 would apply them.
    for (_, keywords) in NEWER.iter().filter(|(last, _)| dialect <= *last) {
        schema.retain(|keyword, _| !keywords.contains(&keyword.as_str()));
    }
    if dialect <= Dialect::Draft7 && schema.get("$ref").is_some_and(Value::is_string) {
        schema.retain(|keyword, _| STAYS_BESIDE_REF.contains(&keyword.as_str()));
    }
    exclusive_bound(schema, "exclusiveMinimum", "minimum");
    exclusive_bound(schema, "exclusiveMaximum", "maximum");
    list_of_items(schema, dialect);
    if dialect <= Dialect::Draft7 {
        dependencies(schema);
        anchor(schema);
    }
    for (keyword, value) in schema.iter_mut() {
        let keyword = keyword.as_str();
        match value {
            Value::Object(named) if NAMED.contains(&keyword) => {
                named.values_mut().for_each(|schema| clean_value(schema, dialect));
            }
            Value::Array(list) if LIST.contains(&keyword) => {
                list.iter_mut().for_each(|schema| clean_value(schema, dialect));
            }
            Value::Bool(_) if MAY_BE_BOOLEAN.contains(&keyword) => {}
            value if ONE.contains(&keyword) => clean_value(value, dialect),
            _ => {}
        }
    }
}

/// Converts a subschema of `dialect` to JSON Schema 2020-12. A boolean is replaced by an equivalent object.
fn clean_value(schema: &mut Value, dialect: Dialect) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = Value::Object(nothing()),
        Value::Object(schema) => clean(schema, dialect),
        _ => {}
    }
}

/// Keywords that stay beside a `$ref` when a schema of draft 07 or earlier is converted. All others are removed,
/// because these drafts ignore keywords beside a `$ref`. The keywords that stay do not restrict the valid values.
const STAYS_BESIDE_REF: [&str; 8] =
    ["$comment", "$defs", "$id", "$ref", "$schema", "definitions", "description", "title"];

/// Converts a boolean `exclusiveMinimum` or `exclusiveMaximum` of draft 04 to the number of 2020-12. `exclusive` is the
/// name of this keyword. `bound` is `minimum` or `maximum`.
fn exclusive_bound(schema: &mut Object, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = schema.get(exclusive) else { return };
    let limit = if *is_exclusive { schema.shift_remove(bound) } else { None };
    match limit {
        Some(limit) => schema.insert(exclusive.to_owned(), limit),
        None => schema.shift_remove(exclusive),
    };
}

/// Converts a list in `items` to `prefixItems`, and the `additionalItems` beside it to `items`. In versions before
/// 2020-12, `additionalItems` is the schema of the items after the list.
fn list_of_items(schema: &mut Object, dialect: Dialect) {
    if dialect < Dialect::Draft2020 || matches!(schema.get("items"), Some(Value::Array(_))) {
        let additional = schema.shift_remove("additionalItems");
        if let Some(Value::Array(_)) = schema.get("items") {
            let first = schema.shift_remove("items").unwrap_or_default();
            // An empty list has no effect. 2020-12 does not allow it.
            if first.as_array().is_some_and(|first| !first.is_empty()) {
                schema.insert("prefixItems".to_owned(), first);
            }
            if let Some(additional) = additional {
                schema.insert("items".to_owned(), additional);
            }
        }
    }
}

/// Splits `dependencies` into `dependentRequired` and `dependentSchemas`. Until draft 07, one keyword contains both
/// lists of names and schemas.
fn dependencies(schema: &mut Object) {
    let Some(Value::Object(dependencies)) = schema.shift_remove("dependencies") else { return };
    let (names, schemas): (Object, Object) =
        dependencies.into_iter().partition(|(_, value)| value.is_array());
    for (keyword, dependencies) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
        if !dependencies.is_empty() {
            schema.insert(keyword.to_owned(), Value::Object(dependencies));
        }
    }
}

/// Converts an `$id` that is only a fragment to `$anchor`. Until draft 07, such an `$id` has the meaning of `$anchor`.
fn anchor(schema: &mut Object) {
    let id = schema.get("$id").and_then(Value::as_str);
    if let Some(anchor) = id.and_then(|id| id.strip_prefix('#')).map(str::to_owned) {
        schema.shift_remove("$id");
        schema.insert("$anchor".to_owned(), json!(anchor));
    }
}

/// Returns `true` if this object has a `$ref`, `$dynamicRef` or `$recursiveRef` that is more than a fragment such as
/// `#/$defs/a`.
fn refers_elsewhere(schema: &Object) -> bool {
    addresses(schema).next().is_some()
}

/// Returns the references of an object that are more than a fragment such as `#/$defs/a`.
fn addresses(schema: &Object) -> impl Iterator<Item = &str> {
    let addresses = ["$ref", "$dynamicRef", "$recursiveRef"].map(|keyword| schema.get(keyword));
    let addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
    addresses.filter(|address| !address.starts_with('#'))
}

/// Returns `true` if `holds` returns `true` for any object in a schema, at any depth. Also searches objects that are
/// data, such as the value of `default`. A match in data makes the caller skip a conversion that would be possible.
fn anywhere(schema: &Object, holds: &mut impl FnMut(&Object) -> bool) -> bool {
    holds(schema) || schema.values().any(|value| anywhere_in(value, holds))
}

/// Returns `true` if `holds` returns `true` for any object in a JSON value, at any depth.
fn anywhere_in<F: FnMut(&Object) -> bool>(value: &Value, holds: &mut F) -> bool {
    match value {
        Value::Object(object) => anywhere(object, holds),
        Value::Array(list) => list.iter().any(|value| anywhere_in(value, holds)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
