//! Converts stop reasons to Anthropic's strings.

use neuron_types::StopReason;

/// Returns the string that Anthropic sends as `stop_reason`.
///
/// Anthropic has no string for [`StopReason::ContentFilter`], which becomes `refusal`.
#[must_use]
pub fn stop_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Compaction => "compaction",
        StopReason::PauseTurn => "pause_turn",
        StopReason::Refusal | StopReason::ContentFilter => "refusal",
        StopReason::ContextWindowExceeded => "model_context_window_exceeded",
        StopReason::Other(reason) => reason,
        // `StopReason` is non-exhaustive. A variant that this crate does not know becomes `end_turn`.
        _ => "end_turn",
    }
}
