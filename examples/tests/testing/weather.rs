// The tests of a weather agent, with recorded responses of the model. The book shows this file.
//
// This comment is no `//!` comment, because `testing.rs` includes this file as a module.

// ANCHOR: agent
use neuron::prelude::*;

#[derive(serde::Serialize)]
struct Weather {
    celsius: f64,
    sky: &'static str,
}

/// Returns the current weather in a city, in degrees Celsius.
#[neuron_tool(effect = Pure)]
async fn get_weather(
    /// The city, for instance "Tokyo"
    city: String,
) -> Result<Weather, ToolError> {
    match city.as_str() {
        "" => Err(ToolError::ModelRetry("the city must not be empty".into())),
        _ => Ok(Weather { celsius: 22.5, sky: "sunny" }),
    }
}

/// Converts degrees Celsius to degrees Fahrenheit.
#[neuron_tool(effect = Pure)]
async fn to_fahrenheit(
    /// Degrees Celsius
    celsius: f64,
) -> Result<f64, ToolError> {
    Ok(celsius * 9.0 / 5.0 + 32.0)
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    tools.register(ToFahrenheitTool);
    tools
}

fn weather_agent(provider: impl Provider + 'static, tools: ToolRegistry) -> Agent {
    Agent::builder(provider)
        .tools(tools)
        .system_prompt("You are a weather assistant. Use the tools; never guess a temperature.")
        .max_turns(8)
        .build()
}

const QUESTION: &str = "What's the weather in San Francisco, in Fahrenheit?";
// ANCHOR_END: agent

// ANCHOR: script
use neuron_testing::{Reply, ScriptedProvider};
use serde_json::json;

#[tokio::test]
async fn agent_corrects_its_arguments() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedProvider::new([
        Reply::tool_call("call_1", "get_weather", json!({ "city": "" })),
        Reply::tool_call("call_2", "get_weather", json!({ "city": "Oslo" })),
        Reply::text("It is sunny in Oslo."),
    ]);
    let agent = weather_agent(model.clone(), tools());
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "How is the weather in Oslo?").await?;
    assert_eq!(result.response, "It is sunny in Oslo.");

    // The second request has the tool's error as the result of the first call.
    let second = &model.requests()[1];
    assert!(format!("{:?}", second.messages).contains("the city must not be empty"));
    model.assert_complete(); // The agent made exactly these three calls.
    Ok(())
}
// ANCHOR_END: script

// ANCHOR: record
use neuron::anthropic::Anthropic;
use neuron_testing::Cassette;

/// Returns the model of the tests. A replay needs no key.
fn recorded_model() -> Cassette<Anthropic> {
    let model = Anthropic::from_env().unwrap_or_else(|_| Anthropic::new(""));
    Cassette::new("tests/cassettes/weather.json", model)
}

#[tokio::test]
async fn agent_answers_in_fahrenheit() -> Result<(), Box<dyn std::error::Error>> {
    let model = recorded_model();
    let agent = weather_agent(model.clone(), tools());
    let result = agent.run(&mut Conversation::new(), QUESTION).await?;
    assert!(result.response.contains("72.5"), "{}", result.response);
    assert_eq!(result.turns, 3);
    model.assert_complete(); // Each recorded exchange was used.
    Ok(())
}
// ANCHOR_END: record

// ANCHOR: evaluate
use neuron_testing::evals::{Case, Check, Eval};

#[tokio::test]
async fn agent_uses_its_tools() {
    let eval = Eval::new("weather").case(
        Case::new("san-francisco", QUESTION)
            .check(Check::calls_with("get_weather", json!({"city": "San Francisco"})))
            .check(Check::call_order(["get_weather", "to_fahrenheit"]))
            .check(Check::response_contains("°F"))
            .check(Check::max_turns(4))
            .check(Check::max_tokens(5_000)),
    );
    let agent = weather_agent(recorded_model(), tools());
    let report = eval
        .run(async |case| {
            let mut conversation = Conversation::new();
            let result = agent.run(&mut conversation, case.input()).await?;
            Ok::<_, LoopError>(result.with_messages(&conversation))
        })
        .await;
    println!("{report}");
    report.assert_pass_rate(1.0);
}
// ANCHOR_END: evaluate

// ANCHOR: faults
use std::sync::Arc;
use std::time::Duration;

use neuron::durable_sqlite::SqliteDurableContext;
use neuron::types::{BoxError, RetryPolicy};
use neuron_testing::faults::FaultTest;

#[tokio::test]
async fn agent_survives_faults() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("runs.db");
    // Shorter delays than in production, so that the test takes seconds.
    let retries =
        RetryPolicy { initial_interval: Duration::from_millis(1), ..RetryPolicy::default() };
    let report = FaultTest::new()
        .runs(100)
        .run(async |trial| {
            let model = recorded_model();
            trial
                .execute(async || {
                    // This is the process, which starts again after a crash.
                    let model = Arc::new(trial.provider(model.clone()));
                    let (tools, mut watched) = (tools(), ToolRegistry::new());
                    for tool in tools.names().filter_map(|name| tools.get(name)) {
                        watched.register_dyn(trial.tool_dyn(tool));
                    }
                    let watched = Arc::new(watched);
                    let agent = weather_agent(model.clone(), ToolRegistry::clone(&watched))
                        .to_builder()
                        .config(|config| config.llm_activity.retry_policy = Some(retries.clone()))
                        .build();
                    let durable =
                        SqliteDurableContext::open(&journal, &trial.run_id(), model, watched)
                            .await?;
                    let start = durable.start(QUESTION).await?;
                    let mut conversation = Conversation::new();
                    let run = agent.run(&mut conversation, start).durable(trial.context(durable));
                    Ok::<_, BoxError>(run.await?.response)
                })
                .await;
        })
        .await;
    println!("{report}");
    report.assert_kept();
    Ok(())
}
// ANCHOR_END: faults
