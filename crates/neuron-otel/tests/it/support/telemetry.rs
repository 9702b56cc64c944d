//! An application's pipeline, as its users set it up: `tracing`, the layer, the SDK, OTLP over HTTP. It is
//! the default of one thread, so that tests beside each other do not mix.

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

/// Longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running pipeline. Spans of the thread that started it arrive at its receiver.
#[derive(Debug)]
pub(crate) struct Telemetry {
    default: DefaultGuard,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    /// The last to go: the providers send what waits when they are dropped, and try again for long.
    receiver: Receiver,
}

/// All that arrived.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) spans: Vec<Span>,
    pub(crate) metrics: Vec<Metric>,
}

impl Telemetry {
    /// Everything is sampled.
    pub(crate) fn start() -> Self {
        Self::with_sampler(Sampler::AlwaysOn)
    }

    pub(crate) fn with_sampler(sampler: Sampler) -> Self {
        Self::with(sampler, Targets::new().with_default(LevelFilter::TRACE))
    }

    /// Everything is sampled, and nothing exported that a library writes.
    pub(crate) fn without(target: &str) -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with(Sampler::AlwaysOn, all.with_target(target, LevelFilter::OFF))
    }

    /// Everything is sampled, and exported while a test goes on.
    pub(crate) fn at_once() -> Self {
        let all = Targets::new().with_default(LevelFilter::TRACE);
        Self::with_delay(Sampler::AlwaysOn, all, Duration::from_millis(5))
    }

    /// What waits is exported at the end, or when a test asks for it.
    fn with(sampler: Sampler, targets: Targets) -> Self {
        Self::with_delay(sampler, targets, PATIENCE)
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
        let metrics = PeriodicReader::builder(metrics).with_interval(PATIENCE).build();
        let meters = SdkMeterProvider::builder().with_reader(metrics).build();
        let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer("neuron"));
        let layer = layer.with_filter(targets);
        let subscriber = tracing_subscriber::registry().with(layer);
        let default = tracing::subscriber::set_default(subscriber);
        Self { default, tracers, meters, receiver }
    }

    /// For hooks: where metrics go.
    pub(crate) fn meters(&self) -> &SdkMeterProvider {
        &self.meters
    }

    pub(crate) fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// Sends what waits; what the exporter says of it. The SDK waits five seconds for spans, and then it is an error.
    pub(crate) fn flush(&self) -> Result<(), String> {
        self.tracers.force_flush().map_err(|error| error.to_string())?;
        self.meters.force_flush().map_err(|error| error.to_string())
    }

    /// Sends what waits and gives all that arrived. Spans that are still open are not among it.
    pub(crate) fn finish(self) -> Exported {
        drop(self.default);
        self.tracers.shutdown_with_timeout(PATIENCE).unwrap();
        // This waits as long as it takes. To shut down waits five seconds, and sends the same again.
        self.meters.force_flush().unwrap();
        let _ = self.meters.shutdown();
        Exported { spans: self.receiver.spans(), metrics: self.receiver.metrics() }
    }
}

impl Exported {
    pub(crate) fn forest(&self) -> Forest {
        Forest::new(&self.spans)
    }

    /// A metric by its name.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> &Metric {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| {
            let names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
            panic!("no metric {name}, but {names:?}")
        })
    }

    /// The names of all metrics, in their order.
    pub(crate) fn metric_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.metrics.iter().map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// What was measured for a metric: for each point its attributes, how many measurements it has (one for a
    /// counter) and their sum.
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
