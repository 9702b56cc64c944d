//! Functions that check how a span ended.

use std::time::Duration;

use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;

use crate::support::memory::{Memory, attribute};

pub(crate) fn error_of(span: &SpanData) -> String {
    attribute(span, "error.type").unwrap_or_default()
}

/// Checks that the span failed with this `error.type` and the matching status.
#[track_caller]
pub(crate) fn check_failed(span: &SpanData, kind: &str) {
    assert_eq!(error_of(span), kind, "{}", span.name);
    assert!(matches!(span.status, Status::Error { .. }), "{}: {:?}", span.name, span.status);
}

#[track_caller]
pub(crate) fn check_fine(span: &SpanData) {
    assert_eq!(attribute(span, "error.type"), None, "{}", span.name);
    assert_eq!(span.status, Status::Unset, "{}", span.name);
}

pub(crate) fn duration(span: &SpanData) -> Duration {
    span.end_time.duration_since(span.start_time).unwrap()
}

/// Returns the number of operations with the name `operation` in the metrics. If `error` is set, counts only operations
/// that failed with this error type.
pub(crate) fn count(memory: &Memory, operation: &str, error: Option<&str>) -> u64 {
    let durations = memory.measured("gen_ai.client.operation.duration");
    let of = |name: &&String| {
        name.contains(&format!("gen_ai.operation.name={operation}"))
            && error.is_none_or(|error| name.contains(&format!("error.type={error} ")))
    };
    durations.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum()
}
