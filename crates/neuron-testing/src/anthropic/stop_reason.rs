//! Stop reasons in the vendor's words.

use neuron_types::StopReason;

const WORDS: [(&str, StopReason); 8] = [
    ("end_turn", StopReason::EndTurn),
    ("tool_use", StopReason::ToolUse),
    ("max_tokens", StopReason::MaxTokens),
    ("stop_sequence", StopReason::StopSequence),
    ("compaction", StopReason::Compaction),
    ("pause_turn", StopReason::PauseTurn),
    ("refusal", StopReason::Refusal),
    ("model_context_window_exceeded", StopReason::ContextWindowExceeded),
];

/// Returns the vendor's word for a stop reason.
///
/// The vendor has no word for [`StopReason::ContentFilter`] and sends `refusal`.
#[must_use]
pub fn stop_reason_to_wire(reason: &StopReason) -> &str {
    match reason {
        StopReason::Other(reason) => reason,
        StopReason::ContentFilter => "refusal",
        // A reason that this crate does not know becomes `end_turn`.
        reason => WORDS.iter().find(|(_, it)| it == reason).map_or("end_turn", |(word, _)| word),
    }
}

/// Returns the stop reason for the vendor's word.
#[must_use]
pub fn stop_reason_from_wire(word: &str) -> StopReason {
    let known = WORDS.into_iter().find(|(known, _)| *known == word);
    known.map_or_else(|| StopReason::Other(word.to_owned()), |(_, reason)| reason)
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
