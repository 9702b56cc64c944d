//! Converts stop reasons to Gemini's strings.

use neuron_types::StopReason;

/// Returns the string that Gemini sends as `finishReason`.
///
/// Gemini has few reasons. A response with function calls or with a stop sequence has `STOP`. A
/// [`StopReason::Refusal`] becomes `ESCALATION`, and a refusal without content is sent as a block of the prompt
/// instead, without any finish reason.
#[must_use]
pub fn finish_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "MAX_TOKENS",
        StopReason::ContentFilter => "SAFETY",
        StopReason::Refusal => "ESCALATION",
        StopReason::Other(reason) => reason,
        _ => "STOP",
    }
}
