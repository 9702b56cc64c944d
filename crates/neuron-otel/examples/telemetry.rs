//! Exports the traces and metrics of a service to a collector with OTLP over HTTP, and writes a log.
//!
//! ```sh
//! cargo run -p neuron-otel --example telemetry
//! ```
//!
//! The data is sent to the URL in `OTEL_EXPORTER_OTLP_ENDPOINT`. The default is `http://localhost:4318`, the default
//! URL of collectors. A trace viewer such as Jaeger accepts the traces at this URL, but not the metrics. The example
//! prints whether the collector accepted the data. `RUST_LOG` controls the log, and does not affect the exported data.
//!
//! With `ANTHROPIC_API_KEY` the agent uses Anthropic. Without it, a server in this process acts as the model.

use std::env;
use std::error::Error;
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, Conversation};
use neuron_otel::OtelHook;
use neuron_provider_anthropic::Anthropic;
use neuron_testing::{AnthropicServer, Reply};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

const SERVICE: &str = "weather-service";

/// The exporters of traces and metrics.
struct Telemetry {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Installs the telemetry of the process. Call this function once, before the first span.
    fn install() -> Result<Self, Box<dyn Error>> {
        // neuron's providers use rustls without a default crypto provider, because a library should not choose one for
        // the process. The exporter's HTTP client requires a default.
        rustls::crypto::ring::default_provider().install_default().ok();

        // The name of the service. OTEL_RESOURCE_ATTRIBUTES may add attributes.
        let service = env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| SERVICE.to_owned());
        let resource = Resource::builder().with_service_name(service).build();
        let traces = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_batch_exporter(SpanExporter::builder().with_http().build()?)
            .build();
        let metrics = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_periodic_exporter(MetricExporter::builder().with_http().build()?)
            .build();
        opentelemetry::global::set_meter_provider(metrics.clone());

        // Each layer has its own filter, so a less detailed log does not reduce the traces. The log does not repeat the
        // attributes of the agent's spans.
        let spans = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer(SERVICE))
            // Without this, each span has five more attributes for its source location and its thread.
            .with_location(false)
            .with_threads(false);
        let log = EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| EnvFilter::new("info,neuron_otel=off"));
        tracing_subscriber::registry()
            .with(spans.with_filter(LevelFilter::INFO))
            .with(tracing_subscriber::fmt::layer().with_ansi(false).with_filter(log))
            .init();
        Ok(Self { traces, metrics })
    }

    /// Sends the remaining traces and then the remaining metrics. Returns the result of both exports. May block for
    /// some seconds.
    fn shut_down(self) -> [(&'static str, OTelSdkResult); 2] {
        // Only a flush reports whether the collector accepted the traces.
        let traces = self.traces.force_flush();
        let metrics = self.metrics.shutdown();
        self.traces.shutdown_with_timeout(Duration::from_secs(1)).ok();
        [("traces", traces), ("metrics", metrics)]
    }
}

/// Returns the current weather in a city
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    // This event appears in the log, and in the trace as an event of the tool's span.
    tracing::info!("asking the weather service");
    Ok(format!("{city}: 14 °C, dry"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let telemetry = Telemetry::install()?;
    let outcome = run().await;

    // The data is also sent after a failure, because traces are most useful then.
    let collector = env::var("OTEL_EXPORTER_OTLP_ENDPOINT")
        .unwrap_or_else(|_| "http://localhost:4318".to_owned());
    for (what, sent) in tokio::task::spawn_blocking(|| telemetry.shut_down()).await? {
        match sent {
            Ok(()) => println!("{what}: sent to {collector}"),
            Err(error) => println!("{what}: no collector took them at {collector} ({error})"),
        }
    }
    outcome
}

async fn run() -> Result<(), Box<dyn Error>> {
    let (provider, _server) = match env::var("ANTHROPIC_API_KEY") {
        Ok(key) if !key.trim().is_empty() => {
            println!("model: Anthropic's");
            (Anthropic::from_env()?, None)
        }
        _ => {
            println!(
                "model: a local server with scripted replies, because ANTHROPIC_API_KEY is not set"
            );
            let server = AnthropicServer::start(script()).await?;
            (Anthropic::new(AnthropicServer::API_KEY).base_url(server.url()), Some(server))
        }
    };
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    let agent = Agent::builder(provider)
        .context(SlidingWindowStrategy::new(20, 100_000))
        .name("weather")
        .tools(tools)
        .hook(OtelHook::new())
        .build();

    // The session id is the conversation id in traces.
    let ctx = ToolContext { session_id: "chat-42".into(), ..Default::default() };
    let cancellation = ctx.cancellation_token.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancellation.cancel();
        }
    });
    let mut chat = Conversation::new();
    let result = agent.run(&mut chat, "What is the weather like in Oslo?").context(&ctx).await?;
    println!("agent: {}", result.response);
    Ok(())
}

/// Returns the responses of the scripted model.
fn script() -> [Reply; 2] {
    [
        Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Oslo" })),
        Reply::text("It is dry in Oslo, at 14 °C."),
    ]
}
