//! Tests the chapter "Quickstart" of neuron's book. Contains the printed program, and runs its parts against a local
//! server.

#![expect(dead_code, unused_imports, reason = "the program talks to Anthropic, so it is only compiled")]

use neuron::prelude::*;
use neuron_provider_anthropic::Anthropic;
use neuron_tool::ToolRegistry;
use neuron_loop::AgentLoop;
use neuron_context::SlidingWindowStrategy;
use neuron_types::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// 1. Define a tool
struct GetWeather;

impl Tool for GetWeather {
    const NAME: &'static str = "get_weather";
    type Args = WeatherArgs;
    type Output = String;
    type Error = std::io::Error;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "get_weather".to_string(),
            title: None,
            description: "Get the current weather for a city".to_string(),
            input_schema: schemars::schema_for!(WeatherArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: WeatherArgs, _ctx: &ToolContext) -> Result<String, std::io::Error> {
        Ok(format!("Weather in {}: 72°F, sunny", args.city))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct WeatherArgs {
    /// The city to get weather for
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 2. Set up a provider
    let provider = Anthropic::from_env()?;

    // 3. Register tools
    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);

    // 4. Create the context strategy
    let context = SlidingWindowStrategy::new(10, 100_000);

    // 5. Build and run the agent loop
    let mut agent = AgentLoop::builder(provider, context)
        .tools(tools)
        .system_prompt("You are a helpful weather assistant.")
        .max_turns(5)
        .build();

    let ctx = ToolContext::default();
    let result = agent.run(Message::user("What's the weather in San Francisco?"), &ctx).await?;
    println!("{}", result.response);
    Ok(())
}

// The printed program ends here.

#[tokio::test]
async fn quickstart_program_runs_the_tool() {
    use neuron_testing::{AnthropicServer, Reply};
    use serde_json::json;

    let server = AnthropicServer::start([
        Reply::tool_call("toolu_1", "get_weather", json!({ "city": "San Francisco" })),
        Reply::text("It is 72°F and sunny in San Francisco."),
    ])
    .await
    .unwrap();
    let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);
    let mut agent = AgentLoop::builder(provider, SlidingWindowStrategy::new(10, 100_000))
        .tools(tools)
        .system_prompt("You are a helpful weather assistant.")
        .max_turns(5)
        .build();

    let ctx = ToolContext::default();
    let result = agent.run(Message::user("What's the weather in San Francisco?"), &ctx).await.unwrap();
    assert_eq!(result.response, "It is 72°F and sunny in San Francisco.");
    assert_eq!(result.turns, 2);
    let schema = &agent.tools().definitions()[0].input_schema;
    assert_eq!(schema["properties"]["city"]["description"], "The city to get weather for");
    assert_eq!(
        result.messages[2].content,
        [ContentBlock::ToolResult {
            tool_use_id: "toolu_1".into(),
            content: vec![ContentItem::Text("Weather in San Francisco: 72°F, sunny".into())],
            is_error: false,
        }]
    );
}
