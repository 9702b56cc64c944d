//! Correction of arguments that models often write in a wrong form.

use std::cell::Cell;

use serde_json::{Number, Value};

use crate::ToolDefinition;
use crate::base::long_integers;

impl ToolDefinition {
    /// Corrects the arguments of a call where the input schema leaves no doubt. Returns `true` if it changed them.
    ///
    /// - A text that holds an object or an array, where the schema allows the object or the array and no text.
    /// - A number such as `1.0` where the schema allows integers and no other numbers.
    ///
    /// Correct the arguments before policies, hooks and validators see the call.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::ToolDefinition;
    /// use serde_json::json;
    ///
    /// let tool: ToolDefinition = serde_json::from_value(json!({
    ///     "name": "delete",
    ///     "description": "",
    ///     "input_schema": {
    ///         "type": "object",
    ///         "properties": { "paths": { "type": "array", "items": { "type": "string" } } },
    ///     },
    /// }))?;
    /// let mut input = json!({ "paths": "[\"a\", \"b\"]" });
    /// assert!(tool.correct_arguments(&mut input));
    /// assert_eq!(input, json!({ "paths": ["a", "b"] }));
    /// # Ok::<_, serde_json::Error>(())
    /// ```
    pub fn correct_arguments(&self, input: &mut Value) -> bool {
        // The schema is not read for the usual arguments.
        if !has_candidate(input, 0) {
            return false;
        }
        let (schema, left) = (&self.input_schema, &Cell::new(MAX_SCHEMAS));
        let schema = Schema { schema, root: schema, left };
        // A corrected value may decide which alternative is meant.
        let passes = (0..MAX_PASSES).take_while(|_| correct(input, schema, 0));
        passes.count() > 0
    }
}

/// Maximum depth of arguments, references and alternatives that are corrected.
const MAX_DEPTH: usize = 32;

/// Maximum number of passes over the arguments.
const MAX_PASSES: usize = 4;

/// Maximum number of schemas that are read. A foreign server may send alternatives that refer to each other.
const MAX_SCHEMAS: usize = 10_000;

/// The largest number up to which all integers have an exact value as a floating-point number.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

/// A schema, and the root that its references refer to.
#[derive(Clone, Copy)]
struct Schema<'s> {
    schema: &'s Value,
    root: &'s Value,
    /// Number of schemas that may still be read.
    left: &'s Cell<usize>,
}

/// The types that a schema allows.
#[derive(Clone, Copy, PartialEq, Default)]
struct Types {
    object: bool,
    array: bool,
    string: bool,
    integer: bool,
    number: bool,
    other: bool,
}

impl Types {
    const ANY: Self =
        Self { object: true, array: true, string: true, integer: true, number: true, other: true };

    fn named(name: &str) -> Self {
        let none = Self::default();
        match name {
            "object" => Self { object: true, ..none },
            "array" => Self { array: true, ..none },
            "string" => Self { string: true, ..none },
            "integer" => Self { integer: true, ..none },
            "number" => Self { number: true, ..none },
            _ => Self { other: true, ..none },
        }
    }

    fn of(value: &Value) -> Self {
        Self::named(match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Bool(_) | Value::Null => "",
        })
    }

    fn or(self, other: Self) -> Self {
        Self {
            object: self.object || other.object,
            array: self.array || other.array,
            string: self.string || other.string,
            integer: self.integer || other.integer,
            number: self.number || other.number,
            other: self.other || other.other,
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            object: self.object && other.object,
            array: self.array && other.array,
            string: self.string && other.string,
            integer: self.integer && (other.integer || other.number)
                || self.number && other.integer,
            number: self.number && other.number,
            other: self.other && other.other,
        }
    }

    fn any(types: impl Iterator<Item = Self>) -> Self {
        types.fold(Self::default(), Self::or)
    }
}

impl<'s> Schema<'s> {
    fn at(self, schema: &'s Value) -> Self {
        Self { schema, ..self }
    }

