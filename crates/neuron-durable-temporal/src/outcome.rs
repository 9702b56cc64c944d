//! The outcome of a run on the server ([`RunOutcome`] and [`RunFailure`]).

use std::fmt;

use neuron_types::{AgentResult, DurableError, LoopError, PendingApproval};
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::mailbox::Untaken;

/// The longest text of an error that the server is given, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// The outcome that a run's workflow returns, which fits into a payload.
///
/// `Debug` does not show the conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Version of the form. [`RunOutcome::VERSION`] of the release that wrote it.
    pub version: u32,
    /// The run's result.
    pub result: AgentResult,
    /// True if parts were left out, because the outcome exceeds
    /// [`TemporalOptions::record_limit`](crate::TemporalOptions::record_limit) without a payload store, or is
    /// nested too deep. First the messages are left out, and then the end of the response.
    #[serde(default)]
    pub is_cut: bool,
}

impl RunOutcome {
    /// The version of the stored form that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Writes an outcome of at most this many bytes.
    pub(crate) fn within(result: AgentResult, limit: usize) -> Result<Json<Self>, DurableError> {
        let mut outcome = Self { version: Self::VERSION, result, is_cut: false };
        // What is nested too deep for a payload is cut as what is too long.
        if let Ok(json) = Json::new(&outcome)
            && json.len() <= limit
        {
            return Ok(json);
        }
        outcome.is_cut = true;
        outcome.result.messages = Vec::new();
        let json = Json::new(&outcome)?;
        if json.len() <= limit {
            return Ok(json);
        }
        // Each byte of text takes one byte in JSON at least, and six at most.
        let text = &mut outcome.result.response;
        let over = json.len() - limit;
        let kept = text.len().saturating_sub(over).max(limit / 8);
        cut(text, kept);
        Json::new(&outcome)
    }
}

impl fmt::Debug for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOutcome")
            .field("messages", &self.result.messages.len())
            .field("turns", &self.result.turns)
            .field("usage", &self.result.usage)
            .field("stop_reason", &self.result.stop_reason)
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

/// The reason for which a run has no result. It is in the details of the failure with which its workflow ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFailure {
    /// The error's [`kind`](LoopError::kind).
    pub kind: String,
    /// Its text.
    pub message: String,
    /// The state of a run that ended with [`LoopError::ApprovalRequired`], if it fits into a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Box<PendingApproval>>,
    /// Signals that nobody took, for the run when it goes on, if they fit too.
    #[serde(default, skip_serializing_if = "Untaken::is_empty")]
    pub(crate) signals: Untaken,
}

impl RunFailure {
    pub(crate) fn new(kind: impl Into<String>, message: String) -> Self {
        Self { kind: kind.into(), message, pending: None, signals: Untaken::default() }
    }

    /// Returns `true` if the run ended because nobody decided on its calls.
    pub(crate) fn needs_decisions(&self) -> bool {
        self.kind == "ApprovalRequired"
    }

    pub(crate) fn within(error: &LoopError, signals: Untaken, limit: usize) -> Self {
        let mut message = error.to_string();
        cut(&mut message, LONGEST_TEXT.min(limit / 8));
        let failure = Self::new(error.kind(), message);
        let LoopError::ApprovalRequired(pending) = error else {
            return failure;
        };
        let fits = |failure: &Self| Json::new(failure).is_ok_and(|json| json.len() <= limit);
        let mut whole = Self { pending: Some(pending.clone()), signals, ..failure.clone() };
        if !fits(&whole) {
            whole.signals = Untaken::default();
        }
        if fits(&whole) { whole } else { failure }
    }
}

/// Cuts a text to at most this many bytes, between two characters.
pub(crate) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use neuron_types::{
        AgentResult, ContentBlock, LoopError, Message, PendingApproval, ProviderError, Role,
        StopReason, TokenUsage,
    };
    use serde_json::json;

    use super::{RunFailure, RunOutcome};
    use crate::json::Json;
    use crate::mailbox::Untaken;

    fn result(response: String, messages: Vec<Message>) -> AgentResult {
        AgentResult {
            response,
            messages,
            usage: TokenUsage { input_tokens: 7, ..TokenUsage::default() },
            turns: 3,
            stop_reason: StopReason::EndTurn,
            limit_reached: None,
        }
    }

    #[test]
    fn an_outcome_fits_whatever_it_holds() {
        let small = result("hi".into(), vec![Message::user("hi")]);
        let whole = RunOutcome::within(small.clone(), 4096).unwrap().read().unwrap();
        assert_eq!((whole.result, whole.is_cut), (small, false));

        let long = result("hi".into(), vec![Message::user("x".repeat(5000))]);
        let json = RunOutcome::within(long, 4096).unwrap();
        let outcome = json.read().unwrap();
        assert!(json.len() <= 4096 && outcome.is_cut && outcome.result.messages.is_empty());
        assert_eq!((outcome.result.response.as_str(), outcome.result.turns), ("hi", 3));

        // Control characters take six bytes each, and others up to four before they are cut.
        for text in ["\u{1}".repeat(5000), "🦀".repeat(5000)] {
            let json = RunOutcome::within(result(text.clone(), Vec::new()), 4096).unwrap();
            let outcome = json.read().unwrap();
            assert!(json.len() <= 4096 && outcome.is_cut, "{}", json.len());
            assert!(!outcome.result.response.is_empty());
            assert!(text.starts_with(&outcome.result.response));
        }
    }

    #[test]
    fn an_outcome_that_is_nested_too_deep_is_cut() {
        // Each input fits into the record of its answer, and some of them not into the outcome.
        for depth in 230..270 {
            let input = (0..depth).fold(json!(1), |inner, _| json!([inner]));
            let call = ContentBlock::ToolUse { id: "c".into(), name: "t".into(), input };
            let message = Message { role: Role::Assistant, content: vec![call] };
            let fits = Json::new(&result("hi".into(), vec![message.clone()])).is_ok();
            let outcome = RunOutcome::within(result("hi".into(), vec![message]), 1 << 20).unwrap();
            let outcome = outcome.read().unwrap();
            assert_eq!(outcome.result.response, "hi");
            assert!(fits || outcome.is_cut, "{depth}");
            assert_eq!(outcome.is_cut, outcome.result.messages.is_empty());
        }
    }

    #[test]
    fn a_failure_fits_and_keeps_what_waits_if_it_can() {
        let error = LoopError::Provider(ProviderError::Other("é".repeat(30_000).into()));
        let failure = RunFailure::within(&error, Untaken::default(), 1 << 20);
        assert!(failure.kind == "Provider" && failure.message.len() <= 16 * 1024);

        let mut pending = PendingApproval::new("r", Vec::new());
        pending.messages = vec![Message::user("x".repeat(5000))];
        let error = LoopError::ApprovalRequired(Box::new(pending));
        let failure = RunFailure::within(&error, Untaken::default(), 100_000);
        assert!(failure.pending.is_some());
        let failure = RunFailure::within(&error, Untaken::default(), 4096);
        assert!(failure.pending.is_none());
    }
}
