//! Sampling and parents of new spans.

use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use tracing::Span;

use crate::config::Config;
use crate::run_state::RunState;

/// Creates the span of an operation with `make`. The span is a child of the enclosing operation, or of the run if no
/// operation encloses it. Returns a disabled span if the trace is not sampled and `config` excludes unsampled traces.
/// `run` is `None` for an operation outside of runs.
pub(crate) fn of_run(
    config: &Config,
    run: Option<&Arc<RunState>>,
    make: impl FnOnce() -> Span,
) -> Span {
    // The run caches its sampling decision, which saves a lookup of the current context.
    if !config.unsampled && run.is_some_and(|run| run.is_unsampled()) {
        return Span::none();
    }
    child_of(run.and_then(RunState::parent), || unless_unsampled(config, make))
}

/// Returns `true` if an OpenTelemetry context belongs to an unsampled trace.
pub(crate) fn is_unsampled(context: &Context) -> bool {
    let span = context.span();
    let span_context = span.span_context();
    span_context.is_valid() && !span_context.is_sampled()
}

/// Creates a span with `make`. Returns a disabled span if the current trace is not sampled and `config` excludes
/// unsampled traces. A child of an unsampled span would usually not be sampled either.
pub(crate) fn unless_unsampled(config: &Config, make: impl FnOnce() -> Span) -> Span {
    let is_left_out = !config.unsampled && Context::map_current(is_unsampled);
    if is_left_out { Span::none() } else { make() }
}

/// Creates a span with `make`, as a child of `parent`. If `parent` is `None`, the current span is the parent.
fn child_of(parent: Option<Span>, make: impl FnOnce() -> Span) -> Span {
    match parent {
        // The parent is entered instead of being set as `parent`. If the parent is disabled, the child then finds an
        // OpenTelemetry context outside of any tracing span.
        Some(parent) => parent.in_scope(make),
        None => make(),
    }
}