    /// Counts the bytes of a text that is parsed. Returns `false` if no more may be parsed.
    fn may_parse(self, bytes: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(bytes / 1024));
        left > 0
    }

    /// Counts a schema that is read. Returns `false` if no more may be read.
    fn may_read(self, depth: usize) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0 && depth <= MAX_DEPTH
    }

    fn list(self, key: &str) -> impl Iterator<Item = Self> + use<'s> {
        let list = self.schema.get(key).and_then(Value::as_array);
        list.into_iter().flatten().map(move |schema| self.at(schema))
    }

    /// Returns the schemas that a value must satisfy too: the target of the reference, and the parts of `allOf`.
    fn parts(self) -> impl Iterator<Item = Self> + use<'s> {
        let target = self.schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|path| self.root.pointer(path.strip_prefix('#')?));
        target.map(|schema| self.at(schema)).into_iter().chain(self.list("allOf"))
    }

    fn alternatives(self) -> impl Iterator<Item = Self> + use<'s> {
        self.list("oneOf").chain(self.list("anyOf"))
    }

    /// Returns the types of the values that the schema allows.
    fn types(self, depth: usize) -> Types {
        if !self.may_read(depth) {
            return Types::ANY;
        }
        let own = match self.schema.get("type") {
            Some(Value::String(name)) => Types::named(name),
            Some(Value::Array(names)) => {
                Types::any(names.iter().filter_map(Value::as_str).map(Types::named))
            }
            _ => Types::ANY,
        };
        let own = match (self.schema.get("const"), self.schema.get("enum")) {
            (Some(value), _) => own.and(Types::of(value)),
            (None, Some(Value::Array(values))) => own.and(Types::any(values.iter().map(Types::of))),
            _ => own,
        };
        let own = self.parts().fold(own, |own, part| own.and(part.types(depth + 1)));
        ["oneOf", "anyOf"].into_iter().fold(own, |own, key| match self.list(key).next() {
            Some(_) => own.and(Types::any(self.list(key).map(|it| it.types(depth + 1)))),
            None => own,
        })
    }

    /// Returns `true` if an object or an array may be a value of this alternative.
    fn may_be(self, value: &Value, depth: usize) -> bool {
        let (types, found) = (self.types(depth), Types::of(value));
        if types.and(found) != found {
            return false;
        }
        let Value::Object(fields) = value else { return true };
        let required = self.schema.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let is_other = |(name, schema): (&String, &Value)| {
            let (constant, value) = (schema.get("const"), fields.get(name));
            constant.is_some() && value.is_some() && constant != value
        };
        required.all(|name| fields.contains_key(name))
            && !properties.into_iter().flatten().any(is_other)
    }

    /// Calls `visit` with the schema and all schemas that the object or array `value` must satisfy too. Alternatives count
    /// only if a single one is possible.
    fn each(self, value: &Value, depth: usize, visit: &mut impl FnMut(Self)) {
        if !self.may_read(depth) {
            return;
        }
        visit(self);
        self.parts().for_each(|part| part.each(value, depth + 1, visit));
        let mut possible = self.alternatives().filter(|it| it.may_be(value, depth + 1));
        if let (Some(only), None) = (possible.next(), possible.next()) {
            only.each(value, depth + 1, visit);
        }
    }
}

