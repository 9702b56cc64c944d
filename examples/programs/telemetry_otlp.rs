//! Sends the traces and metrics of an agent to an OpenTelemetry collector with OTLP over HTTP.

use std::error::Error;

use neuron::anthropic::Anthropic;
use neuron::otel::OtelHook;
use neuron::prelude::*;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

// ANCHOR: install
/// The exporters of the process.
struct Telemetry {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Installs the exporters. Call this function once, before the first span.
    fn install() -> Result<Self, Box<dyn Error>> {
        // The HTTP client of the exporters needs a cryptography library of rustls.
        let _ = rustls::crypto::ring::default_provider().install_default();

        let resource = Resource::builder().with_service_name("weather-service").build();
        let traces = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_batch_exporter(SpanExporter::builder().with_http().build()?)
            .build();
        let metrics = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_periodic_exporter(MetricExporter::builder().with_http().build()?)
            .build();
        opentelemetry::global::set_meter_provider(metrics.clone());

        let spans = tracing_opentelemetry::layer()
            .with_tracer(traces.tracer("weather-service"))
            // Leaves out the source location and the thread of each span.
            .with_location(false)
            .with_threads(false);
        let exported =
            Targets::new().with_default(LevelFilter::INFO).with_target("rmcp", LevelFilter::OFF);
        tracing_subscriber::registry().with(spans.with_filter(exported)).init();
        Ok(Self { traces, metrics })
    }

    /// Sends the data that is not sent yet. This function blocks, so do not call it on an async task.
    fn shut_down(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (traces, metrics) = (self.traces.force_flush(), self.metrics.shutdown());
        self.traces.shutdown().ok();
        Ok(traces.and(metrics)?)
    }
}
// ANCHOR_END: install

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let telemetry = Telemetry::install()?;
    let agent =
        Agent::builder(Anthropic::from_env()?).name("weather").hook(OtelHook::new()).build();
    let result = agent.run(&mut Conversation::new(), "Is it dry in Oslo in May?").await?;
    println!("agent: {}", result.response);

    match tokio::task::spawn_blocking(|| telemetry.shut_down()).await? {
        Ok(()) => println!("the telemetry was sent"),
        Err(_) => println!("no collector accepted the telemetry"),
    }
    Ok(())
}
