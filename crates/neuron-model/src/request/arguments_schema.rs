//! Schemas of tool arguments in the form that all vendors accept.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::ToolDefinition;

impl ToolDefinition {
    /// Returns [`plain_schema`](Self::plain_schema) in the form that all vendors accept: the type of the root is
    /// `object`, and the root has no `oneOf`, `anyOf`, `allOf`, `not`, `enum`, `const` or `$ref`. A schema that has this
    /// form is returned unchanged.
    ///
    /// The properties of alternatives become properties of one object, and the description of the object lists the
    /// alternatives. The returned schema is then less strict than the original. Validate arguments with the original.
    ///
    /// # Errors
    ///
    /// [`NotAnObject`] if no JSON object is valid under the schema, because the arguments of a call are always an object.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::ToolDefinition;
    /// use serde_json::json;
    ///
    /// let tool: ToolDefinition = serde_json::from_value(json!({
    ///     "name": "draw",
    ///     "description": "",
    ///     "input_schema": { "oneOf": [
    ///         { "type": "object", "properties": { "circle": { "type": "number" } }, "required": ["circle"] },
    ///         { "type": "object", "properties": { "square": { "type": "number" } }, "required": ["square"] },
    ///     ] },
    /// }))?;
    /// assert_eq!(*tool.arguments_schema()?, json!({
    ///     "type": "object",
    ///     "properties": { "circle": { "type": "number" }, "square": { "type": "number" } },
    ///     "description": "One of: {circle}, {square}",
    /// }));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn arguments_schema(&self) -> Result<Cow<'_, Value>, NotAnObject> {
        let schema = self.plain_schema();
        if is_accepted(&schema) {
            return Ok(schema);
        }
        let mut reader = Reader { root: &schema, left: MAX_SCHEMAS };
        match reader.object(&schema, 0) {
            Some(object) => Ok(Cow::Owned(object.into_root(&schema))),
            None => Err(NotAnObject),
        }
    }
}

/// No JSON object is valid under the input schema of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its input schema describes no object, but arguments are always an object: use for example a struct with named fields"
)]
pub struct NotAnObject;

/// Keywords that vendors reject in the root.
const REJECTED: [&str; 7] = ["oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref"];

/// Names of the fields with definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Maximum number of schemas that are read. A foreign server may send alternatives that refer to each other.
const MAX_SCHEMAS: usize = 10_000;

/// Maximum depth of alternatives and references.
const MAX_DEPTH: usize = 16;

/// Maximum number of alternatives in a description.
const MAX_SHOWN: usize = 32;

/// Returns `true` if all vendors accept the schema.
fn is_accepted(schema: &Value) -> bool {
    let is_rejected = |key: &&str| schema.get(*key).is_some();
    schema.get("type").is_some_and(|kind| kind == "object") && !REJECTED.iter().any(is_rejected)
}

struct Reader<'s> {
    root: &'s Value,
    /// Number of schemas that may still be read.
    left: usize,
}

impl<'s> Reader<'s> {
    /// Returns the objects that are valid under a schema. Returns `None` if no object is.
    fn object(&mut self, schema: &'s Value, depth: usize) -> Option<Object> {
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(true) => return Some(Object::of(&Map::new())),
            _ => return None,
        };
        if !may_be_object(fields) {
            return None;
        }
        // What is nested too deeply, and what is too much, is left out, so that the result accepts it.
        let properties = fields.get("properties").and_then(Value::as_object);
        let cost = 1 + properties.map_or(0, Map::len);
        if depth > 0 && self.left < cost {
            self.left = 0;
            return Some(Object::of(&Map::new()));
        }
        let mut object = Object::of(fields);
        self.left = self.left.saturating_sub(cost);
        if depth == MAX_DEPTH || self.left == 0 {
            return Some(object);
        }
        let list = |key: &str| fields.get(key).and_then(Value::as_array);
        let target = fields.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|path| self.root.pointer(path.strip_prefix('#')?));
        for part in target.into_iter().chain(list("allOf").into_iter().flatten()) {
            object.restrict(self.object(part, depth + 1)?);
        }
        for key in ["oneOf", "anyOf"] {
            let Some(alternatives) = list(key).filter(|list| !list.is_empty()) else {
                continue;
            };
            let mut either: Option<Object> = None;
            for alternative in alternatives {
                let Some(alternative) = self.object(alternative, depth + 1) else {
                    continue;
                };
                match &mut either {
                    None => either = Some(alternative.alone()),
                    Some(either) => either.widen(alternative),
                }
            }
            object.restrict(either?);
        }
        Some(object)
    }
}

