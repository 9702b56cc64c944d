//! Validation of the forms that users submit in response to elicitation requests.

use serde_json::Value;

/// Returns `true` if a submitted form matches its schema, including the required fields.
///
/// Forms are flat objects of strings, numbers, booleans and choices (specification of 2025-11-25, "Elicitation").
/// Types, limits and choices of the fields are checked. Formats such as `email` are not checked.
pub(crate) fn fits(schema: &Value, content: &Value) -> bool {
    let empty = serde_json::Map::new();
    let fields = match content {
        Value::Object(fields) => fields,
        // Clients omit the content of an empty form.
        Value::Null => &empty,
        _ => return false,
    };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    required.all(|name| fields.contains_key(name))
        && properties.into_iter().flatten().all(|(name, property)| {
            fields.get(name).is_none_or(|value| field_fits(property, value))
        })
}

/// Returns `true` if a value has the type of its field, is within the field's limits and is an allowed choice.
fn field_fits(property: &Value, value: &Value) -> bool {
    let of_type = match property.get("type").and_then(Value::as_str) {
        // JSON Schema counts characters, not bytes.
        Some("string") => value.as_str().is_some_and(|text| {
            let length = text.chars().count();
            within(property, "minLength", "maxLength", length)
        }),
        Some("number") => value.as_f64().is_some_and(|number| in_range(property, number)),
        Some("integer") => {
            value.as_f64().is_some_and(|number| number.fract() == 0.0 && in_range(property, number))
        }
        Some("boolean") => value.is_boolean(),
        Some("array") => value.as_array().is_some_and(|items| {
            within(property, "minItems", "maxItems", items.len())
                && property
                    .get("items")
                    .is_none_or(|item| items.iter().all(|value| field_fits(item, value)))
        }),
        _ => true,
    };
    of_type && is_choice(property, value)
}

/// Returns `true` if a value is an allowed choice, or if the field has no choices.
///
/// A schema lists choices in `enum`, or as constants with titles in `oneOf` or `anyOf`.
fn is_choice(property: &Value, value: &Value) -> bool {
    let listed = property.get("enum").and_then(Value::as_array);
    let titled = ["oneOf", "anyOf"].into_iter().find_map(|name| property.get(name)?.as_array());
    listed.is_none_or(|choices| choices.contains(value))
        && titled.is_none_or(|choices| {
            choices.iter().any(|choice| choice.get("const").is_none_or(|choice| choice == value))
        })
}

/// Returns `true` if `count` is within the limits of a schema. `count` is a number of characters or items. `least` and
/// `most` are the schema keywords of the limits, such as `minLength` and `maxLength`.
fn within(property: &Value, least: &str, most: &str, count: usize) -> bool {
    let limit = |name| property.get(name).and_then(Value::as_u64);
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    limit(least).is_none_or(|least| count >= least) && limit(most).is_none_or(|most| count <= most)
}

/// Returns `true` if a number is within the limits `minimum` and `maximum` of a schema. A missing keyword is no limit.
fn in_range(property: &Value, number: f64) -> bool {
    let limit = |name| property.get(name).and_then(Value::as_f64);
    limit("minimum").is_none_or(|least| number >= least)
        && limit("maximum").is_none_or(|most| number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(property: Value, good: &[Value], bad: &[Value]) {
        let schema = json!({ "type": "object", "properties": { "x": property } });
        for value in good {
            assert!(fits(&schema, &json!({ "x": value })), "{value} is valid");
        }
        for value in bad {
            assert!(!fits(&schema, &json!({ "x": value })), "{value} is invalid");
        }
    }

    #[test]
    fn field_must_match_its_type_and_limits() {
        check(json!({ "type": "string" }), &[json!("")], &[json!(1), json!(null)]);
        let short = json!({ "type": "string", "minLength": 1, "maxLength": 2 });
        check(short, &[json!("ä"), json!("äö")], &[json!(""), json!("abc")]);
        check(json!({ "type": "boolean" }), &[json!(true)], &[json!("true")]);
        check(json!({ "type": "number" }), &[json!(1), json!(0.5)], &[json!("1")]);
        let small = json!({ "type": "integer", "minimum": 0, "maximum": 9 });
        check(small, &[json!(0), json!(9), json!(3.0)], &[json!(-1), json!(10), json!(0.5)]);
    }

    #[test]
    fn field_with_choices_accepts_only_the_choices() {
        check(json!({ "type": "string", "enum": ["a", "b"] }), &[json!("a")], &[json!("c")]);
        let titled = json!({ "type": "string", "oneOf": [{ "const": "a", "title": "A" }] });
        check(titled, &[json!("a")], &[json!("A"), json!(1)]);
        let many = json!({ "type": "array", "minItems": 1, "items": { "enum": ["a", "b"] } });
        check(many, &[json!(["a", "b"])], &[json!([]), json!(["c"]), json!("a")]);
        let many = json!({ "type": "array", "items": { "anyOf": [{ "const": "a" }] } });
        check(many, &[json!([]), json!(["a"])], &[json!(["b"])]);
    }

    #[test]
    fn required_fields_must_be_present() {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
            "required": ["a"],
        });
        assert!(fits(&schema, &json!({ "a": "x" })));
        assert!(fits(&schema, &json!({ "a": "x", "c": 1 })));
        assert!(!fits(&schema, &json!({ "b": "x" })));
        assert!(!fits(&schema, &Value::Null));
        assert!(!fits(&schema, &json!(["a"])));
        assert!(fits(&json!({ "type": "object", "properties": {} }), &Value::Null));
    }
}
