//! Tests of the conversion of schemas. A converted schema must accept the same arguments as the original.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(schema: Value, expected: Value) {
    let cleaned = cleaned(&schema);
    // Compared as text, because the order of the keywords matters too.
    assert_eq!(cleaned.to_string(), expected.to_string());
    assert_eq!(
        super::cleaned(&cleaned).to_string(),
        cleaned.to_string(),
        "a second conversion changed the schema"
    );
}

#[test]
fn schema_becomes_an_object_schema() {
    let empty = json!({ "type": "object", "properties": {} });
    for nothing in [json!({}), json!(true), json!(null), json!({ "type": null }), empty.clone()] {
        check(nothing, empty.clone());
    }
    check(json!({ "type": ["object", "null"], "properties": null, "required": null }), empty);
    check(json!(false), json!({ "type": "object", "not": {}, "properties": {} }));
    check(
        json!({ "properties": { "a": {} }, "additionalProperties": false, "title": "T" }),
        json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": false, "title": "T" }),
    );
    // The schema accepts no object, so it accepts no arguments.
    check(json!({ "type": "string" }), json!({ "type": "string", "properties": {} }));
}

#[test]
fn unsupported_root_keywords_are_removed() {
    check(
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://example.com/a",
            "$comment": "made by a library",
            "type": "object",
            "properties": { "a": { "$ref": "#/definitions/A" } },
            "definitions": { "A": { "type": "string" } },
        }),
        json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/definitions/A" } },
            "definitions": { "A": { "type": "string" } },
        }),
    );
    // A property may have the name of such a keyword.
    let property =
        json!({ "type": "object", "properties": { "$schema": {}, "$id": {}, "$ref": {} } });
    check(property.clone(), property);
}

#[test]
fn schema_with_external_reference_keeps_its_id() {
    let remote = json!({
        "$id": "https://example.com/a",
        "type": "object",
        "properties": { "a": { "$ref": "https://example.com/b" } },
    });
    check(remote.clone(), remote);
    let own_address = json!({
        "$id": "https://example.com/a",
        "type": "object",
        "properties": { "a": { "$ref": "https://example.com/a#/$defs/A" } },
        "$defs": { "A": { "type": "string" } },
    });
    check(own_address.clone(), own_address);
}

#[test]
fn older_drafts_are_converted_to_2020_12() {
    let of = |draft: &str, property: Value| {
        json!({
            "$schema": format!("http://json-schema.org/{draft}/schema#"),
            "type": "object",
            "properties": { "a": property },
            "definitions": { "A": true },
        })
    };
    let written = |property: Value| json!({ "type": "object", "properties": { "a": property }, "definitions": { "A": {} } });
    for (draft, property, expected) in [
        ("draft-07", json!(true), json!({})),
        ("draft-07", json!(false), json!({ "not": {} })),
        (
            "draft-07",
            json!({ "items": [true, { "type": "string" }], "additionalItems": false }),
            json!({ "prefixItems": [{}, { "type": "string" }], "items": { "not": {} } }),
        ),
        ("draft-07", json!({ "items": [], "additionalItems": {} }), json!({ "items": {} })),
        ("draft-07", json!({ "items": {}, "additionalItems": false }), json!({ "items": {} })),
        (
            "draft-07",
            json!({ "dependencies": { "a": ["b"], "c": { "required": ["d"] } } }),
            json!({
                "dependentRequired": { "a": ["b"] },
                "dependentSchemas": { "c": { "required": ["d"] } },
            }),
        ),
        (
            "draft-07",
            json!({ "description": "d", "type": "string", "$ref": "#/definitions/A" }),
            json!({ "description": "d", "$ref": "#/definitions/A" }),
        ),
        (
            "2019-09",
            json!({ "type": "string", "$ref": "#/definitions/A" }),
            json!({ "type": "string", "$ref": "#/definitions/A" }),
        ),
        ("draft-07", json!({ "$id": "#a" }), json!({ "$anchor": "a" })),
        ("draft-07", json!({ "prefixItems": [{}] }), json!({})),
        ("draft-06", json!({ "if": {}, "then": false }), json!({})),
        (
            "draft-04",
            json!({ "minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": false, "const": 1 }),
            json!({ "exclusiveMinimum": 1, "maximum": 2 }),
        ),
    ] {
        check(of(draft, property), written(expected));
    }
}

/// The conversion must return a schema unchanged if it would move a part to which a `$ref` refers. It must also do so
/// if a part has its own `$id`.
#[test]
fn schema_is_unchanged_if_conversion_would_break_a_reference() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "a": { "items": [{ "type": "string" }] },
            "b": { "$ref": "#/properties/a/items/0" },
        },
    });
    check(schema.clone(), schema);
    let part_for_itself = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": { "a": { "$id": "https://example.com/a", "items": [true] } },
    });
    check(part_for_itself.clone(), part_for_itself);
}