/// Returns `true` if a schema with these fields may accept an object, without its parts and alternatives.
fn may_be_object(fields: &Map<String, Value>) -> bool {
    let is_type = |kind: &Value| match kind {
        Value::String(kind) => kind == "object",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        _ => true,
    };
    let values = |key: &str| match (key, fields.get(key)) {
        (_, None) => true,
        ("enum", Some(Value::Array(values))) => values.iter().any(Value::is_object),
        (_, Some(value)) => value.is_object(),
    };
    fields.get("type").is_none_or(is_type) && values("enum") && values("const")
}

/// The objects that a schema accepts, or more than these.
struct Object {
    properties: Map<String, Value>,
    required: Vec<String>,
    /// Set if the object may have other properties.
    is_open: bool,
    /// The alternatives, for the description.
    alternatives: Vec<String>,
}

impl Object {
    /// Returns the objects of the own properties of a schema.
    fn of(fields: &Map<String, Value>) -> Self {
        let properties = fields.get("properties").and_then(Value::as_object);
        let required = fields.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        Self {
            properties: properties.cloned().unwrap_or_default(),
            required: required.map(str::to_owned).collect(),
            is_open: fields.get("additionalProperties") != Some(&Value::Bool(false))
                || fields.contains_key("patternProperties"),
            alternatives: Vec::new(),
        }
    }

    /// Returns the objects as the first of several alternatives.
    fn alone(mut self) -> Self {
        if self.alternatives.is_empty() {
            self.alternatives.push(self.shown());
        }
        self
    }

    /// Keeps the objects that `other` accepts too.
    fn restrict(&mut self, other: Self) {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(own) => {
                    let first = own.take();
                    *own = joined("allOf", first, schema);
                }
                None => drop(self.properties.insert(name, schema)),
            }
        }
        for name in other.required {
            if !self.required.contains(&name) {
                self.required.push(name);
            }
        }
        self.is_open &= other.is_open;
        self.add_alternatives(other.alternatives);
    }

    /// Adds the objects that `other` accepts.
    fn widen(&mut self, other: Self) {
        let other = other.alone();
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(own) => {
                    let first = own.take();
                    *own = either(first, schema);
                }
                None => drop(self.properties.insert(name, schema)),
            }
        }
        self.required.retain(|name| other.required.contains(name));
        self.is_open |= other.is_open;
        self.add_alternatives(other.alternatives);
    }

    /// Adds alternatives for the description, as many as it shows and one more.
    fn add_alternatives(&mut self, more: Vec<String>) {
        let room = (MAX_SHOWN + 1).saturating_sub(self.alternatives.len());
        self.alternatives.extend(more.into_iter().take(room));
    }

    /// Returns the properties for a description, such as `{kind: "circle", radius, color?}`.
    fn shown(&self) -> String {
        /// Maximum number of properties in a description of one alternative.
        const MOST: usize = 32;
        let property = |(name, schema): (&String, &Value)| match constant(schema) {
            Some(value) => format!("{name}: {value}"),
            None if self.required.contains(name) => name.clone(),
            None => format!("{name}?"),
        };
        let mut properties: Vec<_> = self.properties.iter().take(MOST).map(property).collect();
        if self.properties.len() > MOST {
            properties.push("…".to_owned());
        }
        format!("{{{}}}", properties.join(", "))
    }

    /// Returns the schema of the objects, with the other fields of `root`.
    fn into_root(self, root: &Value) -> Value {
        let mut fields = root.as_object().cloned().unwrap_or_default();
        fields.retain(|key, _| !REJECTED.contains(&key.as_str()));
        let mut notes = Vec::new();
        if self.alternatives.len() > 1 {
            let mut shown = self.alternatives;
            if let Some(last) = shown.get_mut(MAX_SHOWN) {
                "…".clone_into(last);
            }
            notes.push(format!("One of: {}", shown.join(", ")));
        }
        for key in ["not", "enum", "const"] {
            if let Some(value) = root.get(key) {
                notes.push(format!("{key}: {value}"));
            }
        }
        let properties = Value::Object(self.properties);
        let others = fields.iter().filter(|(key, _)| !DEFINITIONS.contains(&key.as_str()));
        let is_referring =
            refers(&properties) || others.into_iter().any(|(_, value)| refers(value));
        fields.insert("type".to_owned(), "object".into());
        fields.insert("properties".to_owned(), properties);
        match self.required.is_empty() {
            true => drop(fields.remove("required")),
            false => drop(fields.insert("required".to_owned(), self.required.into())),
        }
        match self.is_open {
            true if fields.get("additionalProperties") == Some(&Value::Bool(false)) => {
                fields.remove("additionalProperties");
            }
            true => {}
            false => drop(fields.insert("additionalProperties".to_owned(), false.into())),
        }
        // The references of the root are replaced, and some clients of vendors know no definitions.
        if !is_referring {
            fields.retain(|key, _| !DEFINITIONS.contains(&key.as_str()));
        }
        if !notes.is_empty() {
            let own = fields.get("description").and_then(Value::as_str).unwrap_or_default();
            let texts = [own].into_iter().filter(|text| !text.trim().is_empty());
            let texts: Vec<_> = texts.chain(notes.iter().map(String::as_str)).collect();
            let text = texts.join("\n");
            fields.insert("description".to_owned(), text.into());
        }
        fields.into()
    }
}

