//! The stored outcome of a run, a result ([`outcome_within`]) or a failure ([`RunFailure`]).

use neuron_durable::{RunError, RunOutcome};
use neuron_types::{AgentResult, DurableError, LoopError, PendingApproval};
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::mailbox::Untaken;

/// Maximum length of an error's text in a failure, in bytes.
const LONGEST_TEXT: usize = 16 * 1024;

/// Serialises the outcome of a successful run with at most `limit` bytes. Parts of the result are left out if the outcome
/// is longer, or nested too deeply to be serialised. The messages are left out first, and then the end of the response.
pub(crate) fn outcome_within(
    run_id: &str,
    result: AgentResult,
    limit: usize,
) -> Result<Json<RunOutcome>, DurableError> {
    let mut outcome = RunOutcome::new(run_id, Ok(result));
    if let Ok(json) = Json::new(&outcome)
        && json.len() <= limit
    {
        return Ok(json);
    }
    outcome.remove_messages();
    let json = Json::new(&outcome)?;
    if json.len() <= limit {
        return Ok(json);
    }
    if let Some(result) = &mut outcome.result {
        // A byte of text takes one to six bytes in JSON.
        let text = &mut result.response;
        let over = json.len() - limit;
        let kept = text.len().saturating_sub(over).max(limit / 8);
        cut(text, kept);
    }
    Json::new(&outcome)
}

/// The reason why a run has no result. The workflow of the run ends with a Temporal failure, whose details contain this
/// value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunFailure {
    /// Stable name of the error, as [`LoopError::kind`] returns it.
    pub(crate) kind: String,
    /// Text of the error, shortened if it is too long.
    pub(crate) message: String,
    /// Calls that wait for a decision, with the state of their run, after [`LoopError::ApprovalRequired`]. `None` after
    /// any other error, or if the state does not fit into a payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Box<PendingApproval>>,
    /// Signals that the run had not received when it failed. The run gets them if it is
    /// [revived](neuron_durable::DurableRuns::revive). Empty if they do not fit into a payload.
    #[serde(default, skip_serializing_if = "Untaken::is_empty")]
    pub(crate) signals: Untaken,
}

impl RunFailure {
    pub(crate) fn new(kind: impl Into<String>, message: String) -> Self {
        Self { kind: kind.into(), message, pending: None, signals: Untaken::default() }
    }

    /// Converts the stored failure of the run `run_id`.
    pub(crate) fn into_outcome(self, run_id: &str) -> RunOutcome {
        let mut outcome = RunOutcome::failed(run_id, RunError::new(self.kind, self.message));
        outcome.pending = self.pending;
        outcome
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

    use super::{RunFailure, outcome_within};
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
        let whole = outcome_within("r", small.clone(), 4096).unwrap().read().unwrap();
        assert_eq!((whole.result, whole.is_cut), (Some(small), false));

        let long = result("hi".into(), vec![Message::user("x".repeat(5000))]);
        let json = outcome_within("r", long, 4096).unwrap();
        let outcome = json.read().unwrap();
        assert!(json.len() <= 4096 && outcome.is_cut);
        let kept = outcome.result.unwrap();
        assert!(kept.messages.is_empty());
        assert_eq!((kept.response.as_str(), kept.turns), ("hi", 3));

        // A control character takes six bytes in JSON. A crab has four bytes, and must not be cut inside.
        for text in ["\u{1}".repeat(5000), "🦀".repeat(5000)] {
            let json = outcome_within("r", result(text.clone(), Vec::new()), 4096).unwrap();
            let outcome = json.read().unwrap();
            assert!(json.len() <= 4096 && outcome.is_cut, "{}", json.len());
            let response = outcome.result.unwrap().response;
            assert!(!response.is_empty() && text.starts_with(&response));
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
            let outcome = outcome_within("r", result("hi".into(), vec![message]), 1 << 20).unwrap();
            let outcome = outcome.read().unwrap();
            let result = outcome.result.unwrap();
            assert_eq!(result.response, "hi");
            assert!(fits || outcome.is_cut, "{depth}");
            assert_eq!(outcome.is_cut, result.messages.is_empty());
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
