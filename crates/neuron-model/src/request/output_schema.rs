//! The JSON Schema of a model's typed output, the ways to request such an output, and the validation of the output.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{JsonMismatch, ResponseFormat, ToolDefinition, read_json};

/// The JSON Schema of a type that a model returns as its output, with a validator of the output.
///
/// # Example
///
/// ```
/// use neuron_model::{OutputSchema, ResponseFormat, json_in};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct City {
///     name: String,
/// }
///
/// let schema = OutputSchema::of::<City>();
/// // A provider receives it as the response format or as a tool.
/// assert!(matches!(schema.response_format(), ResponseFormat::JsonSchema { strict: true, .. }));
/// let value = schema.check(json_in(r#"{"name": "Tokyo"}"#).unwrap()).unwrap();
/// assert_eq!(value["name"], "Tokyo");
/// schema.check(json_in("{}").unwrap()).unwrap_err();
/// ```
#[derive(Debug, Clone)]
pub struct OutputSchema {
    /// Name of the schema, which contains only characters that all providers accept.
    name: String,
    /// The JSON Schema of the output. If the output type is not an object, this is the schema of a wrapping object
    /// `{"value": …}`.
    schema: Value,
    /// Validates a model's output and returns it. If the output type is not an object, removes the wrapping object.
    check: fn(Value) -> Result<Value, JsonMismatch>,
}

impl OutputSchema {
    /// Creates the schema of a type for [`tool`](Self::tool) and [`response_format`](Self::response_format).
    ///
    /// Providers accept only schemas of objects. For any other type, the schema is wrapped so that the model returns an
    /// object `{"value": …}`. [`check`](Self::check) unwraps the value.
    #[must_use]
    pub fn of<T: DeserializeOwned + JsonSchema>() -> Self {
        let plain = Self::plain::<T>();
        if plain.schema.get("type").is_some_and(|kind| kind == "object") {
            return plain;
        }
        let mut generator = SchemaGenerator::default();
        let value = generator.subschema_for::<T>();
        // The references in the schema point to the root, so the definitions must be in the wrapping object.
        let definitions = generator.take_definitions(true);
        let mut schema = json!({
            "type": "object",
            "properties": { "value": value },
            "required": ["value"],
        });
        if let (Some(fields), false) = (schema.as_object_mut(), definitions.is_empty()) {
            fields.insert("$defs".into(), Value::Object(definitions));
        }
        Self { schema, check: unwrap::<T>, ..plain }
    }

    /// Creates the schema of a type without a wrapping object, for [`instructions`](Self::instructions).
    #[must_use]
    pub fn plain<T: DeserializeOwned + JsonSchema>() -> Self {
        // Providers accept only letters, digits, `_` and `-` in the name, and at most 64 of them.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = T::schema_name();
        let name = name.chars().take(64).map(|c| if is_plain(c) { c } else { '_' }).collect();
        Self { name, schema: schemars::schema_for!(T).into(), check: check::<T> }
    }

