//! Whether a span is made, and below which.

use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use tracing::Span;

use crate::config::Config;
use crate::run_state::RunState;

/// Makes the span of an operation of a run.
pub(crate) fn of_run(
    config: &Config,
    run: Option<&Arc<RunState>>,
    make: impl FnOnce() -> Span,
) -> Span {
    // Known of the run, so that nothing is asked of what is current.
    if !config.unsampled && run.is_some_and(|run| run.is_unsampled()) {
        return Span::none();
    }
    below(run.and_then(RunState::parent), || unless_unsampled(config, make))
}

/// Whether a context is of a trace that is not sampled.
pub(crate) fn is_unsampled(context: &Context) -> bool {
    let span = context.span();
    let place = span.span_context();
    place.is_valid() && !place.is_sampled()
}

/// Makes a span, unless the trace around it is not sampled: then what is below would not be either.
pub(crate) fn unless_unsampled(config: &Config, make: impl FnOnce() -> Span) -> Span {
    let is_left_out = !config.unsampled && Context::map_current(is_unsampled);
    if is_left_out { Span::none() } else { make() }
}

/// Makes a span below another; without one, below what is current.
fn below(parent: Option<Span>, make: impl FnOnce() -> Span) -> Span {
    match parent {
        // Not as its `parent`, so that a context of OpenTelemetry without a span counts where it is disabled.
        Some(parent) => parent.in_scope(make),
        None => make(),
    }
}
