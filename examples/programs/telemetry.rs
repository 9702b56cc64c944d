//! Prints the OpenTelemetry spans of a run, first without and then with the content of the conversation.

use std::error::Error;

use neuron::anthropic::Anthropic;
use neuron::otel::{ContentCapture, ContentKind, OtelHook};
use neuron::prelude::*;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("{city}: 14 °C, dry"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: setup
    let exporter = InMemorySpanExporter::default();
    let traces = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let spans = tracing_opentelemetry::layer().with_tracer(traces.tracer("weather-service"));
    // `rmcp` is the SDK of MCP. Its log contains complete messages.
    let exported =
        Targets::new().with_default(LevelFilter::INFO).with_target("rmcp", LevelFilter::OFF);
    tracing_subscriber::registry().with(spans.with_filter(exported)).init();
    // ANCHOR_END: setup

    println!("without content");
    ask(OtelHook::new()).await?;
    print(&exporter.get_finished_spans()?);

    exporter.reset();
    println!("\nwith content");
    // ANCHOR: content
    let hook =
        OtelHook::new().with_content(ContentCapture::Spans).with_redaction(|kind, content| {
            match kind {
                // The definitions of the tools are long.
                ContentKind::ToolDefinitions => None,
                ContentKind::ToolArguments => Some(json!("removed")),
                _ => Some(content),
            }
        });
    // ANCHOR_END: content
    ask(hook).await?;
    print(&exporter.get_finished_spans()?);

    traces.shutdown()?;
    Ok(())
}

// ANCHOR: agent
async fn ask(hook: OtelHook) -> Result<(), Box<dyn Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent =
        Agent::builder(Anthropic::from_env()?).name("weather").tools(tools).hook(hook).build();
    // The session id becomes the attribute `gen_ai.conversation.id`.
    let ctx = ToolContext { session_id: "chat-42".into(), ..Default::default() };
    agent.run(&mut Conversation::new(), "How is the weather in Oslo?").context(&ctx).await?;
    Ok(())
}
// ANCHOR_END: agent

/// Prints the name and some attributes of each span, in the order in which the spans have ended.
fn print(spans: &[SpanData]) {
    for span in spans {
        println!("{}", span.name);
        for attribute in &span.attributes {
            let name = attribute.key.as_str();
            let shown =
                ["gen_ai.conversation", "gen_ai.usage", "gen_ai.response.finish", "gen_ai.input"]
                    .iter()
                    .chain(&["gen_ai.output.messages", "gen_ai.tool"])
                    .any(|prefix| name.starts_with(prefix));
            if shown {
                println!("  {name} = {}", attribute.value);
            }
        }
    }
}
