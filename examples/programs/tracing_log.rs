//! Writes the log of a run with a tracing hook.

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format;
use tracing_subscriber::prelude::*;

/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    // This line is inside the span of the call, also if several calls run at the same time.
    tracing::info!("asking the weather service");
    match city.as_str() {
        "Atlantis" => Err(ToolError::ModelRetry("there is no such city".into())),
        _ => Ok(format!("{city}: 22 °C, sunny")),
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: log
    // Events of the hook and of this program, without the events of libraries.
    let targets = Targets::new()
        .with_target("neuron_runtime", LevelFilter::DEBUG)
        .with_target("tracing_log", LevelFilter::INFO);
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stdout)
        .with_ansi(false)
        // Hides the values that differ between two runs, for this example.
        .without_time()
        .fmt_fields(
            format::debug_fn(|writer, field, value| match field.name() {
                "message" => write!(writer, "{value:?}"),
                name @ ("run_id" | "duration_ms") => write!(writer, "{name}=…"),
                name => write!(writer, "{name}={value:?}"),
            })
            .delimited(" "),
        );
    tracing_subscriber::registry().with(log.with_filter(targets)).init();
    // ANCHOR_END: log

    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(Anthropic::from_env()?)
        .name("weather")
        .tools(tools)
        .hook(TracingHook::new().without_event_spans())
        .build();
    let result = agent.run(&mut Conversation::new(), "How is the weather in Atlantis?").await?;
    println!("agent: {}", result.response);
    Ok(())
}
