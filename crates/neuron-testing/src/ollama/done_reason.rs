//! Stop reasons in Ollama's words.

use neuron_types::StopReason;

/// Returns Ollama's word for a stop reason.
///
/// Ollama has few words. For example, a response with tool calls has `stop` too.
#[must_use]
pub fn done_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}

/// Returns the stop reason for Ollama's word. `stop` may have several causes and becomes `EndTurn`.
#[must_use]
pub fn done_reason_from_wire(word: &str) -> StopReason {
    match word {
        "stop" => StopReason::EndTurn,
        "length" => StopReason::MaxTokens,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        for word in ["stop", "length", "load", "unload", "new_reason"] {
            assert_eq!(done_reason_to_wire(&done_reason_from_wire(word)), word);
        }
        assert_eq!(done_reason_to_wire(&StopReason::ToolUse), "stop");
    }
}
