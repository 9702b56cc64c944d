//! The spans of turns. Only [`SemanticConventions::Book`](crate::SemanticConventions::Book) has such spans.

use tracing::Span;

/// Creates the span of a turn as a child of `run`, the span of the run.
pub(crate) fn begin(run: &Span, turn: usize) -> Span {
    run.in_scope(|| {
        tracing::info_span!(
            target: "neuron_otel",
            "gen_ai.loop.iteration",
            otel.kind = "internal",
            gen_ai.r#loop.turn = i64::try_from(turn).unwrap_or(i64::MAX),
        )
    })
}
