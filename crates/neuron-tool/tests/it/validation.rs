//! Tests of the validators of arguments and of their error texts.

use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::{
    RetryInvalidInput, RetryLimitedValidator, SchemaValidator, StructuredOutputValidator,
};
use neuron_types::{ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::support::{async_tool, definition, echo, registry, run, shown};

fn with_schema(name: &str, input_schema: Value) -> Arc<dyn ToolDyn> {
    let definition = ToolDefinition { input_schema, ..definition(name) };
    async_tool(definition, ToolEffect::AtMostOnce, |_, _| {
        Box::pin(async { Ok(ToolOutput::text("ran")) })
    })
}

fn validated(schema: Value) -> ToolRegistry {
    let mut registry = registry([with_schema("search", schema)]);
    registry.add_middleware(SchemaValidator::new(&registry));
    registry
}

fn search_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["query"],
        "additionalProperties": false,
        "properties": {
            "query": { "type": "string", "minLength": 1, "pattern": "^(?!DROP)" },
            "count": { "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255 },
            "unit": { "oneOf": [{ "const": "celsius" }, { "const": "fahrenheit" }] },
            "filters": { "type": "array", "items": { "$ref": "#/$defs/Filter" } },
            "page": { "anyOf": [{ "$ref": "#/$defs/Page" }, { "type": "null" }] },
            "odd name": { "type": "null" }
        },
        "$defs": {
            "Filter": { "type": "object", "required": ["field"] },
            "Page": { "type": "object", "properties": { "size": { "type": "integer" } } }
        }
    })
}

