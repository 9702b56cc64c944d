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

// ANCHOR: server
use neuron::anthropic::Anthropic;
use neuron_testing::AnthropicServer;

#[tokio::test]
async fn agent_calls_a_server() -> Result<(), Box<dyn std::error::Error>> {
    let server = AnthropicServer::start([
        Reply::tool_call("call_1", "get_weather", json!({ "city": "Oslo" })),
        Reply::text("It is sunny in Oslo."),
    ])
    .await?;
    let model = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    let agent = weather_agent(model, tools());
    let result = agent.run(&mut Conversation::new(), "How is the weather in Oslo?").await?;
    assert_eq!(result.response, "It is sunny in Oslo.");

    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].path, "/v1/messages");
    // The second request has the tool's result. `bodies` returns the JSON of the requests.
    assert!(server.bodies()[1]["messages"].to_string().contains("22.5"));
    server.assert_complete(); // Each reply was used.
    Ok(())
}
// ANCHOR_END: server

// ANCHOR: record
use neuron_testing::Cassette;

/// Returns the model of the tests. A replay needs no key.
fn recorded_model() -> Cassette<Anthropic> {
    let model = Anthropic::from_env().unwrap_or_else(|_| Anthropic::new(""));
    Cassette::new("tests/cassettes/weather.json", model)
}

#[tokio::test]
async fn agent_answers_in_fahrenheit() {
    let model = recorded_model();
    let agent = weather_agent(model.clone(), tools());
    let run = agent.run(&mut Conversation::new(), QUESTION).await;
    // `?` would print the error on one line, in the format of `Debug`.
    let result = run.unwrap_or_else(|error| panic!("{error}"));
    assert!(result.response.contains("72.5"), "{}", result.response);
    assert_eq!(result.turns, 3);
    model.assert_complete(); // Each recorded exchange was used.
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
    let report = eval
        .run(async |case| {
            // Each run has a cassette of its own, because a cassette replays a recording once.
            let agent = weather_agent(recorded_model(), tools());
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
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use neuron::durable_sqlite::SqliteDurableContext;
use neuron::types::{BoxError, RetryPolicy};
use neuron_testing::faults::{FaultTest, Trial};

/// Runs the agent until its end. The test calls this function again after a crash, like a process that starts again.
async fn process(
    trial: &Trial,
    journal: &Path,
    model: impl Provider + 'static,
    tools: &ToolRegistry,
    ctx: &ToolContext,
) -> Result<String, BoxError> {
    let model = Arc::new(trial.provider(model));
    let mut watched = ToolRegistry::new();
    for tool in tools.names().filter_map(|name| tools.get(name)) {
        watched.register_dyn(trial.tool_dyn(tool));
    }
    let watched = Arc::new(watched);
    // Shorter delays than in production, so that the test takes seconds.
    let retries =
        RetryPolicy { initial_interval: Duration::from_millis(1), ..RetryPolicy::default() };
    let agent = weather_agent(model.clone(), ToolRegistry::clone(&watched))
        .to_builder()
        .config(|config| config.llm_activity.retry_policy = Some(retries))
        .build();
    let durable = SqliteDurableContext::open(journal, &trial.run_id(), model, watched).await?;
    let start = durable.start(QUESTION).await?;
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, start).context(ctx).durable(trial.context(durable));
    Ok(run.await?.response)
}

#[tokio::test]
async fn agent_survives_faults() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("runs.db");
    let (tools, ctx) = (tools(), ToolContext::default());
    let report = FaultTest::new()
        .runs(100)
        .run(async |trial| {
            let model = recorded_model();
            trial
                .execute(async || process(trial, &journal, model.clone(), &tools, &ctx).await)
                .await;
        })
        .await;
    println!("{report}");
    report.assert_kept();
    Ok(())
}
// ANCHOR_END: faults

// ANCHOR: effects
use std::sync::Mutex;

use neuron_testing::faults::Report;

/// A fake of a service that sends text messages. It stores the key and the text of each message.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<Vec<(String, String)>>>);

impl Service {
    /// Sends a message, unless an earlier request had the same key.
    fn send(&self, key: &str, text: String) {
        let mut sent = self.0.lock().unwrap();
        if sent.iter().all(|(known, _)| known != key) {
            sent.push((key.to_owned(), text));
        }
    }

    fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
    }
}

/// Sends a text message to the user.
#[neuron_tool(effect = Idempotent)]
async fn send_message(text: String, ctx: &ToolContext) -> Result<String, ToolError> {
    let service = ctx.extensions.get::<Service>();
    let service = service.ok_or_else(|| ToolError::ExecutionFailed("no service".into()))?;
    service.send(&ctx.idempotency_key, text);
    Ok("sent".into())
}

/// Tests an agent that calls the tool `send_message` of `tools`.
async fn test_message(tools: ToolRegistry) -> Result<Report, BoxError> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("runs.db");
    let report = FaultTest::new()
        .runs(50)
        .run(async |trial| {
            let model = ScriptedProvider::new([
                Reply::tool_call("call_1", "send_message", json!({ "text": "It is sunny." })),
                Reply::text("I sent the message."),
            ]);
            // The service is not part of the process, so it survives a crash.
            let service = Service::default();
            let mut ctx = ToolContext::default();
            ctx.extensions.insert(service.clone());
            trial.effects(move || service.texts());
            trial
                .execute(async || process(trial, &journal, model.clone(), &tools, &ctx).await)
                .await;
        })
        .await;
    Ok(report)
}

#[tokio::test]
async fn message_is_sent_once() -> Result<(), BoxError> {
    let mut tools = ToolRegistry::new();
    tools.register(SendMessageTool);
    test_message(tools).await?.assert_kept();
    Ok(())
}
// ANCHOR_END: effects

// ANCHOR: found
use neuron_testing::faults::BrokenPromise;

/// Sends a text message to the user. The mistake is that each attempt has another key.
#[neuron_tool(name = "send_message", effect = Idempotent)]
async fn send_again(text: String, ctx: &ToolContext) -> Result<String, ToolError> {
    let service = ctx.extensions.get::<Service>();
    let service = service.ok_or_else(|| ToolError::ExecutionFailed("no service".into()))?;
    service.send(&format!("{:?}", std::time::Instant::now()), text);
    Ok("sent".into())
}

#[tokio::test]
async fn repeated_message_is_found() -> Result<(), BoxError> {
    let mut tools = ToolRegistry::new();
    tools.register(SendAgainTool);
    let report = test_message(tools).await?;
    let mut broken = report.broken.iter().flat_map(|run| &run.broken);
    let is_found = broken.any(|it| matches!(it, BrokenPromise::EffectRepeated { .. }));
    assert!(is_found, "{report}");
    Ok(())
}
// ANCHOR_END: found
