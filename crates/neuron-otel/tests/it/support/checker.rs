//! Holds exported telemetry against the definitions of the conventions, and tells every difference.

mod content;
mod metrics;
mod spans;
mod values;

use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::conventions::{Conventions, Version};
use super::telemetry::Exported;

/// Checks against one version of the conventions.
#[derive(Debug)]
pub(crate) struct Checker {
    conventions: Conventions,
    /// Whether what one must opt in to may be there.
    content: bool,
}

impl Checker {
    /// For telemetry without content: nothing was opted in to.
    pub(crate) fn new(version: Version) -> Self {
        Self { conventions: Conventions::load(version), content: false }
    }

    /// For telemetry with content.
    pub(crate) fn with_content(version: Version) -> Self {
        Self { content: true, ..Self::new(version) }
    }

    /// What is wrong with spans; spans that say nothing of these conventions are an application's own.
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

    /// What is wrong with metrics; those of other namespaces are an application's own.
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

    /// Fails if anything is wrong.
    #[track_caller]
    pub(crate) fn assert_holds(&self, exported: &Exported) {
        let mut problems = self.spans(&exported.spans);
        problems.extend(self.metrics(&exported.metrics));
        let spans = exported.forest();
        assert!(problems.is_empty(), "{}\nthe spans are:\n{spans:?}", problems.join("\n"));
    }
}
