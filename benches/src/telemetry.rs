//! A turn of the loop that is traced and measured, in the ways that an application may listen.

use std::time::Duration;

use neuron_otel::OtelHook;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tracing_subscriber::layer::SubscriberExt;

use crate::turn::{Cost, Unlimited, run_watched};

/// Who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// There is no hook.
    NoHook,
    /// Nobody: no subscriber, no meter provider.
    Nobody,
    /// A layer of OpenTelemetry that samples nothing, and no metrics.
    SamplingOffOnly,
    /// The same; metrics go to nobody.
    SamplingOff,
    /// The same, and an SDK for metrics.
    SamplingOffMetrics,
    /// A layer that samples everything, with an exporter that does nothing.
    NoOpExporter,
    /// The same, and an SDK for metrics.
    NoOpExporterMetrics,
}

impl Listening {
    /// All of them, the floor first.
    pub const ALL: [Self; 7] = [
        Self::NoHook,
        Self::Nobody,
        Self::SamplingOffOnly,
        Self::SamplingOff,
        Self::SamplingOffMetrics,
        Self::NoOpExporter,
        Self::NoOpExporterMetrics,
    ];

    /// What a table calls it.
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
        }
    }

    /// Runs an agent for so many turns of one tool call each, and returns what each cost.
    ///
    /// # Errors
    ///
    /// The run's.
    pub fn run(self, turns: usize) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
        let hook = OtelHook::new();
        let sampler = match self {
            Self::NoHook => return run_watched(turns, Unlimited, None::<OtelHook>),
            Self::Nobody => return run_watched(turns, Unlimited, Some(hook)),
            Self::SamplingOffOnly | Self::SamplingOff | Self::SamplingOffMetrics => {
                Sampler::AlwaysOff
            }
            Self::NoOpExporter | Self::NoOpExporterMetrics => Sampler::AlwaysOn,
        };
        let meter = SdkMeterProvider::builder().with_periodic_exporter(Nowhere).build();
        let hook = match self {
            Self::SamplingOffMetrics | Self::NoOpExporterMetrics => {
                hook.with_meter_provider(&meter)
            }
            Self::SamplingOffOnly => hook.without_metrics(),
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

/// An exporter that does nothing.
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