/// Returns `true` if a part of a value has a form that [`correct`] changes for some schema.
fn has_candidate(value: &Value, depth: usize) -> bool {
    match value {
        _ if depth > MAX_DEPTH => false,
        Value::String(text) => is_container(text) || long_integers::is_long(text),
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(|item| has_candidate(item, depth + 1)),
        Value::Object(fields) => fields.values().any(|field| has_candidate(field, depth + 1)),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Returns `true` if a text may hold an object or an array.
fn is_container(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Corrects a value. Returns `true` if it changed the value.
fn correct(value: &mut Value, schema: Schema<'_>, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let mut is_changed = false;
    match value {
        Value::String(text) if is_container(text) => {
            let types = schema.types(depth);
            // The text may be long, and several schemas may ask for it.
            let may_parse = !types.string && schema.may_parse(text.len());
            let read = may_parse.then(|| {
                let quoted = long_integers::quoted(text);
                serde_json::from_str(quoted.as_deref().unwrap_or(text)).ok()
            });
            let read: Option<Value> = read.flatten();
            let fits = |read: &Value| match read {
                Value::Object(_) => types.object,
                Value::Array(_) => types.array,
                _ => false,
            };
            if let Some(read) = read.filter(fits) {
                *value = read;
                is_changed = true;
            }
        }
        // An integer that does not fit into 64 bits is a text, see `ToolCall::parse_input`.
        Value::String(text) if long_integers::is_long(text) => {
            let types = schema.types(depth);
            if let (true, false, Ok(number)) = (types.number, types.string, text.parse::<f64>())
                && let Some(number) = Number::from_f64(number)
            {
                *value = number.into();
                return true;
            }
        }
        Value::Number(number) if number.is_f64() => {
            let types = schema.types(depth);
            let exact = number.as_f64().filter(|it| it.abs() <= MAX_EXACT);
            if types.integer
                && !types.number
                && let Some(exact) = exact.filter(|it| it.fract() == 0.0)
                && let Ok(integer) = format!("{exact:.0}").parse::<i64>()
            {
                *number = Number::from(integer);
                return true;
            }
        }
        _ => {}
    }
    if !value.is_object() && !value.is_array() {
        return is_changed;
    }
    let mut schemas = Vec::new();
    schema.each(value, depth, &mut |schema| schemas.push(schema));
    for schema in schemas {
        match value {
            Value::Object(fields) => {
                let properties = schema.schema.get("properties");
                let others = schema.schema.get("additionalProperties");
                // Which of the patterns a name matches is not known here.
                let has_patterns = schema.schema.get("patternProperties").is_some();
                let others = others.filter(|_| !has_patterns);
                for (name, value) in fields {
                    let own = properties.and_then(|properties| properties.get(name)).or(others);
                    if let Some(own) = own {
                        is_changed |= correct(value, schema.at(own), depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let first = schema.schema.get("prefixItems").and_then(Value::as_array);
                let others = schema.schema.get("items");
                for (index, value) in items.iter_mut().enumerate() {
                    if let Some(own) = first.and_then(|first| first.get(index)).or(others) {
                        is_changed |= correct(value, schema.at(own), depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn corrected(schema: &Value, input: &Value) -> Value {
        let tool = json!({ "name": "t", "description": "", "input_schema": schema });
        let tool: ToolDefinition = serde_json::from_value(tool).unwrap();
        let mut value = input.clone();
        let is_changed = tool.correct_arguments(&mut value);
        // Values are compared as texts, because `1` equals `1.0`.
        let [after, before] = [&value, input].map(Value::to_string);
        assert_eq!(is_changed, after != before);
        value
    }

    /// Checks a value of the property `a` with the schema `schema`.
    #[track_caller]
    fn check(schema: Value, input: Value, expected: Value) {
        let root = json!({
            "type": "object", "properties": { "a": schema },
            "$defs": {
                "Point": { "type": "object", "properties": { "x": { "type": "integer" } } },
                "Tree": { "type": "object", "properties": {
                    "left": { "$ref": "#/$defs/Tree" }, "size": { "type": "integer" } } },
                "Loop": { "$ref": "#/$defs/Loop" },
            },
        });
        let found = corrected(&root, &json!({ "a": input }))["a"].take();
        assert_eq!(found.to_string(), expected.to_string());
    }

    #[test]
    fn text_with_the_wanted_object_or_array_is_read() {
        let strings = json!({ "type": "array", "items": { "type": "string" } });
        check(strings.clone(), json!("[\"a\"]"), json!(["a"]));
        check(strings.clone(), json!(" [] "), json!([]));
        check(json!({ "type": "object" }), json!("{\"b\": 1}"), json!({ "b": 1 }));
        check(json!({ "type": ["array", "null"] }), json!("[1]"), json!([1]));
        let reference = json!({ "$ref": "#/$defs/Point" });
        check(reference.clone(), json!("{\"x\": 1.0}"), json!({ "x": 1 }));
        check(json!({ "anyOf": [reference, { "type": "null" }] }), json!("{}"), json!({}));
        check(json!({ "allOf": [{ "type": "object" }] }), json!("{}"), json!({}));
        let nested = json!({ "type": "array", "items": strings });
        check(nested, json!("[\"[\\\"a\\\"]\"]"), json!([["a"]]));
        let long = json!("[123456789012345678901]");
        let integers = json!({ "type": "array", "items": { "type": "integer" } });
        check(integers, long, json!(["123456789012345678901"]));
        let patterns = json!({
            "patternProperties": { "^t": { "type": "string" } },
            "additionalProperties": { "type": "object" },
        });
        check(patterns, json!({ "t": "{}" }), json!({ "t": "{}" }));
        let map = json!({ "type": "object", "additionalProperties": { "type": "array" } });
        check(map, json!({ "k": "[1]" }), json!({ "k": [1] }));
        let tuple = json!({ "prefixItems": [{ "type": "object" }], "items": { "type": "array" } });
        check(tuple, json!(["{}", "[]"]), json!([{}, []]));
    }

    #[test]
    fn text_that_may_be_meant_stays() {
        for schema in [
            json!({ "type": "string" }),
            json!({ "type": ["string", "array"] }),
            json!({ "anyOf": [{ "type": "array" }, { "type": "string" }] }),
            json!({ "anyOf": [{ "type": "array" }, {}] }),
            json!({}),
            json!(true),
            json!({ "enum": ["[]", 1] }),
            json!({ "$ref": "#/$defs/Unknown" }),
            json!({ "$ref": "#/$defs/Loop" }),
            // Not the wanted type.
            json!({ "type": "object" }),
            json!({ "type": "integer" }),
        ] {
            check(schema, json!("[]"), json!("[]"));
        }
        for text in ["[", "{\"a\"", "a, b", "", "[] []"] {
            check(json!({ "type": "array" }), json!(text), json!(text));
        }
    }

    #[test]
    fn whole_number_is_an_integer() {
        let integer = json!({ "type": "integer" });
        check(integer.clone(), json!(1.0), json!(1));
        check(integer.clone(), json!(-3.0), json!(-3));
        check(json!({ "anyOf": [integer, { "type": "null" }] }), json!(2.0), json!(2));
        check(json!({ "type": "array", "items": integer }), json!([1.0]), json!([1]));
        for value in
            [json!(1.5), json!(1e300), json!(9_007_199_254_740_994.0), json!(7), json!("1.0")]
        {
            check(integer.clone(), value.clone(), value);
        }
        check(json!({ "type": "number" }), json!(1.0), json!(1.0));
        let long = json!("100000000000000000000");
        check(json!({ "type": "number" }), long.clone(), json!(1e20));
        for schema in [integer, json!({ "type": "string" }), json!({})] {
            check(schema, long.clone(), long.clone());
        }
        check(json!({}), json!(1.0), json!(1.0));
    }

    #[test]
    fn alternative_is_chosen_by_its_constants_and_required_properties() {
        let variant = |kind: &str, schema: Value| {
            json!({
                "type": "object", "required": ["kind", "v"],
                "properties": { "kind": { "const": kind }, "v": schema },
            })
        };
        let list = variant("list", json!({ "type": "array" }));
        let schema = json!({ "oneOf": [list, variant("text", json!({ "type": "string" }))] });
        check(
            schema.clone(),
            json!({ "kind": "list", "v": "[]" }),
            json!({ "kind": "list", "v": [] }),
        );
        let text = json!({ "kind": "text", "v": "[]" });
        check(schema.clone(), text.clone(), text);
        let unknown = json!({ "v": "[]" });
        check(schema, unknown.clone(), unknown);
        // A corrected constant chooses the alternative.
        let numbered = |version: usize, schema: Value| json!({ "properties": { "version": { "const": version }, "v": schema } });
        let list = numbered(1, json!({ "type": "array" }));
        let schema = json!({
            "properties": { "version": { "type": "integer" } },
            "oneOf": [list, numbered(2, json!({ "type": "string" }))],
        });
        check(schema, json!({ "version": 1.0, "v": "[]" }), json!({ "version": 1, "v": [] }));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = (0..200).fold(json!({ "size": 1.0 }), |inner, _| json!({ "left": inner }));
        check(json!({ "$ref": "#/$defs/Tree" }), deep.clone(), deep);
        let text = (0..6).fold("[]".to_owned(), |inner, _| json!([inner]).to_string());
        let root = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } },
            "$defs": { "A": { "type": "array", "items": { "$ref": "#/$defs/A" } } } });
        assert_eq!(corrected(&root, &json!({ "a": text })), json!({ "a": [[[[[[[]]]]]]] }));
        // Alternatives that refer to themselves.
        let own = json!({ "$ref": "#" });
        let hostile = json!({ "anyOf": [own, own, own], "properties": { "a": own } });
        let input = json!({ "a": { "a": "{}" } });
        assert_eq!(corrected(&hostile, &input), input);
    }
}
