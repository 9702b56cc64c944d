//! An agent whose runs are logged by a `TracingHook`. Its model is scripted, so it needs no key and no network.
//!
//! Run it with `cargo run -p neuron-runtime --example tracing_hook`. By default it logs runs and compactions. With
//! `RUST_LOG=debug` it also logs every model call and every tool call. Log lines of a tool are inside the span of the
//! tool's call.

use std::error::Error;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_runtime::TracingHook;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ProviderError, ToolContext, ToolError};
use serde_json::json;
use tracing_subscriber::EnvFilter;

/// Returns the current weather in a city
#[neuron_tool]
async fn get_weather(
    /// The city to get the weather for
    city: String,
) -> Result<String, ToolError> {
    // This line is inside the span of its call, even if several calls run concurrently.
    tracing::info!("asking the weather service");
    match city.as_str() {
        "Atlantis" => Err(ToolError::ModelRetry("there is no such city".into())),
        _ => Ok("22 °C, sunny".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).without_time().init();

    // The small window makes the agent compact the conversation during the run.
    let mut agent =
        AgentLoop::builder(ScriptedProvider::new(script()), SlidingWindowStrategy::new(4, 70))
            .tools(tools())
            .parallel_tool_execution(true)
            .hook(TracingHook::new())
            .build();
    let ctx = ToolContext { session_id: "chat-42".into(), ..Default::default() };

    let result = agent.run_text("How is the weather in Tokyo, Oslo and Atlantis?", &ctx).await?;
    println!("\nagent: {}\n", result.response);

    // The error of a failed run contains the reason.
    let error = agent.run_text("And tomorrow?", &ctx).await.expect_err("the script has an error");
    println!("\nerror: {error}");
    Ok(())
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    tools
}

/// Returns the scripted responses of the example's model.
fn script() -> [Reply; 4] {
    let call = |id, city| (id, "get_weather", json!({ "city": city }));
    [
        Reply::tool_calls([call("call_1", "Tokyo"), call("call_2", "Oslo")]),
        Reply::tool_calls([call("call_3", "Atlantis")]),
        Reply::text("Sunny in Tokyo and Oslo; Atlantis I cannot find."),
        Reply::error(ProviderError::ServiceUnavailable("529 overloaded".into())),
    ]
}