/// Returns `true` if a schema contains a reference.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("$ref")
                || fields.contains_key("$dynamicRef")
                || fields.values().any(refers)
        }
        Value::Array(schemas) => schemas.iter().any(refers),
        _ => false,
    }
}

/// Returns the only value that a schema accepts.
fn constant(schema: &Value) -> Option<&Value> {
    match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => Some(value),
        (None, Some(values)) if values.len() == 1 => values.first(),
        _ => None,
    }
}

/// Returns a schema that accepts what `first` or `second` accepts.
fn either(first: Value, second: Value) -> Value {
    if first == second {
        return first;
    }
    // The name of an alternative is a constant in most schemas.
    if let (Some(mut values), Some(more)) = (only_values(&first), only_values(&second))
        && first.get("type") == second.get("type")
    {
        let new: Vec<Value> = more.into_iter().filter(|value| !values.contains(value)).collect();
        values.extend(new);
        let mut all = Map::new();
        if let Some(kind) = first.get("type") {
            all.insert("type".to_owned(), kind.clone());
        }
        all.insert("enum".to_owned(), values.into());
        return all.into();
    }
    joined("anyOf", first, second)
}

/// Returns a schema with both schemas in the list `key`. A schema that consists of such a list gets one more, so that many
/// schemas are not nested in each other.
fn joined(key: &str, first: Value, second: Value) -> Value {
    if first == second {
        return first;
    }
    match first {
        Value::Object(mut fields) if fields.len() == 1 && fields.contains_key(key) => {
            // Equal alternatives mostly follow each other, and a search through all of them takes too long.
            if let Some(Value::Array(list)) = fields.get_mut(key)
                && list.last() != Some(&second)
            {
                list.push(second);
            }
            fields.into()
        }
        first => Value::Object(
            [(key.to_owned(), Value::Array(vec![first, second]))].into_iter().collect(),
        ),
    }
}

