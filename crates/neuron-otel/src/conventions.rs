//! The versions of the semantic conventions, and the names that differ between them.

use neuron_types::StopReason;

/// The version of the semantic conventions, which defines the names of spans, attributes and metrics.
///
/// OpenTelemetry's GenAI conventions are in development. Their names change, and observability backends adopt changes
/// at different times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SemanticConventions {
    /// Version 1.41.0 of April 2026, which is the last numbered version.
    #[default]
    V1_41,
    /// The state of the repository `open-telemetry/semantic-conventions-genai` in October 2026 (schema 1.42.0-dev). Its
    /// metrics differ from the [conventions 1.41](Self::V1_41), and some attributes have new names. The names will
    /// change with that repository.
    ///
    /// The environment variable `OTEL_SEMCONV_STABILITY_OPT_IN` selects this version if it contains
    /// `gen_ai_latest_experimental`.
    Latest,
    /// The names in neuron's book, the published description of neuron's API.
    ///
    /// These names differ from the [conventions 1.41](Self::V1_41): `gen_ai.chat`, `gen_ai.execute_tool`,
    /// `gen_ai.loop.iteration`, `gen_ai.context.compaction`, `gen_ai.system`, `gen_ai.response.stop_reason` and
    /// `gen_ai.tool.is_error`. All other names, including the names of metrics, are the same.
    Book,
}

impl SemanticConventions {
    pub(crate) fn is_latest(self) -> bool {
        self == Self::Latest
    }

    pub(crate) fn is_book(self) -> bool {
        self == Self::Book
    }

    /// Returns the name of a span, which consists of the operation and the target, such as a model. The target is left
    /// out if it is unknown. The conventions `Book` use fixed names for model calls and tool calls.
    pub(crate) fn span_name(self, operation: &str, target: &str) -> String {
        match (self, operation) {
            (Self::Book, "chat" | "execute_tool") => format!("gen_ai.{operation}"),
            _ if target.is_empty() => operation.to_owned(),
            _ => format!("{operation} {target}"),
        }
    }

    /// Returns the finish reason for the content of a response. Returns `None` for the latest conventions, in which the
    /// finish reason is only an attribute of the span.
    pub(crate) fn finish_reason_in_response(self, reason: &StopReason) -> Option<&str> {
        (!self.is_latest()).then(|| finish_reason(reason))
    }
}

/// Returns the finish reason in OpenTelemetry's conventions for a stop reason of neuron.
pub(crate) fn finish_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::ContentFilter | StopReason::Refusal => "content_filter",
        other => stop_reason(other),
    }
}

/// Returns neuron's name of a stop reason.
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