#[tokio::test]
async fn error_names_place_and_expectation() {
    let registry = validated(search_schema());
    let long = "x".repeat(1000);
    for (input, expected) in [
        (json!({ "query": "a", "count": 255, "unit": "celsius", "page": null }), "ran"),
        (json!({}), r#"`$`: "query" is a required property"#),
        (json!({ "query": 7 }), r#"`$.query`: 7 is not of type "string""#),
        (json!({ "query": "" }), r#"`$.query`: "" is shorter than 1 character"#),
        (json!({ "query": "DROP" }), r#"`$.query`: "DROP" does not match "^(?!DROP)""#),
        (
            json!({ "query": "a", "count": 256 }),
            "`$.count`: 256 is greater than the maximum of 255",
        ),
        (
            json!({ "query": "a", "extra": 1 }),
            "`$`: Additional properties are not allowed ('extra' was unexpected)",
        ),
        (
            json!({ "query": "a", "filters": [{ "field": 1 }, {}] }),
            r#"`$.filters[1]`: "field" is a required property"#,
        ),
        (
            json!({ "query": "a", "unit": "kelvin" }),
            r#"`$.unit`: "celsius" was expected or `$.unit`: "fahrenheit" was expected"#,
        ),
        // Of several alternatives, only the errors of the intended alternative are reported.
        (
            json!({ "query": "a", "page": { "size": "x" } }),
            r#"`$.page.size`: "x" is not of type "integer""#,
        ),
        (json!({ "query": "a", "odd name": 1 }), r#"`$["odd name"]`: 1 is not of type "null""#),
        (json!([]), r#"`$`: [] is not of type "object""#),
        (
            json!({ "query": 1, "count": "x" }),
            r#"`$.query`: 1 is not of type "string"; `$.count`: "x" is not of type "integer""#,
        ),
    ] {
        let result = run(&registry, "search", input).await;
        match &result {
            Ok(_) => assert_eq!(expected, "ran"),
            Err(ToolError::InvalidInput(text)) => {
                assert_eq!(text, &format!("arguments of `search`: {expected}"));
            }
            Err(other) => panic!("{other}"),
        }
    }
    let text = shown(&run(&registry, "search", json!({ "query": "a", "count": long })).await);
    assert!(text.len() < 500 && text.ends_with(r#"is not of type "integer""#), "{text}");
    let many = json!({ "query": "a", "filters": [{}, {}, {}, {}, {}, {}] });
    let text = shown(&run(&registry, "search", many).await);
    assert!(text.contains("`$.filters[4]`") && !text.contains("filters[5]"), "{text}");
    assert!(text.ends_with("; and more"), "{text}");
}

/// The path in an error must be shortened. It contains field names that the model invented, which may be long.
#[tokio::test]
async fn long_name_is_shortened_in_the_error() {
    let registry = validated(json!({ "additionalProperties": { "type": "integer" } }));
    let huge = "ä".repeat(100_000);
    let text = shown(&run(&registry, "search", json!({ huge: "x" })).await);
    assert!(text.chars().count() < 600, "{} characters", text.chars().count());
    assert!(text.ends_with(r#"ä`: "x" is not of type "integer""#), "{text}");
}

#[tokio::test]
async fn slow_pattern_is_limited() {
    let schema = json!({ "properties": { "a": { "pattern": "^(?=a)(a+)+$" } } });
    let registry = validated(schema);
    let input = json!({ "a": format!("{}b", "a".repeat(100)) });
    let text = shown(&run(&registry, "search", input).await);
    assert!(text.starts_with("invalid input: arguments of `search`: `$.a`: "), "{text}");
}

#[tokio::test]
async fn invalid_schema_fails_every_call() {
    for schema in [
        json!({ "type": "strange" }),
        json!({ "properties": { "a": { "$ref": "https://example.com/schema.json" } } }),
        json!(7),
    ] {
        let registry = validated(schema.clone());
        let result = run(&registry, "search", json!({})).await;
        assert!(matches!(result, Err(ToolError::ExecutionFailed(_))), "{schema}");
        let text = shown(&result);
        let start = "execution failed: the schema for `search` cannot be used: ";
        assert!(text.starts_with(start), "{text}");

        let mut registry = self::registry([echo("report")]);
        registry.add_middleware(StructuredOutputValidator::new(schema, 3));
        let result = run(&registry, "report", json!({})).await;
        assert!(matches!(result, Err(ToolError::ExecutionFailed(_))));
    }
}

/// Returns a registry with the tool `count`, whose results have this structured content.
fn counting(output_schema: Value, content: Value, is_error: bool) -> ToolRegistry {
    let definition = ToolDefinition { output_schema: Some(output_schema), ..definition("count") };
    let tool = async_tool(definition, ToolEffect::AtMostOnce, move |_, _| {
        let structured_content = Some(content.clone());
        Box::pin(async move {
            Ok(ToolOutput { structured_content, is_error, ..ToolOutput::text("counted") })
        })
    });
    let mut registry = registry([tool]);
    registry.add_middleware(SchemaValidator::new(&registry));
    registry
}

/// The tool has run, so its result must not be lost.
#[tokio::test]
async fn structured_content_that_does_not_match_is_kept_with_a_note() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let note = "[`count` ran, but its structured content does not match its output schema: \
                `$.n`: \"x\" is not of type \"integer\"]";
    for (schema, content, is_error, expected) in [
        (schema.clone(), json!({ "n": 1 }), false, "counted".to_owned()),
        (schema.clone(), json!({ "n": "x" }), false, format!("counted{note}")),
        (schema, json!({ "n": "x" }), true, "counted".to_owned()),
        (json!({ "type": "strange" }), json!({ "n": "x" }), false, "counted".to_owned()),
    ] {
        let registry = counting(schema, content.clone(), is_error);
        let result = run(&registry, "count", json!({})).await;
        assert_eq!(shown(&result), expected);
        assert_eq!(result.unwrap().structured_content, Some(content));
    }
}

#[tokio::test]
async fn later_tools_are_validated() {
    let mut registry = validated(json!({}));
    assert_eq!(shown(&run(&registry, "search", json!({})).await), "ran");
    let needs_a = || json!({ "required": ["a"] });
    registry.register_dyn(with_schema("search", needs_a()));
    registry.register_dyn(with_schema("later", needs_a()));
    for _ in 0..2 {
        for name in ["search", "later"] {
            let text = shown(&run(&registry, name, json!({})).await);
            assert!(text.ends_with(r#"`$`: "a" is a required property"#), "{text}");
        }
    }
}

#[tokio::test]
async fn structured_validator_retries_until_limited_validator_ends_the_run() {
    let validator = || {
        let schema = json!({
            "type": "object",
            "required": ["result"],
            "properties": { "result": { "type": "string" } }
        });
        StructuredOutputValidator::new(schema, 2)
    };
    assert_eq!(validator().max_retries(), 2);
    let retry = r#"retry: arguments of `report`: `$.result`: 1 is not of type "string""#;

    let mut unlimited = registry([echo("report")]);
    unlimited.add_middleware(validator());
    for _ in 0..5 {
        assert_eq!(shown(&run(&unlimited, "report", json!({ "result": 1 })).await), retry);
    }

    let mut limited = registry([echo("report")]);
    limited.add_middleware(RetryLimitedValidator::new(validator()));
    for _ in 0..2 {
        for input in [json!(1), json!(1), json!("fits"), json!(1), json!(1)] {
            let expected = if input == 1 { retry } else { r#"{"result":"fits"}"# };
            assert_eq!(shown(&run(&limited, "report", json!({ "result": input })).await), expected);
        }
        let result = run(&limited, "report", json!({ "result": 1 })).await;
        assert!(matches!(result, Err(ToolError::InvalidInput(_))));
    }
}

#[tokio::test]
async fn schema_violation_is_a_retry_for_the_model() {
    let mut registry = registry([with_schema("search", search_schema())]);
    registry.add_middleware(RetryInvalidInput::new(1));
    registry.add_middleware(SchemaValidator::new(&registry));
    let retry = r#"retry: arguments of `search`: `$`: "query" is a required property"#;
    assert_eq!(shown(&run(&registry, "search", json!({})).await), retry);
    assert_eq!(shown(&run(&registry, "search", json!({ "query": "a" })).await), "ran");
}
