//! The names that spans, attributes and metrics have, by version of the conventions.

use neuron_types::StopReason;

/// Which names and attributes are told.
///
/// The GenAI conventions of OpenTelemetry are in development: they change, and backends follow at their own pace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SemanticConventions {
    /// Version 1.41.0 of April 2026, the last one with a number.
    #[default]
    V1_41,
    /// What has become of them since, in the repository `open-telemetry/semantic-conventions-genai`, as of October
    /// 2026 (schema 1.42.0-dev): other metrics, some attributes renamed. It will change with that repository.
    ///
    /// The variable `OTEL_SEMCONV_STABILITY_OPT_IN` selects it where it lists `gen_ai_latest_experimental`.
    Latest,
    /// The names of neuron's book: `gen_ai.chat`, `gen_ai.execute_tool`, `gen_ai.loop.iteration`,
    /// `gen_ai.context.compaction`, `gen_ai.system`, `gen_ai.response.stop_reason`, `gen_ai.tool.is_error`. The
    /// metrics are those of 1.41.
    Book,
}

impl SemanticConventions {
    pub(crate) fn is_latest(self) -> bool {
        self == Self::Latest
    }

    pub(crate) fn is_book(self) -> bool {
        self == Self::Book
    }

    /// A span's name: the operation and what it is done with.
    pub(crate) fn span_name(self, operation: &str, target: &str) -> String {
        match (self, operation) {
            (Self::Book, "chat" | "execute_tool") => format!("gen_ai.{operation}"),
            _ if target.is_empty() => operation.to_owned(),
            _ => format!("{operation} {target}"),
        }
    }

    /// What a captured answer tells of why the model stopped: since 1.41 only the span does.
    pub(crate) fn reason_in_answer(self, reason: &StopReason) -> Option<&str> {
        (!self.is_latest()).then(|| finish_reason(reason))
    }
}

/// Why the model stopped, in the words of the conventions.
pub(crate) fn finish_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::ContentFilter | StopReason::Refusal => "content_filter",
        other => stop_reason(other),
    }
}

/// Why the model stopped, in neuron's words.
pub(crate) fn stop_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::ContentFilter => "content_filter",
        StopReason::Compaction => "compaction",
        StopReason::PauseTurn => "pause_turn",
        StopReason::Refusal => "refusal",
        StopReason::ContextWindowExceeded => "context_window_exceeded",
        StopReason::Other(reason) => reason,
        _ => "other",
    }
}
