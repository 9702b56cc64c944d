//! Stop reasons in the words of Chat Completions.

use neuron_types::StopReason;

/// Returns the vendor's word for a stop reason.
///
/// Most stop reasons have no word of their own. A stop sequence, a refusal and others become `stop`.
pub(super) fn finish_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}