    /// Returns the definition of a tool whose arguments are the output. `rule` is appended to the description, and
    /// tells the model when to call the tool.
    #[must_use]
    pub fn tool(&self, name: impl Into<String>, rule: &str) -> ToolDefinition {
        let about = self.schema.get("description").and_then(Value::as_str).unwrap_or_default();
        ToolDefinition {
            name: name.into(),
            title: None,
            description: [about, rule].join("\n\n").trim_start().to_owned(),
            input_schema: self.schema.clone(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    /// Returns the response format for the output.
    ///
    /// If providers can enforce the schema, the format is strict. In a strict schema, objects require all their fields
    /// and allow no other fields. Otherwise the format is not strict and contains the original schema.
    #[must_use]
    pub fn response_format(&self) -> ResponseFormat {
        let form = enforceable(&self.schema);
        let strict = form.is_some();
        let schema = form.unwrap_or_else(|| self.schema.clone());
        ResponseFormat::JsonSchema { name: self.name.clone(), schema, strict }
    }

    /// Returns a text that instructs a model to return the output. The text contains the schema.
    #[must_use]
    pub fn instructions(&self) -> String {
        format!(
            "Give your final answer as one JSON value that fits the following JSON Schema, and write \
             nothing else in it:\n{}",
            self.schema
        )
    }

    /// Validates an output of the model and returns it as a value of the output type.
    ///
    /// If the output type is not an object, the model wraps the output in an object `{"value": …}`. This method unwraps
    /// it.
    ///
    /// # Errors
    ///
    /// The [`JsonMismatch`] if the output cannot be deserialised to the type.
    pub fn check(&self, value: Value) -> Result<Value, JsonMismatch> {
        (self.check)(value)
    }
}

/// Validates that `value` can be deserialised to the output type `T`, and returns `value` unchanged. Used for output
/// types that are objects and therefore not wrapped.
fn check<T: DeserializeOwned>(value: Value) -> Result<Value, JsonMismatch> {
    read_json::<T>(value.clone())?;
    Ok(value)
}

/// The object `{"value": …}`, which wraps an output whose type `T` is not an object.
#[derive(Deserialize)]
struct Wrapped<T> {
    #[serde(rename = "value")]
    _value: T,
}

/// Validates a wrapped output `{"value": …}` whose inner value has the output type `T`. Returns the inner value.
fn unwrap<T: DeserializeOwned>(value: Value) -> Result<Value, JsonMismatch> {
    read_json::<Wrapped<T>>(value.clone())?;
    Ok(value.get("value").cloned().unwrap_or_default())
}

/// JSON Schema keywords that [`enforceable`] removes, because they do not restrict the value.
const REMOVED: [&str; 7] =
    ["$schema", "$comment", "title", "examples", "deprecated", "readOnly", "writeOnly"];

/// JSON Schema keywords that providers do not enforce. [`enforceable`] removes them from the schema and states them in
/// the description.
const DESCRIBED: [&str; 13] = [
    "default",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
];

/// Returns the form of a schema that providers can enforce in their strict modes.
///
/// In this form, objects require all their fields and allow no other fields. The model writes `null` for an absent
/// optional field. Returns `None` for maps, tuples, flattened enums and arbitrary values, because strict modes do not
/// support them.
pub(crate) fn enforceable(schema: &Value) -> Option<Value> {
    // An object without properties is a tool without arguments at the top level. Nested, it accepts any object, so it
    // cannot be enforced.
    let is_free = |schema: &Value| {
        schema.get("type").is_some_and(may_be_object) && schema.get("properties").is_none()
    };
    let enforceable = |schema: &Value| (!is_free(schema)).then(|| enforceable(schema)).flatten();
    let fields = schema.as_object()?;
    let mut form = Map::new();
    let mut described = Vec::new();
    for (key, value) in fields {
        match key.as_str() {
            "type" | "enum" | "const" | "$ref" | "description" => {
                form.insert(key.clone(), value.clone());
            }
            "properties" | "$defs" => {
                let members = value.as_object()?.iter();
                let members = members.map(|(name, of)| Some((name.clone(), enforceable(of)?)));
                form.insert(key.clone(), Value::Object(members.collect::<Option<_>>()?));
            }
            "items" => {
                form.insert(key.clone(), enforceable(value)?);
            }
            // Strict modes support `anyOf` but not `oneOf`.
            "anyOf" | "oneOf" => {
                let members = value.as_array()?.iter().map(enforceable);
                form.insert("anyOf".into(), Value::Array(members.collect::<Option<_>>()?));
            }
            "required" => {}
            "additionalProperties" if *value == false => {}
            key if REMOVED.contains(&key) => {}
            // schemars writes the Rust type of a number, such as `uint8`, as its format.
            "format" if fields.get("type").is_none_or(|kind| !may_be(kind, "string")) => {}
            // In the strict form, a missing value is `null` anyway.
            "default" if value.is_null() => {}
            key if DESCRIBED.contains(&key) => described.push(format!("{key}: {value}")),
            _ => return None,
        }
    }
    let has = |key: &str| fields.contains_key(key);
    let is_choice = form.contains_key("anyOf");
    if !described.is_empty() {
        let description = form.get("description").and_then(Value::as_str);
        let text =
            [description.unwrap_or_default(), &format!("({})", described.join(", "))].join(" ");
        form.insert("description".into(), text.trim().into());
    }
    if form.get("type").is_some_and(may_be_object) {
        // schemars writes a flattened enum as an object with alternatives. Such an object has fields outside of
        // `properties`, so additional fields cannot be forbidden.
        if is_choice {
            return None;
        }
        let properties = form.entry("properties").or_insert_with(|| json!({}));
        let names: Vec<Value> = properties.as_object()?.keys().cloned().map(Value::from).collect();
        form.insert("required".into(), names.into());
        form.insert("additionalProperties".into(), false.into());
    } else if has("$ref") && form.len() > 1 {
        // Strict modes do not allow other keywords next to `$ref`.
        let reference = json!({ "$ref": form.shift_remove("$ref") });
        form.insert("anyOf".into(), json!([reference]));
    }
    let says_something = ["type", "enum", "const", "$ref"].into_iter().any(has) || is_choice;
    says_something.then_some(Value::Object(form))
}

/// Returns `true` if the keyword `type` allows objects.
fn may_be_object(kind: &Value) -> bool {
    may_be(kind, "object")
}

/// Returns `true` if the keyword `type` allows values of the type `name`. `kind` is one type or a list of types.
fn may_be(kind: &Value, name: &str) -> bool {
    kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct Order {
        /// Who ordered
        customer: String,
        items: Vec<Item>,
        note: Option<String>,
        #[serde(default)]
        urgent: bool,
        #[schemars(range(min = 1, max = 5))]
        priority: u8,
        /// How it is paid
        payment: Payment,
        next: Option<Box<Order>>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct Item {
        price: f64,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    enum Payment {
        Cash,
        Card { number: String },
    }

    fn schema_of<T: DeserializeOwned + JsonSchema>() -> Value {
        OutputSchema::of::<T>().schema
    }

    /// Asserts that every object in the schema allows no additional fields and requires all its fields.
    #[track_caller]
    fn check_strict(schema: &Value) {
        match schema {
            Value::Object(fields) => {
                if fields.get("type").is_some_and(may_be_object) {
                    assert_eq!(fields["additionalProperties"], false, "{schema}");
                    let names: Vec<_> = fields["properties"].as_object().unwrap().keys().collect();
                    assert_eq!(fields["required"], json!(names), "{schema}");
                }
                assert!(!fields.contains_key("oneOf"), "{schema}");
                assert!(!fields.contains_key("$ref") || fields.len() == 1, "{schema}");
                fields.values().for_each(check_strict);
            }
            Value::Array(items) => items.iter().for_each(check_strict),
            _ => {}
        }
    }

    #[test]
    fn enforceable_form_is_closed_and_requires_all_fields() {
        let schema = schema_of::<Order>();
        assert!(schema["properties"]["customer"].is_object());
        let form = enforceable(&schema).unwrap();
        check_strict(&form);
        let properties = &form["properties"];
        assert_eq!(properties["customer"], json!({"type": "string", "description": "Who ordered"}));
        assert_eq!(properties["note"], json!({"type": ["string", "null"]}));
        let urgent = json!({"type": "boolean", "description": "(default: false)"});
        assert_eq!(properties["urgent"], urgent);
        assert_eq!(
            properties["priority"],
            json!({"type": "integer", "description": "(minimum: 1, maximum: 5)"})
        );
        assert_eq!(
            properties["payment"],
            json!({"description": "How it is paid", "anyOf": [{"$ref": "#/$defs/Payment"}]})
        );
        assert_eq!(properties["items"]["items"], json!({"$ref": "#/$defs/Item"}));
    }

    #[test]
    fn open_types_have_no_enforceable_form() {
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is wanted")]
        struct With<T> {
            inner: T,
        }
        #[derive(Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema is wanted")]
        struct Flat {
            id: u8,
            #[serde(flatten)]
            payment: Payment,
        }
        let form = |schema: Value| enforceable(&schema).is_some();
        assert!(form(schema_of::<With<u8>>()));
        assert!(!form(schema_of::<With<BTreeMap<String, u8>>>()));
        assert!(!form(schema_of::<With<Value>>()));
        assert!(!form(schema_of::<With<(u8, String)>>()));
        assert!(!form(schema_of::<Flat>()));
        assert!(!form(json!({})));
        assert!(!form(json!(true)));
        // A closed object without properties would accept nothing.
        let free = json!({"type": "object", "description": "A filter"});
        assert!(!form(json!({"type": "object", "properties": {"filter": free}})));
        assert!(form(free));
    }

    #[test]
    fn string_formats_are_described_and_number_sizes_are_not() {
        let form = |schema: Value| enforceable(&schema).unwrap();
        let time = json!({"type": "string", "format": "date-time"});
        assert_eq!(form(time)["description"], r#"(format: "date-time")"#);
        let number = form(json!({"type": "integer", "format": "uint8", "default": null}));
        assert_eq!(number, json!({"type": "integer"}));
    }

    #[test]
    fn non_objects_are_wrapped() {
        for schema in [schema_of::<Vec<Item>>(), schema_of::<Payment>(), schema_of::<u8>()] {
            assert_eq!(schema["type"], "object");
            check_strict(&enforceable(&schema).unwrap());
        }
        let schema = schema_of::<Vec<Item>>();
        assert_eq!(schema["properties"]["value"]["items"]["$ref"], "#/$defs/Item");
        assert!(schema["$defs"]["Item"].is_object());
        assert!(schema_of::<BTreeMap<String, u8>>().get("properties").is_none());
        let schema = OutputSchema::of::<u8>();
        assert_eq!(schema.check(json!({"value": 7})), Ok(json!(7)));
        assert!(schema.check(json!(7)).is_err() && schema.check(json!({"value": "7"})).is_err());
    }

    #[test]
    fn schema_names_are_ascii_identifiers() {
        assert_eq!(OutputSchema::of::<Order>().name, "Order");
        let name = OutputSchema::of::<Vec<Option<Order>>>().name;
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    }
}
