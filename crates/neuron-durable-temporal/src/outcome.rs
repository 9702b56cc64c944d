//! The stored outcome of a run, a result or a failure ([`RunOutcome`] and [`RunFailure`]).

use std::fmt;

use neuron_types::{AgentResult, DurableError, LoopError, PendingApproval};
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::mailbox::Untaken;

/// Maximum length of an error's text in a failure, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// The outcome of a successful run, which its workflow returns. It is shortened if it does not fit into a payload.
///
/// `Debug` does not show the conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Version of the stored format, [`RunOutcome::VERSION`] of the release that wrote it.
    pub version: u32,
    /// Result of the run.
    pub result: AgentResult,
    /// Set if parts of the result were left out. The messages are left out first, and then the end of the response.
    ///
    /// Parts are left out if the outcome is nested too deeply. Without a payload store, they are also left out if the
    /// outcome is longer than [`TemporalOptions::record_limit`](crate::TemporalOptions::record_limit).
    #[serde(default)]
    pub is_cut: bool,
}

impl RunOutcome {
    /// Version of the stored format that this release writes.
    pub const VERSION: u32 = 1;

    /// Serialises an outcome with at most `limit` bytes. Parts of the result are left out if it is longer.
    pub(crate) fn within(result: AgentResult, limit: usize) -> Result<Json<Self>, DurableError> {
        let mut outcome = Self { version: Self::VERSION, result, is_cut: false };
        // A result that is nested too deeply cannot be serialised, and is shortened like a result that is too long.
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
        // A byte of text takes one to six bytes in JSON.
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

/// The reason why a run has no result. The workflow of the run ends with a Temporal failure, whose details contain this
/// value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFailure {
    /// Stable name of the error, as [`LoopError::kind`] returns it.
    pub kind: String,
    /// Text of the error, shortened if it is too long.
    pub message: String,
    /// Calls that wait for a decision, with the state of their run, after [`LoopError::ApprovalRequired`]. `None` after
    /// any other error, or if the state does not fit into a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Box<PendingApproval>>,
    /// Signals that the run had not received when it failed. The run gets them if it is
    /// [revived](neuron_durable::DurableRuns::revive). Empty if they do not fit into a payload.
    #[serde(default, skip_serializing_if = "Untaken::is_empty")]
    pub(crate) signals: Untaken,
}

impl RunFailure {
    pub(crate) fn new(kind: impl Into<String>, message: String) -> Self {
        Self { kind: kind.into(), message, pending: None, signals: Untaken::default() }
    }

    /// Returns `true` if the run ended because nobody decided on its calls in time.
    pub(crate) fn needs_decisions(&self) -> bool {
        self.kind == "ApprovalRequired"
    }

    /// Creates the failure of a run. If its JSON would have more than `limit` bytes, the signals are left out first,
    /// and then the pending calls.
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

/// Shortens a text to at most `most` bytes, at a character boundary.
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
    fn outcome_that_is_too_long_is_cut_to_the_limit() {
        let small = result("hi".into(), vec![Message::user("hi")]);
        let whole = RunOutcome::within(small.clone(), 4096).unwrap().read().unwrap();
        assert_eq!((whole.result, whole.is_cut), (small, false));

        let long = result("hi".into(), vec![Message::user("x".repeat(5000))]);
        let json = RunOutcome::within(long, 4096).unwrap();
        let outcome = json.read().unwrap();
        assert!(json.len() <= 4096 && outcome.is_cut && outcome.result.messages.is_empty());
        assert_eq!((outcome.result.response.as_str(), outcome.result.turns), ("hi", 3));

        // A control character takes six bytes in JSON. A crab has four bytes, and must not be cut inside.
        for text in ["\u{1}".repeat(5000), "🦀".repeat(5000)] {
            let json = RunOutcome::within(result(text.clone(), Vec::new()), 4096).unwrap();
            let outcome = json.read().unwrap();
            assert!(json.len() <= 4096 && outcome.is_cut, "{}", json.len());
            assert!(!outcome.result.response.is_empty());
            assert!(text.starts_with(&outcome.result.response));
        }
    }

    #[test]
    fn outcome_that_is_nested_too_deeply_is_cut() {
        // The outcome nests an input deeper than the record of a response. So some inputs fit only into the record.
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
    fn failure_keeps_pending_calls_only_if_they_fit() {
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
