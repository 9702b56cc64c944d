//! Stop reasons in the vendor's words.

use neuron_types::StopReason;

/// Returns the vendor's word for a stop reason.
///
/// The vendor has no word for [`StopReason::ContentFilter`] and sends `refusal`.
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
        // A reason that this crate does not know becomes `end_turn`.
        _ => "end_turn",
    }
}
