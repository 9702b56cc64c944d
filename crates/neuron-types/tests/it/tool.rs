//! Tests of typed tools behind `ToolDyn`. They check arguments, results, errors and effects.

use std::error::Error;
use std::sync::Arc;

use neuron_types::{
    ContentItem, ImageSource, Tool, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput,
};
use serde::Serialize;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    kind: String,
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: String::new(),
        input_schema: schemars::schema_for!(Args).into(),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no weather for {city}")]
struct NoWeather {
    city: String,
    #[source]
    cause: std::io::Error,
    /// Makes the error type `!Sync`, because tools may have such errors.
    cell: std::cell::Cell<u8>,
}

/// A tool that implements only the required methods of `Tool`.
struct Plain;

impl Tool for Plain {
    const NAME: &'static str = "plain";
    type Args = Args;
    type Output = Value;
    type Error = NoWeather;

    fn definition(&self) -> ToolDefinition {
        definition("plain")
    }

    async fn call(&self, args: Args, _ctx: &ToolContext) -> Result<Value, NoWeather> {
        match args.kind.as_str() {
            "error" => Err(NoWeather {
                city: "Atlantis".into(),
                cause: std::io::Error::other("sunk"),
                cell: 1.into(),
            }),
            kind => Ok(serde_json::from_str(kind).unwrap()),
        }
    }
}

async fn call(tool: impl Tool + 'static, kind: &str) -> Result<ToolOutput, ToolError> {
    let tool: Arc<dyn ToolDyn> = Arc::new(tool);
    tool.call_dyn(json!({ "kind": kind }), &ToolContext::default()).await
}

#[tokio::test]
async fn results_become_text_and_structured_content() {
    for (json, text, is_structured) in [
        (r#""plain text""#, "plain text", false),
        ("7", "7", false),
        ("1.5", "1.5", false),
        ("true", "true", false),
        ("null", "null", false),
        (r#"{"b":1,"a":2}"#, r#"{"b":1,"a":2}"#, true),
        ("[1,2]", "[1,2]", true),
        ("[]", "[]", true),
    ] {
        let output = call(Plain, json).await.unwrap();
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            output,
            ToolOutput {
                content: vec![ContentItem::Text(text.into())],
                structured_content: is_structured.then_some(value),
                is_error: false,
            }
        );
    }
}

#[tokio::test]
async fn invalid_arguments_name_tool_and_reason() {
    let tool: Arc<dyn ToolDyn> = Arc::new(Plain);
    let ctx = ToolContext::default();
    for (input, text) in [
        (json!({}), "missing field `kind`"),
        (json!({ "kind": 1 }), "`$.kind`: invalid type: integer `1`, expected a string"),
        (json!(null), "invalid type: null, expected struct Args"),
    ] {
        let error = tool.call_dyn(input, &ctx).await.unwrap_err();
        assert!(matches!(error, ToolError::InvalidInput(_)));
        assert_eq!(error.to_string(), format!("invalid input: arguments of `plain`: {text}"));
    }
}

#[tokio::test]
async fn error_becomes_the_source_even_without_sync() {
    let error = call(Plain, "error").await.unwrap_err();
    assert_eq!(error.to_string(), "execution failed: no weather for Atlantis");
    let source = error.source().unwrap();
    assert_eq!(source.to_string(), "no weather for Atlantis");
    assert_eq!(source.source().unwrap().to_string(), "sunk");
    assert!(source.source().unwrap().source().is_none());
}

/// A tool that overrides `effect`, `map_output` and `map_error`.
struct Own;

struct Picture;

impl Serialize for Picture {
    fn serialize<S: serde::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("a picture is no JSON"))
    }
}

impl Tool for Own {
    const NAME: &'static str = "own";
    type Args = Args;
    type Output = Picture;
    type Error = NoWeather;

    fn definition(&self) -> ToolDefinition {
        definition("own")
    }

    async fn call(&self, args: Args, ctx: &ToolContext) -> Result<Picture, NoWeather> {
        match args.kind.as_str() {
            "picture" => Ok(Picture),
            _ => Plain.call(Args { kind: "error".into() }, ctx).await.map(|_| Picture),
        }
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn map_error(&self, error: NoWeather) -> ToolError {
        ToolError::ModelRetry(format!("{}; try another than {}", error.cause, error.city))
    }

    fn map_output(&self, _output: Picture) -> Result<ToolOutput, ToolError> {
        let source = ImageSource::Url { url: "https://a/b.png".into() };
        Ok(ToolOutput { content: vec![ContentItem::Image { source }], ..Default::default() })
    }
}

#[tokio::test]
async fn tool_may_map_results_and_errors() {
    let output = call(Own, "picture").await.unwrap();
    assert!(matches!(output.content[..], [ContentItem::Image { .. }]));
    let error = call(Own, "").await.unwrap_err();
    assert!(
        matches!(error, ToolError::ModelRetry(hint) if hint == "sunk; try another than Atlantis")
    );
}

#[tokio::test]
async fn unserialisable_result_is_a_failure() {
    struct Broken;
    impl Tool for Broken {
        const NAME: &'static str = "broken";
        type Args = Args;
        type Output = Picture;
        type Error = ToolError;
        fn definition(&self) -> ToolDefinition {
            definition("broken")
        }
        async fn call(&self, args: Args, _ctx: &ToolContext) -> Result<Picture, ToolError> {
            match args.kind.as_str() {
                "denied" => Err(ToolError::PermissionDenied("no".into())),
                _ => Ok(Picture),
            }
        }
    }
    let error = call(Broken, "").await.unwrap_err();
    assert_eq!(error.to_string(), "execution failed: a picture is no JSON");
    // The tool returns a `ToolError` here, which must not be wrapped.
    let error = call(Broken, "denied").await.unwrap_err();
    assert!(matches!(error, ToolError::PermissionDenied(reason) if reason == "no"));
}

#[test]
fn effect_defaults_to_at_most_once_and_can_be_overridden() {
    let effects = [ToolDyn::effect(&Plain), ToolDyn::effect(&Own), ToolEffect::default()];
    assert_eq!(effects, [ToolEffect::AtMostOnce, ToolEffect::Pure, ToolEffect::AtMostOnce]);
    assert_eq!((ToolDyn::name(&Own), ToolDyn::definition(&Own)), ("own", definition("own")));
}
