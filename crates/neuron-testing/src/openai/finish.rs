//! Converts stop reasons to the strings of Chat Completions.

use neuron_types::StopReason;

/// Returns the string that Chat Completions sends as `finish_reason`.
///
/// Chat Completions has few finish reasons. A stop sequence, a refusal and most other reasons become `stop`.
pub(super) fn finish_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}
