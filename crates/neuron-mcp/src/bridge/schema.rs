//! Schemas of arguments, in a form that vendors take.
//!
//! Vendors want an object at the top, with `type` and `properties`, and read it as JSON Schema 2020-12, whatever
//! `$schema` says. Some read no boolean where a property's schema should be. Servers send what their library
//! made: other drafts, booleans, nothing at all.
//!
//! Which arguments are valid does not change (but for draft 04, in which 1.0 is no integer), and nothing is
//! fetched: a `$ref` to another document stays.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// A schema of arguments in the form that vendors take.
pub(crate) fn cleaned(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(false) => nothing(),
        // No schema at all says nothing.
        _ => Object::new(),
    };
    if !anywhere(&schema, &mut refers_elsewhere) {
        schema.shift_remove("$id");
    }
    if let Some(translated) = translated(&schema) {
        schema = translated;
    }
    schema.shift_remove("$comment");
    Value::Object(as_object(schema))
}

/// Converts a schema to JSON Schema 2020-12. `None` if this module cannot convert it.
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
    // References name places, and something there may stand elsewhere now.
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

/// Adds missing `type` and `properties`, because arguments are always an object.
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

/// The schema of which nothing is an instance.
fn nothing() -> Object {
    [("not".to_owned(), json!({}))].into_iter().collect()
}

/// The versions of JSON Schema, as far as they differ for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dialect {
    /// Until 04 bounds are exclusive by a boolean.
    Draft4,
    /// It has no `if`.
    Draft6,
    /// Until 07 a `$ref` is all that counts of its schema.
    Draft7,
    /// Until 2019-09 `items` may be a list.
    Draft2019,
    /// The protocol's own if nothing else is said (MCP specification 2025-11-25, "JSON Schema Usage").
    Draft2020,
}

impl Dialect {
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

/// Keywords whose value is one schema.
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
/// Keywords whose value is a list of schemas. `items` may be one.
const LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value is schemas by name. Those of `dependencies` may be lists of names.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords of [`ONE`] in which vendors know booleans.
const MAY_BE_BOOLEAN: [&str; 3] =
    ["additionalProperties", "unevaluatedItems", "unevaluatedProperties"];

/// Keywords that are newer than a dialect and those before it.
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

/// Writes a schema, and all in it, as JSON Schema 2020-12 without booleans in place of schemas.
fn clean(schema: &mut Object, dialect: Dialect) {
    // Some languages write an empty list so.
    for keyword in ["required", "properties"] {
        if schema.get(keyword) == Some(&Value::Null) {
            schema.shift_remove(keyword);
        }
    }
    // What a dialect does not know says nothing in it.
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

fn clean_value(schema: &mut Value, dialect: Dialect) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = Value::Object(nothing()),
        Value::Object(schema) => clean(schema, dialect),
        _ => {}
    }
}

/// Keywords beside a `$ref` that are not ignored until draft 07, or that do not restrict the valid values.
const STAYS_BESIDE_REF: [&str; 8] =
    ["$comment", "$defs", "$id", "$ref", "$schema", "definitions", "description", "title"];

/// Until draft 04 a boolean says that a bound is exclusive.
fn exclusive_bound(schema: &mut Object, exclusive: &str, bound: &str) {
    let Some(Value::Bool(is_exclusive)) = schema.get(exclusive) else { return };
    let limit = if *is_exclusive { schema.shift_remove(bound) } else { None };
    match limit {
        Some(limit) => schema.insert(exclusive.to_owned(), limit),
        None => schema.shift_remove(exclusive),
    };
}

/// Until 2019-09 `items` may be a list, and `additionalItems` is what follows.
fn list_of_items(schema: &mut Object, dialect: Dialect) {
    if dialect < Dialect::Draft2020 || matches!(schema.get("items"), Some(Value::Array(_))) {
        let additional = schema.shift_remove("additionalItems");
        if let Some(Value::Array(_)) = schema.get("items") {
            let first = schema.shift_remove("items").unwrap_or_default();
            // An empty list, which 2020-12 does not allow, says nothing.
            if first.as_array().is_some_and(|first| !first.is_empty()) {
                schema.insert("prefixItems".to_owned(), first);
            }
            if let Some(additional) = additional {
                schema.insert("items".to_owned(), additional);
            }
        }
    }
}

/// Until draft 07 there is one keyword for names and for schemas that others depend on.
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

/// Converts a `$id` that is only a fragment, which until draft 07 had the meaning of `$anchor`.
fn anchor(schema: &mut Object) {
    let id = schema.get("$id").and_then(Value::as_str);
    if let Some(anchor) = id.and_then(|id| id.strip_prefix('#')).map(str::to_owned) {
        schema.shift_remove("$id");
        schema.insert("$anchor".to_owned(), json!(anchor));
    }
}

/// Returns `true` if a schema refers to itself by its own URI, or to another document.
fn refers_elsewhere(schema: &Object) -> bool {
    let addresses = ["$ref", "$dynamicRef", "$recursiveRef"].map(|keyword| schema.get(keyword));
    let mut addresses = addresses.into_iter().flatten().filter_map(Value::as_str);
    addresses.any(|address| !address.starts_with('#'))
}

/// Returns `true` if `holds` is true for an object anywhere in a schema. Objects that are data count too, so that a
/// schema may be converted less than possible.
fn anywhere(schema: &Object, holds: &mut impl FnMut(&Object) -> bool) -> bool {
    holds(schema) || schema.values().any(|value| anywhere_in(value, holds))
}

fn anywhere_in<F: FnMut(&Object) -> bool>(value: &Value, holds: &mut F) -> bool {
    match value {
        Value::Object(object) => anywhere(object, holds),
        Value::Array(list) => list.iter().any(|value| anywhere_in(value, holds)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
