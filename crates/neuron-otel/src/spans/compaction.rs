//! The spans of compactions. OpenTelemetry's conventions define no such spans, so the names are neuron's.

use std::sync::Arc;

use neuron_types::Outcome;
use tracing::Span;
use tracing::field::Empty;

use crate::config::Config;
use crate::record::Record;
use crate::run_state::{Activity, Kind, RunState};
use crate::span_parent::of_run;
use crate::span_scope::{Ending, Recorder, SpanScope};

/// Records the span attributes of a compaction of the conversation when the compaction ends.
pub(crate) struct CompactionRecorder {
    config: Arc<Config>,
    run: Option<Arc<RunState>>,
}

/// Begins a compaction of a conversation with `old_tokens` tokens.
pub(crate) fn open(
    config: &Arc<Config>,
    run: Option<Arc<RunState>>,
    old_tokens: usize,
) -> SpanScope<CompactionRecorder> {
    let old_tokens = i64::try_from(old_tokens).unwrap_or(i64::MAX);
    let make = || match config.conventions.is_book() {
        true => tracing::info_span!(
            target: "neuron_otel",
            "gen_ai.context.compaction",
            otel.kind = "internal",
            otel.status_code = Empty,
            otel.status_description = Empty,
            "error.type" = Empty,
            gen_ai.context.old_tokens = old_tokens,
            gen_ai.context.new_tokens = Empty,
        ),
        false => tracing::info_span!(
            target: "neuron_otel",
            "neuron.context.compaction",
            otel.kind = "internal",
            otel.status_code = Empty,
            otel.status_description = Empty,
            "error.type" = Empty,
            neuron.context.old_tokens = old_tokens,
            neuron.context.new_tokens = Empty,
        ),
    };
    let span = of_run(config, run.as_ref(), make);
    let activity = Activity::new(config, run.as_ref(), Kind::Other);
    SpanScope::new(span, activity, CompactionRecorder { config: config.clone(), run })
}

impl Recorder for CompactionRecorder {
    fn ended(self, span: &Span, ending: &Ending<'_>, _: f64) {
        let new_tokens = match ending {
            Ending::Outcome(Outcome::Compacted { new_tokens }) => Some(*new_tokens),
            _ => None,
        };
        if let (Some(run), Some(_)) = (&self.run, new_tokens) {
            run.set_compacted();
        }
        let Some(record) = Record::of(span).filter(Record::is_recorded) else {
            return;
        };
        if let Some(tokens) = new_tokens {
            record.count(
                match self.config.conventions.is_book() {
                    true => "gen_ai.context.new_tokens",
                    false => "neuron.context.new_tokens",
                },
                tokens,
            );
        }
        if let Some(failure) = ending.failure(self.config.captures_error_texts()) {
            record.failure(&failure);
        }
    }
}
