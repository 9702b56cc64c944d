//! Stop reasons in the vendor's words.

use neuron_types::StopReason;

/// Returns the vendor's word for a stop reason.
///
/// The vendor has no word for [`StopReason::ContentFilter`] and says `refusal`.
#[must_use]
pub fn stop_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Compaction => "compaction",
        StopReason::PauseTurn => "pause_turn",
        StopReason::ContentFilter | StopReason::Refusal => "refusal",
        StopReason::ContextWindowExceeded => "model_context_window_exceeded",
        StopReason::Other(reason) => reason,
        // Not one that this crate knows.
        _ => "end_turn",
    }
}

/// Returns the stop reason for the vendor's word.
#[must_use]
pub fn stop_reason_from_wire(word: &str) -> StopReason {
    match word {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "compaction" => StopReason::Compaction,
        "pause_turn" => StopReason::PauseTurn,
        "refusal" => StopReason::Refusal,
        "model_context_window_exceeded" => StopReason::ContextWindowExceeded,
        other => StopReason::Other(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        let words = [
            "end_turn",
            "tool_use",
            "max_tokens",
            "stop_sequence",
            "compaction",
            "pause_turn",
            "refusal",
            "model_context_window_exceeded",
            "new_reason",
        ];
        for word in words {
            assert_eq!(stop_reason_to_wire(&stop_reason_from_wire(word)), word);
        }
        assert_eq!(stop_reason_to_wire(&StopReason::ContentFilter), "refusal");
    }
}