/// Returns the values of an enumeration without other keywords than its type.
fn only_values(schema: &Value) -> Option<Vec<Value>> {
    let fields = schema.as_object()?;
    if !fields.keys().all(|key| matches!(key.as_str(), "type" | "const" | "enum")) {
        return None;
    }
    match constant(schema) {
        Some(value) => Some(vec![value.clone()]),
        None => fields.get("enum")?.as_array().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(input_schema: Value) -> ToolDefinition {
        let tool = json!({ "name": "t", "description": "", "input_schema": input_schema });
        serde_json::from_value(tool).unwrap()
    }

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let tool = tool(schema);
        let found = tool.arguments_schema().unwrap();
        assert!(is_accepted(&found), "{found}");
        assert_eq!(*found, expected);
    }

    #[test]
    fn object_is_not_changed() {
        let schema = json!({
            "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
            "additionalProperties": { "type": "string" }, "$defs": {}, "minProperties": 1,
        });
        let tool = tool(schema.clone());
        assert!(matches!(tool.arguments_schema(), Ok(Cow::Borrowed(same)) if *same == schema));
    }

    #[test]
    fn schema_of_anything_becomes_an_object() {
        let object = json!({ "type": "object", "properties": {} });
        for schema in [json!({}), json!(true), json!({ "type": ["null", "object"] })] {
            check(schema, object.clone());
        }
        check(
            json!({ "properties": { "a": {} }, "required": ["a"], "description": "d" }),
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "description": "d" }),
        );
    }

    #[test]
    fn other_types_are_errors() {
        let string = json!({ "type": "string", "enum": ["Up", "Down"] });
        for schema in [
            json!(false),
            json!({ "type": "array", "items": {} }),
            json!({ "type": ["string", "null"] }),
            json!({ "enum": ["a", 1] }),
            json!({ "const": 1 }),
            json!({ "oneOf": [string, { "type": "integer" }] }),
            json!({ "allOf": [{ "type": "object" }, string] }),
            json!({ "$ref": "#/$defs/A", "$defs": { "A": string } }),
        ] {
            assert_eq!(tool(schema.clone()).arguments_schema(), Err(NotAnObject), "{schema}");
        }
    }

    /// The forms that `schemars` generates for enums.
    #[test]
    fn alternatives_become_one_object() {
        let point = json!({ "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"] });
        check(
            json!({
                "oneOf": [
                    { "type": "object", "properties": { "go": { "$ref": "#/$defs/P" } },
                      "required": ["go"], "additionalProperties": false },
                    { "type": "object", "properties": { "say": { "type": "string" } },
                      "required": ["say"], "additionalProperties": false },
                    // A call cannot have this value as its arguments.
                    { "type": "string", "const": "stop" },
                ],
                "description": "What to do.",
                "$defs": { "P": point },
            }),
            json!({
                "description": "What to do.\nOne of: {go}, {say}",
                "$defs": { "P": point },
                "type": "object",
                "properties": { "go": { "$ref": "#/$defs/P" }, "say": { "type": "string" } },
                "additionalProperties": false,
            }),
        );
        let tagged = |kind: &str, rest: Value| {
            let mut fields = rest;
            fields["properties"]["kind"] = json!({ "type": "string", "const": kind });
            fields["type"] = json!("object");
            let required = fields["required"].as_array_mut().unwrap();
            required.push(json!("kind"));
            fields
        };
        check(
            json!({ "anyOf": [
                tagged("go", json!({ "properties": { "x": { "type": "integer" } }, "required": ["x"] })),
                tagged("say", json!({ "properties": { "x": { "type": "string" } }, "required": [] })),
                tagged("run", json!({ "properties": { "x": { "type": "string" } }, "required": [] })),
            ] }),
            json!({
                "type": "object",
                "properties": {
                    "x": { "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                    "kind": { "type": "string", "enum": ["go", "say", "run"] },
                },
                "required": ["kind"],
                "description": "One of: {x, kind: \"go\"}, {x?, kind: \"say\"}, {x?, kind: \"run\"}",
            }),
        );
    }

    #[test]
    fn parts_and_references_are_joined() {
        check(
            json!({
                "$ref": "#/definitions/A",
                "definitions": { "A": { "properties": { "a": {} }, "required": ["a"] } },
                "allOf": [
                    { "properties": { "a": { "minLength": 1 }, "b": {} }, "additionalProperties": false },
                    { "anyOf": [{ "required": ["b"] }, { "properties": { "c": {} } }] },
                ],
                "not": { "required": ["b", "c"] },
            }),
            json!({
                "type": "object",
                "properties": { "a": { "allOf": [{}, { "minLength": 1 }] }, "b": {}, "c": {} },
                "required": ["a"],
                "additionalProperties": false,
                "description": "One of: {}, {c?}\nnot: {\"required\":[\"b\",\"c\"]}",
            }),
        );
    }

    #[test]
    fn schemas_of_hostile_servers_are_bounded() {
        let own = json!({ "$ref": "#" });
        let found = tool(json!({ "anyOf": vec![own.clone(); 50], "properties": { "a": {} } }));
        let found = found.arguments_schema().unwrap();
        assert!(is_accepted(&found) && found["properties"] == json!({ "a": {} }));
        assert!(found["description"].as_str().unwrap().len() < 1_000);
        // Many parts with the same property are not nested in each other.
        let part = |length: usize| json!({ "properties": { "a": { "minLength": length } } });
        let wide: Vec<Value> = (0..20_000).map(part).collect();
        let found = tool(json!({ "properties": { "a": {} }, "allOf": wide }));
        let found = found.arguments_schema().unwrap().into_owned();
        assert!(found["properties"]["a"]["allOf"].as_array().unwrap().len() > 1_000);
        let names = (0..1_000).map(|name| (name.to_string(), json!({})));
        let many: Map<String, Value> = names.collect();
        let own = json!({ "$ref": "#" });
        let found = tool(json!({ "anyOf": vec![own; 50], "properties": many }));
        assert!(found.arguments_schema().unwrap()["description"].to_string().len() < 100_000);
        let deep = (0..120).fold(json!({}), |inner, _| json!({ "allOf": [inner] }));
        check(deep, json!({ "type": "object", "properties": {} }));
        let missing = json!({ "$ref": "https://example.com/schema.json" });
        check(missing, json!({ "type": "object", "properties": {} }));
    }

    #[test]
    fn options_are_not_a_part_of_the_schema() {
        let tool = tool(json!({ "anyOf": [{}] })).with_vendor_field("v", "f", 1);
        let schema = tool.arguments_schema().unwrap();
        assert_eq!(*schema, json!({ "type": "object", "properties": {} }));
    }
}
