//! Export of spans and metrics to memory.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, Sampler, SdkTracerProvider, ShouldSample, SpanData,
};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::open_spans::OpenSpans;

/// A `tracing` subscriber and a meter provider that export to memory. The subscriber is the default of the current
/// thread.
pub(crate) struct Memory {
    spans: InMemorySpanExporter,
    tracer: SdkTracerProvider,
    metrics: InMemoryMetricExporter,
    pub(crate) meter: SdkMeterProvider,
    pub(crate) open: OpenSpans,
    _guard: DefaultGuard,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self::sampling(Sampler::AlwaysOn)
    }

    pub(crate) fn sampling(sampler: impl ShouldSample + 'static) -> Self {
        let spans = InMemorySpanExporter::default();
        let tracer = SdkTracerProvider::builder()
            .with_simple_exporter(spans.clone())
            .with_sampler(sampler)
            .build();
        let metrics = InMemoryMetricExporter::default();
        let meter = SdkMeterProvider::builder().with_periodic_exporter(metrics.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(tracer.tracer("test"));
        let open = OpenSpans::default();
        let subscriber = tracing_subscriber::registry().with(layer).with(open.clone());
        let guard = tracing::subscriber::set_default(subscriber);
        Self { spans, tracer, metrics, meter, open, _guard: guard }
    }

    /// Returns the spans that have ended.
    pub(crate) fn spans(&self) -> Vec<SpanData> {
        self.tracer.force_flush().unwrap();
        self.spans.get_finished_spans().unwrap()
    }

    /// Returns a layer for another subscriber. It exports to this memory and tracks open spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.tracer("test"))
            .and_then(self.open.clone())
    }

    /// Removes the collected spans.
    pub(crate) fn clear(&self) {
        self.spans.reset();
    }

    /// Returns the ended spans of this name, in the order in which they began.
    pub(crate) fn named(&self, name: &str) -> Vec<SpanData> {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        spans.sort_by_key(|span| span.start_time);
        spans
    }

    /// Returns the only span of this name.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> SpanData {
        let mut spans = self.named(name);
        assert_eq!(spans.len(), 1, "{name}: {}", self.tree());
        spans.remove(0)
    }

    /// Checks that every span has ended. If a span has a parent, the parent must exist, begin before the span, and end
    /// after it.
    #[track_caller]
    pub(crate) fn check_closed(&self) {
        self.check_closed_below(None);
    }

    /// Makes the checks of [`check_closed`](Self::check_closed), but accepts spans whose parent is the span of another
    /// process.
    #[track_caller]
    pub(crate) fn check_closed_below_remote(&self) {
        self.check_closed_below(Some("00f067aa0ba902b7"));
    }

    #[track_caller]
    fn check_closed_below(&self, remote: Option<&str>) {
        assert_eq!(self.open.names(), Vec::<&str>::new(), "{}", self.tree());
        let spans = self.spans();
        for span in &spans {
            let id = span.parent_span_id;
            if id == SpanId::INVALID || remote == Some(id.to_string().as_str()) {
                continue;
            }
            let parent = spans.iter().find(|parent| parent.span_context.span_id() == id);
            let parent = parent.unwrap_or_else(|| panic!("{} is lost", span.name));
            assert!(span.start_time >= parent.start_time, "{} begins early", span.name);
            assert!(
                span.end_time <= parent.end_time,
                "{} ends {:?} after {}\n{}",
                span.name,
                span.end_time.duration_since(parent.end_time),
                parent.name,
                self.tree()
            );
        }
    }

    /// Returns all recorded metrics as text.
    pub(crate) fn all_measured(&self) -> String {
        self.meter.force_flush().unwrap();
        format!("{:?}", self.metrics.get_finished_metrics().unwrap())
    }

    /// Returns the spans as a tree in text form. Each line contains the name of a span. If the span failed, the
    /// description of its status follows after a `!`.
    pub(crate) fn tree(&self) -> String {
        let spans = self.spans();
        let mut children: HashMap<SpanId, Vec<&SpanData>> = HashMap::new();
        let known: Vec<SpanId> = spans.iter().map(|span| span.span_context.span_id()).collect();
        let mut roots = Vec::new();
        for span in &spans {
            match known.contains(&span.parent_span_id) {
                true => children.entry(span.parent_span_id).or_default().push(span),
                false => roots.push(span),
            }
        }
        let mut text = String::new();
        lines(&mut roots, &children, 0, &mut text);
        text
    }

    /// Returns the points of a metric. The key of a point is the text of its attributes. The value is the number of
    /// measurements or, for an instrument of integers, their sum.
    pub(crate) fn measured(&self, name: &str) -> BTreeMap<String, u64> {
        self.meter.force_flush().unwrap();
        let all: Vec<ResourceMetrics> = self.metrics.get_finished_metrics().unwrap();
        let mut found = BTreeMap::new();
        for metric in all.iter().flat_map(|all| all.scope_metrics()).flat_map(|of| of.metrics()) {
            if metric.name() != name {
                continue;
            }
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        found.insert(attributes(point.attributes()), point.count());
                    }
                }
                AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        found.insert(attributes(point.attributes()), point.sum());
                    }
                }
                AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                    for point in sum.data_points() {
                        found.insert(attributes(point.attributes()), point.value());
                    }
                }
                other => panic!("{name} is {other:?}"),
            }
        }
        found
    }
}

fn lines(
    spans: &mut [&SpanData],
    children: &HashMap<SpanId, Vec<&SpanData>>,
    depth: usize,
    text: &mut String,
) {
    spans.sort_by_key(|span| span.start_time);
    for span in spans {
        let error = match &span.status {
            Status::Error { description } => format!(" ! {description}"),
            _ => String::new(),
        };
        writeln!(text, "{:indent$}{}{error}", "", span.name, indent = depth * 2).unwrap();
        let mut below = children.get(&span.span_context.span_id()).cloned().unwrap_or_default();
        lines(&mut below, children, depth + 1, text);
    }
}

/// Returns the name of a span's parent, or an empty text if the span is a root.
pub(crate) fn parent_of<'a>(span: &SpanData, spans: &'a [SpanData]) -> &'a str {
    let parent = spans.iter().find(|parent| {
        parent.span_context.span_id() == span.parent_span_id
            && parent.span_context.trace_id() == span.span_context.trace_id()
    });
    parent.map_or("", |parent| parent.name.as_ref())
}

/// Returns an attribute of a span as text, or `None` if the span does not have it.
pub(crate) fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let mut found = span.attributes.iter().filter(|attribute| attribute.key.as_str() == name);
    let first = found.next().map(|attribute| attribute.value.to_string());
    assert!(found.next().is_none(), "{name} is recorded twice");
    first
}

fn attributes<'a>(attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>) -> String {
    let mut texts: Vec<String> =
        attributes.map(|attribute| format!("{}={}", attribute.key, attribute.value)).collect();
    texts.sort();
    texts.join(" ")
}
