//! An application's telemetry pipeline, with `tracing`, the layer, the SDK, and OTLP over HTTP.
//!
//! It is the default of one thread, so that parallel tests do not mix.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, NumberDataPoint};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};

use super::attributes::Attributes;
use super::client::Client;
use super::receiver::Receiver;
use super::tree::Forest;

/// Longer than any test.
const MAX_TEST_TIME: Duration = Duration::from_secs(600);

/// A running pipeline. Its receiver gets the spans of the thread that started it.
#[derive(Debug)]
pub(crate) struct Telemetry {
    default: DefaultGuard,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    /// Dropped last, because the providers send pending data when they are dropped, with long retries.
    receiver: Receiver,
}

/// The received telemetry.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) spans: Vec<Span>,
    pub(crate) metrics: Vec<Metric>,
}

impl Telemetry {
    /// Starts a pipeline that samples everything.
    pub(crate) fn start() -> Self {
        Self::with_sampler(Sampler::AlwaysOn)
    }

    pub(crate) fn with_sampler(sampler: Sampler) -> Self {
        Self::with(sampler, Targets::new().with_default(LevelFilter::TRACE))
    }

    /// Starts a pipeline that samples everything and does not export spans of this target.
    pub(crate) fn without(target: &str) -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with(Sampler::AlwaysOn, all.with_target(target, LevelFilter::OFF))
    }

    /// Starts a pipeline that samples everything and exports during the test.
    pub(crate) fn at_once() -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with_delay(Sampler::AlwaysOn, all, Duration::from_millis(5))
    }

    /// Starts a pipeline that exports at the end or on demand.
    fn with(sampler: Sampler, targets: Targets) -> Self {
        Self::with_delay(sampler, targets, MAX_TEST_TIME)
    }

    fn with_delay(sampler: Sampler, targets: Targets, delay: Duration) -> Self {
        let receiver = Receiver::start();
        let client = Client(receiver.runtime().clone());
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_endpoint(format!("{}/v1/traces", receiver.url()))
            .build()
            .unwrap();
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{}/v1/metrics", receiver.url()))
            .build()
            .unwrap();
        let config = BatchConfigBuilder::default().with_scheduled_delay(delay).build();
        let spans = BatchSpanProcessor::builder(spans).with_batch_config(config).build();
        let tracers =
            SdkTracerProvider::builder().with_sampler(sampler).with_span_processor(spans).build();
        let metrics = PeriodicReader::builder(metrics).with_interval(MAX_TEST_TIME).build();
        let meters = SdkMeterProvider::builder().with_reader(metrics).build();
        let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer("neuron"));
        let layer = layer.with_filter(targets);
        let subscriber = tracing_subscriber::registry().with(layer);
        let default = tracing::subscriber::set_default(subscriber);
        Self { default, tracers, meters, receiver }
    }

    /// Returns the meter provider for hooks.
    pub(crate) fn meters(&self) -> &SdkMeterProvider {
        &self.meters
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Flushes, and returns the exporter's error. The SDK waits five seconds for spans, and then reports an error.
    pub(crate) fn flush(&self) -> Result<(), String> {
        self.tracers.force_flush().map_err(|error| error.to_string())?;
        self.meters.force_flush().map_err(|error| error.to_string())
    }

    /// Flushes, and returns all received telemetry, without open spans.
    pub(crate) fn finish(self) -> Exported {
        drop(self.default);
        self.tracers.shutdown_with_timeout(MAX_TEST_TIME).unwrap();
        // This flush has no time limit. A shutdown waits only five seconds, and sends the same again.
        self.meters.force_flush().unwrap();
        let _ = self.meters.shutdown();
        Exported { spans: self.receiver.spans(), metrics: self.receiver.metrics() }
    }
}

impl Exported {
    pub(crate) fn forest(&self) -> Forest {
        Forest::new(&self.spans)
    }

    /// Returns a metric by its name.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> &Metric {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| {
            let names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
            panic!("no metric {name}, but {names:?}")
        })
    }

    /// Returns the names of all metrics, in order.
    pub(crate) fn metric_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the points of a metric, each with its attributes, its number of measurements (one for a counter) and its
    /// sum.
    #[track_caller]
    pub(crate) fn points(&self, name: &str) -> Vec<(Attributes, u64, f64)> {
        match &self.metric(name).data {
            Some(Data::Histogram(histogram)) => {
                let point = |point: &HistogramDataPoint| {
                    (Attributes::new(&point.attributes), point.count, point.sum.unwrap())
                };
                histogram.data_points.iter().map(point).collect()
            }
            Some(Data::Sum(sum)) => {
                let point = |point: &NumberDataPoint| match point.value {
                    Some(Number::AsInt(value)) => {
                        (Attributes::new(&point.attributes), 1, value as f64)
                    }
                    other => panic!("{name} counts in {other:?}"),
                };
                sum.data_points.iter().map(point).collect()
            }
            other => panic!("{name} is {other:?}"),
        }
    }
}
