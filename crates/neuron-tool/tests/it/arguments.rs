//! Tests of `ArgumentLimits`, and of `RetryInvalidInput` for arguments of the wrong type.

use neuron_tool::builtin::{ArgumentLimits, RetryInvalidInput};
use neuron_types::{Tool, ToolContext, ToolDefinition, ToolError};
use serde_json::{Value, json};

use crate::support::{definition, echo, registry, run, shown};

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({ "a": [inner] })["a"].take())
}

#[tokio::test]
async fn error_names_place_and_limit_of_deep_or_large_arguments() {
    let mut registry = registry([echo("t")]);
    registry.add_middleware(ArgumentLimits::new().with_max_depth(3).with_max_bytes(40));
    let text = "x".repeat(30);
    for (input, expected) in [
        (json!({ "a": [{ "b": 1 }] }), r#"{"a":[{"b":1}]}"#),
        (json!(7), "7"),
        (
            json!({ "a": [1, { "b": {} }] }),
            "retry: arguments of `t`: `$.a[1].b` is nested too deep; expected at most 3 levels",
        ),
        (
            nested(100),
            "retry: arguments of `t`: `$[0][0][0]` is nested too deep; expected at most 3 levels",
        ),
        (
            json!({ "a": "1234", "c": { "d": text } }),
            "retry: arguments of `t`: they are 55 bytes long, of which `$.c.d` is 32; expected at \
             most 40 bytes",
        ),
        (
            json!(["1234567890", "1234567890", "1234567890", "1234567890"]),
            "retry: arguments of `t`: they are 53 bytes long, of which `$` is 53; expected at \
             most 40 bytes",
        ),
    ] {
        assert_eq!(shown(&run(&registry, "t", input).await), expected);
    }
}

#[tokio::test]
async fn default_limits_are_32_levels_and_a_million_bytes() {
    let mut registry = registry([echo("t")]);
    registry.add_middleware(ArgumentLimits::new());
    assert!(run(&registry, "t", nested(32)).await.is_ok());
    assert!(run(&registry, "t", nested(33)).await.is_err());
    let text = |bytes: usize| Value::String("x".repeat(bytes - 2));
    assert!(run(&registry, "t", text(1_000_000)).await.is_ok());
    assert!(run(&registry, "t", text(1_000_001)).await.is_err());
    // The check itself must not overflow the stack, whatever the depth.
    assert!(run(&registry, "t", nested(1000)).await.is_err());
}

#[tokio::test]
async fn wrong_type_is_a_retry_for_the_model() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {
        celsius: f64,
    }
    struct ToFahrenheit;
    impl Tool for ToFahrenheit {
        const NAME: &'static str = "to_fahrenheit";
        type Args = Args;
        type Output = f64;
        type Error = ToolError;
        fn definition(&self) -> ToolDefinition {
            definition(Self::NAME)
        }
        async fn call(&self, args: Args, _: &ToolContext) -> Result<f64, ToolError> {
            Ok(args.celsius * 1.8 + 32.0)
        }
    }
    let mut registry = registry([]);
    registry.register(ToFahrenheit);
    registry.add_middleware(RetryInvalidInput::new(3));
    assert_eq!(
        shown(&run(&registry, "to_fahrenheit", json!({ "celsius": "warm" })).await),
        "retry: arguments of `to_fahrenheit`: `$.celsius`: invalid type: string \"warm\", expected f64"
    );
    assert_eq!(shown(&run(&registry, "to_fahrenheit", json!({ "celsius": 20 })).await), "68.0");
}
