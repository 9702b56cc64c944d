//! The telemetry of a service: traces and metrics to a collector by OTLP over HTTP, and a log beside them.
//!
//! ```sh
//! cargo run -p neuron-otel --example telemetry
//! ```
//!
//! They go to `OTEL_EXPORTER_OTLP_ENDPOINT`, or to `http://localhost:4318`, where collectors listen; a program
//! that shows traces, Jaeger for one, takes the traces there too, and no metrics. The example says what was taken.
//! `RUST_LOG` sets what is logged, and has no influence on what is sent.
//!
//! With `ANTHROPIC_API_KEY` the agent talks to Anthropic. Without, a server in this process plays the model.

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

/// What sends traces and metrics.
struct Telemetry {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Sets the process up. Once, before anything is traced.
    fn install() -> Result<Self, Box<dyn Error>> {
        // The providers of models bring rustls without a default for its cryptography, because a library should
        // not choose one for the process. The exporter's HTTP client asks for it.
        rustls::crypto::ring::default_provider().install_default().ok();

        // Says whose telemetry it is. More can come by OTEL_RESOURCE_ATTRIBUTES.
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

        // Each with a filter of its own: a quieter log does not thin the traces out, and the attributes of the
        // agent's spans are not repeated in each line of the log.
        let spans = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer(SERVICE))
            // Five attributes less on each span: where in the source and on which thread it began.
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

    /// Sends what is left, first the traces and then the metrics. Blocks for some seconds at most.
    fn shut_down(self) -> [(&'static str, OTelSdkResult); 2] {
        // Only a flush says whether the traces arrived.
        let traces = self.traces.force_flush();
        let metrics = self.metrics.shutdown();
        self.traces.shutdown_with_timeout(Duration::from_secs(1)).ok();
        [("traces", traces), ("metrics", metrics)]
    }
}

/// Returns the current weather in a city
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    // In the log, and in the trace an event of the tool's span.
    tracing::info!("asking the weather service");
    Ok(format!("{city}: 14 °C, dry"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let telemetry = Telemetry::install()?;
    let outcome = run().await;

    // Also after a failure, which is when traces are wanted.
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
            println!("model: a server in this process plays it, for ANTHROPIC_API_KEY is not set");
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

    // The conversation's id in traces.
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

/// What the model says.
fn script() -> [Reply; 2] {
    [
        Reply::tool_call("toolu_1", "get_weather", json!({ "city": "Oslo" })),
        Reply::text("It is dry in Oslo, at 14 °C."),
    ]
}
