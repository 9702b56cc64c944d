//! Tests the chapter of neuron's book on tools from functions and structs. Contains the programs exactly as printed.

use futures::FutureExt;
use neuron_tool::{RunTool, Tool};
use neuron_types::{ContentItem, ToolContext, ToolError};
use serde_json::json;

/// The code of the section "Quick example" of neuron's book.
#[rustfmt::skip]
mod quick_example {
    use neuron_tool::{neuron_tool, ToolRegistry};
    use neuron_types::ToolContext;

    #[neuron_tool(name = "lookup", description = "Look up a value by key")]
    async fn lookup(
        /// The key to look up
        key: String,
        _ctx: &ToolContext,
    ) -> Result<String, std::io::Error> {
        Ok(format!("value for {key}"))
    }

    #[tokio::main]
    pub(super) async fn main() {
        let mut registry = ToolRegistry::new();
        registry.register(LookupTool);

        let ctx = ToolContext::default();
        let output = registry
            .execute("lookup", serde_json::json!({"key": "foo"}), &ctx)
            .await
            .unwrap();
        println!("{:?}", output.content);
    }

    pub(super) fn tool() -> impl neuron_types::Tool + 'static {
        LookupTool
    }
}

#[test]
fn quick_example_runs() {
    quick_example::main();
    let mut registry = neuron_tool::ToolRegistry::new();
    registry.register(quick_example::tool());
    let (input, ctx) = (json!({ "key": "foo" }), ToolContext::default());
    let output = registry.execute("lookup", input, &ctx).now_or_never().unwrap().unwrap();
    assert_eq!(output.content, [ContentItem::Text("value for foo".into())]);
    let definition = quick_example::tool().definition();
    assert_eq!(definition.name, "lookup");
    assert_eq!(definition.description, "Look up a value by key");
    assert_eq!(
        definition.input_schema["properties"],
        json!({ "key": { "description": "The key to look up", "type": "string" } })
    );
}

/// The code of the section "The #[neuron_tool] macro" of neuron's book.
#[rustfmt::skip]
#[expect(unused_variables, reason = "as printed")]
mod weather {
    use neuron_tool::neuron_tool;
    use neuron_types::ToolContext;

    #[derive(Debug, serde::Serialize)]
    struct WeatherOutput { temperature: f64, conditions: String }

    #[derive(Debug, thiserror::Error)]
    #[error("weather error: {0}")]
    struct WeatherError(String);

    #[neuron_tool(name = "get_weather", description = "Get current weather for a city")]
    async fn get_weather(
        /// City name (e.g. "San Francisco")
        city: String,
        _ctx: &ToolContext,
    ) -> Result<WeatherOutput, WeatherError> {
        // The macro generates GetWeatherTool and GetWeatherArgs automatically
        Ok(WeatherOutput { temperature: 72.0, conditions: "sunny".into() })
    }

    #[tokio::test]
    async fn neuron_tool_generates_a_tool_and_its_arguments() {
        let mut registry = neuron_tool::ToolRegistry::new();
        registry.register(GetWeatherTool);
        let ctx = ToolContext::default();
        let input = serde_json::json!({ "city": "Bern" });
        let output = registry.execute("get_weather", input.clone(), &ctx).await.unwrap();
        let expected = serde_json::json!({ "temperature": 72.0, "conditions": "sunny" });
        assert_eq!(output.structured_content, Some(expected));

        let schema = &registry.definitions()[0].input_schema;
        assert_eq!(schema["properties"]["city"]["description"], "City name (e.g. \"San Francisco\")");

        let args: GetWeatherArgs = serde_json::from_value(input).unwrap();
        let output: Result<WeatherOutput, WeatherError> = get_weather(args.city, &ctx).await;
        assert_eq!(output.unwrap().conditions, "sunny");
        assert_eq!(WeatherError("no city".into()).to_string(), "weather error: no city");
    }
}

// The derive macro on a struct of arguments.

fn default_max_lines() -> Option<usize> {
    Some(2)
}

#[derive(Tool, schemars::JsonSchema)]
#[tool(name = "read_file", description = "Read contents of a file")]
struct ReadFile {
    /// Absolute path to the file to read
    path: String,
    /// Maximum number of lines to read
    #[serde(default = "default_max_lines")]
    max_lines: Option<usize>,
}

impl RunTool for ReadFile {
    type Output = String;
    type Error = ToolError;

    async fn run(self, _ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(format!("{} lines of {}", self.max_lines.unwrap_or(usize::MAX), self.path))
    }
}

#[tokio::test]
async fn derive_tool_makes_a_struct_a_tool() {
    let mut registry = neuron_tool::ToolRegistry::new();
    registry.register(ReadFileTool);
    let ctx = ToolContext::default();
    let output = registry.execute("read_file", json!({ "path": "/a" }), &ctx).await.unwrap();
    assert_eq!(output.content[0].to_string(), "2 lines of /a");

    let definition = ReadFileTool.definition();
    assert_eq!((ReadFile::NAME, definition.name.as_str()), ("read_file", "read_file"));
    assert_eq!(definition.description, "Read contents of a file");
    assert_eq!(definition.input_schema, serde_json::Value::from(schemars::schema_for!(ReadFile)));
    assert_eq!(definition.input_schema["properties"]["max_lines"]["default"], json!(2));
}

/// The macros in the prelude are not those that this file imports.
mod prelude {
    use neuron::prelude::*;
    use serde_json::json;

    #[tokio::test]
    async fn prelude_exports_the_macros() {
        /// Adds two numbers
        #[neuron_tool(effect = Pure)]
        async fn add(a: i64, b: i64) -> Result<i64, ToolError> {
            Ok(a + b)
        }

        /// Negates a number
        #[derive(Tool, schemars::JsonSchema)]
        struct Negate {
            number: i64,
        }

        impl RunTool for Negate {
            type Output = i64;
            type Error = ToolError;

            async fn run(self, _ctx: &ToolContext) -> Result<i64, ToolError> {
                Ok(-self.number)
            }
        }

        let mut registry = ToolRegistry::new();
        registry.register(AddTool);
        registry.register(NegateTool);
        let ctx = ToolContext::default();
        let output = registry.execute("add", json!({ "a": 1, "b": 2 }), &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "3");
        let output = registry.execute("negate", json!({ "number": 3 }), &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "-3");
    }
}
