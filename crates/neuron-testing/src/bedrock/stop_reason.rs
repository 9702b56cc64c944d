//! Converts stop reasons to Bedrock's strings.

use neuron_types::StopReason;

/// Returns the string that Bedrock sends as `stopReason`.
///
/// Bedrock has no string for a refusal, a pause or a compaction. A refusal is sent as `content_filtered`, and the other
/// two as `end_turn`.
#[must_use]
pub fn stop_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::ContentFilter | StopReason::Refusal => "content_filtered",
        StopReason::ContextWindowExceeded => "model_context_window_exceeded",
        StopReason::Other(reason) => reason,
        _ => "end_turn",
    }
}
