//! The stored form of a run's outcome ([`StoredOutcome`]).

use neuron_durable::{RunError, RunOutcome, RunStatus};
use neuron_types::{AgentResult, DurableError, LoopError, PendingApproval, StopReason, TokenUsage};
use serde::{Deserialize, Serialize};

/// The outcome of a run, without the conversation, which is in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredOutcome {
    /// Version of the stored format.
    pub(crate) version: u32,
    /// Text of the agent's response. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<String>,
    /// Reason for which the model stopped. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<StopReason>,
    /// Tokens that the run used. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
    /// Number of model calls that returned a response. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<usize>,
    /// Description of the limit that the run reached. `None` if the run reached no limit or ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit_reached: Option<String>,
    /// Stable name of the error, as [`LoopError::kind`] returns it. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error_kind: Option<String>,
    /// Text of the error. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Calls that required approval when the run ended, without the conversation. `None` if the run ended for another
    /// reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<Box<PendingApproval>>,
}

impl StoredOutcome {
    /// Version of the stored format that this release writes.
    const VERSION: u32 = 1;

    /// An outcome whose optional fields are all `None`.
    const NOTHING: Self = Self {
        version: Self::VERSION,
        response: None,
        stop_reason: None,
        usage: None,
        turns: None,
        limit_reached: None,
        error_kind: None,
        error: None,
        approval: None,
    };

    /// Returns the outcome of a run that ended with an error.
    pub(crate) fn error(kind: &str, error: String) -> Self {
        Self { error_kind: Some(kind.to_owned()), error: Some(error), ..Self::NOTHING }
    }

    /// Returns the status and the outcome to store for a run that returned `result`. Returns `None` if the run was
    /// cancelled or continues as a new execution.
    pub(crate) fn of(result: Result<&AgentResult, &LoopError>) -> Option<(RunStatus, Self)> {
        use DurableError as E;
        match result {
            Ok(result) => {
                let outcome = Self {
                    response: Some(result.response.clone()),
                    stop_reason: Some(result.stop_reason.clone()),
                    usage: Some(result.usage.clone()),
                    turns: Some(result.turns),
                    limit_reached: result.limit_reached.clone(),
                    ..Self::NOTHING
                };
                Some((RunStatus::Done, outcome))
            }
            Err(LoopError::Cancelled | LoopError::Durable(E::Cancelled | E::ContinueAsNew(_))) => {
                None
            }
            Err(error) => {
                let approval = match error {
                    LoopError::ApprovalRequired(pending) => {
                        Some(Box::new(pending.without_messages()))
                    }
                    _ => None,
                };
                let status = match error {
                    LoopError::ApprovalRequired(_) => RunStatus::Waiting,
                    LoopError::Durable(_) => RunStatus::Stalled,
                    _ => RunStatus::Failed,
                };
                let outcome = Self { approval, ..Self::error(error.kind(), error.to_string()) };
                Some((status, outcome))
            }
        }
    }
    /// Converts the stored form of the outcome of the run `run_id`.
    pub(crate) fn into_outcome(self, run_id: &str) -> RunOutcome {
        let response = self.response.unwrap_or_default();
        let mut outcome = match (self.error_kind, self.stop_reason) {
            (None, Some(stop_reason)) => {
                let result = AgentResult {
                    response,
                    messages: Vec::new(),
                    usage: self.usage.unwrap_or_default(),
                    turns: self.turns.unwrap_or_default(),
                    stop_reason,
                    limit_reached: self.limit_reached,
                };
                RunOutcome::new(run_id, Ok(result))
            }
            (kind, _) => {
                let error = RunError::new(kind.unwrap_or_default(), self.error.unwrap_or_default());
                RunOutcome::failed(run_id, error)
            }
        };
        outcome.pending = self.approval;
        outcome.remove_messages();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_outcomes_become_outcomes_without_the_conversation() {
        let read = |json| {
            let stored: StoredOutcome = serde_json::from_value(json).unwrap();
            stored.into_outcome("r")
        };
        let outcome = read(json!({
            "version": 1, "response": "hi", "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 2}, "turns": 3
        }));
        assert!(outcome.is_cut && outcome.run_id == "r");
        let result = outcome.into_result().unwrap();
        assert_eq!((&*result.response, result.usage.input_tokens, result.turns), ("hi", 1, 3));
        let approval = PendingApproval::new("r", Vec::new());
        let outcome = read(json!({
            "version": 1, "error_kind": "ApprovalRequired", "error": "it waits", "approval": approval
        }));
        assert_eq!(outcome.pending.as_deref(), Some(&approval));
        assert_eq!(outcome.error, Some(RunError::new("ApprovalRequired", "it waits")));
    }
}