const DRAFTS: [&str; 6] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
    "",
];

/// Generates schemas with keywords of all drafts.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({ "$ref": "#/definitions/d" })),
        Just(json!({ "$ref": "#/definitions/d", "type": "string" })),
        Just(json!({ "$ref": "#/definitions/d", "type": "object", "maxProperties": 1 })),
        Just(json!({ "const": 1 })),
        Just(json!({ "enum": [1, "x", null] })),
        Just(json!({ "minimum": 1, "exclusiveMinimum": 1 })),
        Just(json!({ "type": ["integer", "array"] })),
        Just(json!({ "type": "object" })),
        Just(json!({ "minItems": 2 })),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..3);
        let named = || prop::collection::hash_map("[ab]", inner.clone(), 0..3);
        let keyword = prop_oneof![
            named().prop_map(|named| json!({ "properties": named })),
            named().prop_map(|named| json!({ "dependencies": named })),
            named().prop_map(|named| json!({ "dependentSchemas": named })),
            Just(json!({ "dependencies": { "a": ["b"] } })),
            Just(json!({ "dependentRequired": { "b": ["a"] } })),
            Just(json!({ "required": ["a"] })),
            inner.clone().prop_map(|schema| json!({ "patternProperties": { "^a": schema } })),
            inner.clone().prop_map(|schema| json!({ "additionalProperties": schema })),
            inner.clone().prop_map(|schema| json!({ "unevaluatedProperties": schema })),
            inner.clone().prop_map(|schema| json!({ "propertyNames": schema })),
            inner.clone().prop_map(|schema| json!({ "items": schema })),
            list().prop_map(|list| json!({ "items": list })),
            list().prop_map(|list| json!({ "prefixItems": list })),
            inner.clone().prop_map(|schema| json!({ "additionalItems": schema })),
            inner.clone().prop_map(|schema| json!({ "unevaluatedItems": schema })),
            inner.clone().prop_map(|schema| json!({ "contains": schema, "maxContains": 1 })),
            list().prop_map(|list| json!({ "allOf": list })),
            list().prop_map(|list| json!({ "anyOf": list })),
            list().prop_map(|list| json!({ "oneOf": list })),
            inner.clone().prop_map(|schema| json!({ "not": schema })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
        ];
        prop::collection::vec(keyword, 1..4).prop_map(|keywords| {
            let keywords = keywords.into_iter().filter_map(|keyword| keyword.as_object().cloned());
            Value::Object(keywords.flatten().collect())
        })
    })
}

/// Generates JSON values. Objects use the property names of [`schema`].
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(null)), Just(json!("x")), (0..3).prop_map(|n| json!(n))];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[ab]", inner, 0..3).prop_map(|fields| json!(fields)),
        ]
    })
}

fn validator(schema: &Value) -> Option<jsonschema::Validator> {
    jsonschema::options().offline().build(schema).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn converted_schema_accepts_the_same_arguments(
        schema in schema(),
        draft in prop::sample::select(&DRAFTS[..]),
        exclusive in any::<bool>(),
        arguments in prop::collection::vec(
            prop::collection::hash_map("[ab]", value(), 0..3).prop_map(|fields| json!(fields)),
            1..8,
        ),
    ) {
        let Value::Object(mut schema) = schema else { return Ok(()) };
        if !draft.is_empty() {
            schema.insert("$schema".to_owned(), json!(draft));
        }
        let old = json!({ "type": "integer", "minimum": 1, "exclusiveMinimum": exclusive });
        let known = if draft == DRAFTS[0] { old } else { json!({ "type": "array", "items": { "type": "integer" } }) };
        schema.insert("definitions".to_owned(), json!({ "d": known }));
        let schema = Value::Object(schema);
        // A generated keyword may be invalid in the selected draft.
        let Some(before) = validator(&schema) else { return Err(TestCaseError::reject("invalid schema")) };
        let cleaned = cleaned(&schema);
        let after = validator(&cleaned);
        prop_assert!(after.is_some(), "{} is not a valid schema", cleaned);
        for arguments in &arguments {
            prop_assert_eq!(
                before.is_valid(arguments),
                after.as_ref().is_some_and(|after| after.is_valid(arguments)),
                "{} for {}, converted to {}", arguments, schema, cleaned,
            );
        }
        prop_assert_eq!(&super::cleaned(&cleaned), &cleaned);
    }
}
