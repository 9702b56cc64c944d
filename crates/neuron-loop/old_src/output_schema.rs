//! The JSON Schema of a typed output, and the form of it that providers can enforce.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The schema of `T`, with what is no object wrapped into one, as `{"value": …}`: providers take
/// only objects. Says whether it was.
pub(crate) fn object_schema<T: JsonSchema>() -> (Value, bool) {
    let schema = plain_schema::<T>();
    if schema.get("type").is_some_and(|kind| kind == "object") {
        return (schema, false);
    }
    let mut generator = SchemaGenerator::default();
    let value = generator.subschema_for::<T>();
    let definitions = generator.take_definitions(true);
    let mut wrapper = json!({
        "type": "object",
        "properties": { "value": value },
        "required": ["value"],
    });
    if let (Some(fields), false) = (wrapper.as_object_mut(), definitions.is_empty()) {
        fields.insert("$defs".into(), Value::Object(definitions));
    }
    (wrapper, true)
}

/// The schema of `T` as it is.
pub(crate) fn plain_schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).into()
}

/// A name for the schema of `T`, of letters, digits, `_` and `-`.
pub(crate) fn name<T: JsonSchema>() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = T::schema_name();
    name.chars().take(64).map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// What only describes, or is a matter of the one who reads the answer.
const LEFT_OUT: [&str; 9] = [
    "$schema",
    "$comment",
    "title",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// What providers do not enforce, so that it is told to the model in words.
const TOLD: [&str; 11] = [
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

/// The form of a schema that providers can enforce strictly: every object is closed, and all its
/// fields are required; what may be missing is `null`, or what the model gives. `None` where there is
/// no such form: for maps, tuples, flattened enums and values of any kind.
pub(crate) fn enforceable(schema: &Value) -> Option<Value> {
    let fields = schema.as_object()?;
    let mut form = Map::new();
    let mut told = Vec::new();
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
            "anyOf" | "oneOf" => {
                let members = value.as_array()?.iter().map(enforceable);
                form.insert("anyOf".into(), Value::Array(members.collect::<Option<_>>()?));
            }
            "required" => {}
            "additionalProperties" if *value == false => {}
            key if LEFT_OUT.contains(&key) => {}
            key if TOLD.contains(&key) => told.push(format!("{key}: {value}")),
            _ => return None,
        }
    }
    let has = |key: &str| fields.contains_key(key);
    let is_choice = form.contains_key("anyOf");
    if !told.is_empty() {
        let description = form.get("description").and_then(Value::as_str);
        let text = [description.unwrap_or_default(), &format!("({})", told.join(", "))].join(" ");
        form.insert("description".into(), text.trim().into());
    }
    if form.get("type").is_some_and(may_be_object) {
        if is_choice {
            return None;
        }
        let properties = form.entry("properties").or_insert_with(|| json!({}));
        let names: Vec<Value> = properties.as_object()?.keys().cloned().map(Value::from).collect();
        form.insert("required".into(), names.into());
        form.insert("additionalProperties".into(), false.into());
    } else if has("$ref") && form.len() > 1 {
        // A reference takes nothing beside it.
        let reference = json!({ "$ref": form.shift_remove("$ref") });
        form.insert("anyOf".into(), json!([reference]));
    }
    let says_something = ["type", "enum", "const", "$ref"].into_iter().any(has) || is_choice;
    says_something.then_some(Value::Object(form))
}

fn may_be_object(kind: &Value) -> bool {
    let is_object = |kind: &Value| kind == "object";
    is_object(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_object))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;

    use super::*;

    #[derive(JsonSchema)]
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

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    struct Item {
        price: f64,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is wanted")]
    enum Payment {
        Cash,
        Card { number: String },
    }

    /// Every object is closed, and requires all its fields.
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
    fn the_enforceable_form_is_closed_and_requires_everything() {
        let (schema, is_wrapped) = object_schema::<Order>();
        assert!(!is_wrapped);
        let form = enforceable(&schema).unwrap();
        check_strict(&form);
        let properties = &form["properties"];
        assert_eq!(properties["customer"], json!({"type": "string", "description": "Who ordered"}));
        assert_eq!(properties["note"], json!({"type": ["string", "null"]}));
        assert_eq!(properties["urgent"], json!({"type": "boolean"}));
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
    fn what_has_no_enforceable_form_is_known() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is wanted")]
        struct With<T> {
            inner: T,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is wanted")]
        struct Flat {
            id: u8,
            #[serde(flatten)]
            payment: Payment,
        }
        let form = |schema: Value| enforceable(&schema).is_some();
        assert!(form(object_schema::<With<u8>>().0));
        assert!(!form(object_schema::<With<BTreeMap<String, u8>>>().0));
        assert!(!form(object_schema::<With<Value>>().0));
        assert!(!form(object_schema::<With<(u8, String)>>().0));
        assert!(!form(object_schema::<Flat>().0));
        assert!(!form(json!({})));
        assert!(!form(json!(true)));
    }

    #[test]
    fn what_is_no_object_is_wrapped_into_one() {
        for (schema, is_wrapped) in
            [object_schema::<Vec<Item>>(), object_schema::<Payment>(), object_schema::<u8>()]
        {
            assert!(is_wrapped);
            assert_eq!(schema["type"], "object");
            check_strict(&enforceable(&schema).unwrap());
        }
        let (schema, _) = object_schema::<Vec<Item>>();
        assert_eq!(schema["properties"]["value"]["items"]["$ref"], "#/$defs/Item");
        assert!(schema["$defs"]["Item"].is_object());
        assert!(!object_schema::<BTreeMap<String, u8>>().1);
    }

    #[test]
    fn names_are_plain() {
        assert_eq!(name::<Order>(), "Order");
        assert!(
            name::<Vec<Option<Order>>>().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        );
    }
}
