//! Stop reasons in the words of Chat Completions.

use neuron_types::StopReason;

/// Returns the vendor's word for a stop reason.
///
/// Most stop reasons have no word of their own. A stop sequence, a refusal and others become `stop`.
#[must_use]
pub fn finish_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(reason) => reason,
        _ => "stop",
    }
}

/// Returns the stop reason for the vendor's word.
#[must_use]
pub fn finish_reason_from_wire(word: &str) -> StopReason {
    match word {
        "stop" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::ContentFilter,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        for word in ["stop", "tool_calls", "length", "content_filter", "new_reason"] {
            assert_eq!(finish_reason_to_wire(&finish_reason_from_wire(word)), word);
        }
        assert_eq!(finish_reason_to_wire(&StopReason::Refusal), "stop");
        assert_eq!(finish_reason_to_wire(&StopReason::StopSequence), "stop");
    }
}
