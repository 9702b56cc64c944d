//! The export pipeline of an application, with `tracing`, the OpenTelemetry layer, the SDK, and OTLP over HTTP.
//!
//! The pipeline receives only the spans of the thread that starts it, and not those of tests on other threads.

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

/// A time that is longer than any test.
const MAX_TEST_TIME: Duration = Duration::from_secs(600);

/// A running export pipeline. Its receiver gets the spans of the thread that started it.
#[derive(Debug)]
pub(crate) struct Telemetry {
    default: DefaultGuard,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    /// Receiver of the pipeline. Must be the last field and so be dropped last. The other fields send pending data when
    /// they are dropped, and retry for a long time if there is no receiver.
    receiver: Receiver,
}

/// The telemetry that the receiver got.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) spans: Vec<Span>,
    pub(crate) metrics: Vec<Metric>,
}

impl Telemetry {
    /// Starts a pipeline that samples all traces.
    pub(crate) fn start() -> Self {
        Self::with_sampler(Sampler::AlwaysOn)
    }

    pub(crate) fn with_sampler(sampler: Sampler) -> Self {
        Self::with(sampler, Targets::new().with_default(LevelFilter::TRACE))
    }

    /// Starts a pipeline that samples all traces and does not export spans of the given target.
    pub(crate) fn without(target: &str) -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with(Sampler::AlwaysOn, all.with_target(target, LevelFilter::OFF))
    }

    /// Starts a pipeline that samples all traces and exports spans during the test.
    pub(crate) fn at_once() -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with_delay(Sampler::AlwaysOn, all, Duration::from_millis(5))
    }

    /// Starts a pipeline that exports only at the end or when it is flushed.
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

    /// Returns the meter provider, for the hooks of a test.
    pub(crate) fn meters(&self) -> &SdkMeterProvider {
        &self.meters
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Flushes the pipeline, and returns the error of the exporter. The SDK waits five seconds for spans and then
    /// reports an error.
    pub(crate) fn flush(&self) -> Result<(), String> {
        self.tracers.force_flush().map_err(|error| error.to_string())?;
        self.meters.force_flush().map_err(|error| error.to_string())
    }

    /// Flushes the pipeline and returns all received telemetry. Spans that have not ended are not exported.
    pub(crate) fn finish(self) -> Exported {
        drop(self.default);
        self.tracers.shutdown_with_timeout(MAX_TEST_TIME).unwrap();
        // This flush has no timeout. A shutdown would wait only five seconds and send the same data again.
        self.meters.force_flush().unwrap();
        let _ = self.meters.shutdown();
        Exported { spans: self.receiver.spans(), metrics: self.receiver.metrics() }
    }
}

impl Exported {
    pub(crate) fn forest(&self) -> Forest {
        Forest::new(&self.spans)
    }

    /// Returns the metric with this name. Panics if there is none.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> &Metric {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| {
            let names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
            panic!("no metric {name}, but {names:?}")
        })
    }

    /// Returns the sorted names of all metrics.
    pub(crate) fn metric_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the points of a metric. Each point has its attributes, its number of measurements (one for a counter)
    /// and its sum.
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
                    Some(Number::AsDouble(value)) => (Attributes::new(&point.attributes), 1, value),
                    None => panic!("{name} has a point without a value"),
                };
                sum.data_points.iter().map(point).collect()
            }
            other => panic!("{name} is {other:?}"),
        }
    }
}
