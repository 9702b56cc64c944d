//! Converts stop reasons to Ollama's strings.

use neuron_types::StopReason;

/// Returns the string that Ollama sends as `done_reason`.
///
/// Ollama has few reasons. For example, a response with tool calls has `stop`.
pub(super) fn done_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}
