//! Stop reasons in Ollama's words.

use neuron_types::StopReason;

/// Returns Ollama's word for a stop reason.
///
/// Ollama has few words. For example, a response with tool calls has `stop` too.
pub(super) fn done_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}
