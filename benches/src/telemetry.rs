//! Runs turns of the agent loop with several configurations of telemetry.

use std::time::Duration;

use neuron_otel::{ContentCapture, OtelHook};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::layer::SubscriberExt;

use crate::turn::{Cost, Unlimited, run_watched};

/// A configuration of telemetry whose cost is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// The agent has no telemetry hook.
    NoHook,
    /// The agent has an `OtelHook`, but there is neither a tracing subscriber nor a meter provider.
    Nobody,
    /// An OpenTelemetry layer whose sampler drops every span. The hook's metrics are disabled.
    SamplingOffOnly,
    /// An OpenTelemetry layer whose sampler drops every span. The hook's metrics are enabled, without a meter provider.
    SamplingOff,
    /// An OpenTelemetry layer whose sampler drops every span, and a meter provider.
    SamplingOffMetrics,
    /// An OpenTelemetry layer that samples every span, with an exporter that discards the spans.
    NoOpExporter,
    /// Like [`NoOpExporter`](Self::NoOpExporter), with a meter provider.
    NoOpExporterMetrics,
    /// Like [`NoOpExporter`](Self::NoOpExporter). The spans also record the content of messages.
    Content,
}

impl Listening {
    /// All configurations. The first one, without a hook, is the baseline of the comparison.
    pub const ALL: [Self; 8] = [
        Self::NoHook,
        Self::Nobody,
        Self::SamplingOffOnly,
        Self::SamplingOff,
        Self::SamplingOffMetrics,
        Self::NoOpExporter,
        Self::NoOpExporterMetrics,
        Self::Content,
    ];

    /// Returns the name of the configuration for the table of results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoHook => "no hook",
            Self::Nobody => "hook, nobody listens",
            Self::SamplingOffOnly => "sampling off, `without_metrics`",
            Self::SamplingOff => "sampling off",
            Self::SamplingOffMetrics => "sampling off, metrics",
            Self::NoOpExporter => "no-op exporter",
            Self::NoOpExporterMetrics => "no-op exporter, metrics",
            Self::Content => "no-op exporter, content",
        }
    }

    /// Runs an agent for `turns` turns with one tool call each. Returns the cost of each turn.
    ///
    /// # Errors
    ///
    /// Returns the error of the run.
    pub fn run(self, turns: usize) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
        let hook = OtelHook::new();
        let sampler = match self {
            Self::NoHook => return run_watched(turns, Unlimited, None::<OtelHook>),
            Self::Nobody => return run_watched(turns, Unlimited, Some(hook)),
            Self::SamplingOffOnly | Self::SamplingOff | Self::SamplingOffMetrics => {
                Sampler::AlwaysOff
            }
            Self::NoOpExporter | Self::NoOpExporterMetrics | Self::Content => Sampler::AlwaysOn,
        };
        let meter = SdkMeterProvider::builder().with_periodic_exporter(Nowhere).build();
        let hook = match self {
            Self::SamplingOffMetrics | Self::NoOpExporterMetrics => {
                hook.with_meter_provider(&meter)
            }
            Self::SamplingOffOnly => hook.without_metrics(),
            Self::Content => hook.with_content(ContentCapture::Spans),
            _ => hook,
        };
        let tracer = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_simple_exporter(Nowhere)
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(tracer.tracer("bench"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || run_watched(turns, Unlimited, Some(hook)))
    }
}

/// A span exporter that discards all spans.
#[derive(Debug)]
struct Nowhere;

impl SpanExporter for Nowhere {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

impl PushMetricExporter for Nowhere {
    async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
