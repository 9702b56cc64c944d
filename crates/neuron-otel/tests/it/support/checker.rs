//! A checker that compares exported telemetry with the definitions of the conventions, and reports every difference.

mod content;
mod metrics;
mod spans;
mod values;

use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::conventions::{Conventions, Version};
use super::telemetry::Exported;

/// A checker for one version of the conventions.
#[derive(Debug)]
pub(crate) struct Checker {
    conventions: Conventions,
    /// `true` if the telemetry may contain content (prompts, responses, arguments and results).
    content: bool,
}

impl Checker {
    /// Creates a checker that reports attributes with content (prompts, responses, arguments and results) as problems.
    pub(crate) fn new(version: Version) -> Self {
        Self { conventions: Conventions::load(version), content: false }
    }

    /// Creates a checker that accepts attributes with content (prompts, responses, arguments and results).
    pub(crate) fn with_content(version: Version) -> Self {
        Self { content: true, ..Self::new(version) }
    }

    /// Returns a problem for each difference between the spans and the conventions. Ignores spans without an attribute
    /// of the conventions, because they belong to the application.
    pub(crate) fn spans(&self, spans: &[Span]) -> Vec<String> {
        let all = |span: &Span| {
            let problems = self.span(span);
            problems
                .into_iter()
                .map(|problem| format!("span `{}`: {problem}", span.name))
                .collect::<Vec<_>>()
        };
        spans.iter().flat_map(all).collect()
    }

    /// Returns a problem for each difference between the metrics and the conventions. Ignores metrics of other
    /// namespaces, because they belong to the application.
    pub(crate) fn metrics(&self, metrics: &[Metric]) -> Vec<String> {
        let all = |metric: &Metric| {
            let problems = self.metric(metric);
            problems
                .into_iter()
                .map(|problem| format!("metric `{}`: {problem}", metric.name))
                .collect::<Vec<_>>()
        };
        metrics.iter().flat_map(all).collect()
    }

    /// Panics if the exported telemetry differs from the conventions.
    #[track_caller]
    pub(crate) fn assert_holds(&self, exported: &Exported) {
        let mut problems = self.spans(&exported.spans);
        problems.extend(self.metrics(&exported.metrics));
        let spans = exported.forest();
        assert!(problems.is_empty(), "{}\nthe spans are:\n{spans:?}", problems.join("\n"));
    }
}
