//! The result of an invocation of a run ([`RunOutcome`]).

use neuron_types::{AgentResult, LoopError, PendingApproval, stored_json};
use serde::{Deserialize, Serialize};

/// Maximum size of an outcome in bytes. Restate accepts messages of up to 32 MiB.
const LIMIT: usize = 16 << 20;

/// The result of an invocation of a run, which is the agent's result or the error that ended the run.
///
/// A cancelled run has no outcome. Its invocation fails with code 409.
///
/// # The JSON
///
/// A run that ended with a result:
///
/// ```json
/// {
///   "run_id": "inv_1jBYtRjjtGLN5RwBAhfldnsWCHgYQaXvHM",
///   "result": {
///     "response": "Your parcel comes tomorrow.",
///     "messages": [],
///     "usage": {"input_tokens": 1200, "output_tokens": 80},
///     "turns": 2,
///     "stop_reason": "end_turn"
///   }
/// }
/// ```
///
/// If nobody approved or denied the pending calls in time, `error` has the kind `ApprovalRequired`. The field `pending`
/// then has the state from which the run can be revived. The [crate's page](crate#pending-calls-as-json) shows the
/// format of `pending`. In an outcome, `pending` also contains the conversation in `messages`, and `effects` if tools
/// declared effect keys.
///
/// # Example
///
/// ```
/// use neuron_durable_restate::RunOutcome;
///
/// let answer = r#"{"run_id": "inv_1", "error": {"kind": "UsageLimitExceeded", "text": "too many"}}"#;
/// let outcome: RunOutcome = serde_json::from_str(answer)?;
/// assert_eq!(outcome.into_result().unwrap_err().kind, "UsageLimitExceeded");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Id of the run, which is the id of its first invocation.
    pub run_id: String,
    /// Result of the agent. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<AgentResult>,
    /// Error that ended the run. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// State of a run that ended with the error `ApprovalRequired`. `None` for any other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Box<PendingApproval>>,
    /// Set if the conversation was left out, because the outcome would exceed 16 MiB.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages_omitted: bool,
}

/// The error that ended a run, in a form that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct RunError {
    /// Stable name of the error, as [`LoopError::kind`] returns it.
    pub kind: String,
    /// Text of the error.
    pub text: String,
}

impl RunOutcome {
    /// Creates the outcome of a run. The conversation is left out if the outcome is too long for Restate.
    pub(crate) fn new(run_id: String, result: Result<AgentResult, LoopError>) -> Self {
        let mut outcome =
            Self { run_id, result: None, error: None, pending: None, messages_omitted: false };
        match result {
            Ok(result) => outcome.result = Some(result),
            Err(error) => {
                outcome.error = Some(RunError::from(&error));
                if let LoopError::ApprovalRequired(pending) = error {
                    outcome.pending = Some(pending);
                }
            }
        }
        outcome.fit();
        outcome
    }

    /// Returns the result of the run.
    ///
    /// # Errors
    ///
    /// The error that ended the run.
    pub fn into_result(self) -> Result<AgentResult, RunError> {
        let missing = || RunError {
            kind: "Other".into(),
            text: "the answer has neither a result nor an error".into(),
        };
        match (self.result, self.error) {
            (Some(result), _) => Ok(result),
            (None, error) => Err(error.unwrap_or_else(missing)),
        }
    }

    /// Removes the conversation if the JSON of the outcome is longer than [`LIMIT`].
    fn fit(&mut self) {
        let mut json = Vec::new();
        if stored_json::write(&mut json, &self).is_ok() && json.len() <= LIMIT {
            return;
        }
        self.messages_omitted = self.result.is_some() || self.pending.is_some();
        if let Some(result) = &mut self.result {
            result.messages = Vec::new();
        }
        if let Some(pending) = &mut self.pending {
            **pending = pending.without_messages();
        }
    }
}

impl From<&LoopError> for RunError {
    fn from(error: &LoopError) -> Self {
        Self { kind: error.kind().to_owned(), text: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use neuron_types::{LoopError, Message, PendingApproval, PendingCall, ToolCall};
    use serde_json::json;

    use super::{LIMIT, RunOutcome};

    #[test]
    fn long_conversations_of_nested_agents_are_left_out() {
        let mut nested = PendingApproval::new("r/inside", Vec::new());
        nested.messages = vec![Message::user("x".repeat(LIMIT))];
        let call = ToolCall { id: "c".into(), name: "ask".into(), input: json!({}) };
        let mut call = PendingCall::new(call, "?");
        call.nested = Some(Box::new(nested));
        let pending = Box::new(PendingApproval::new("r", vec![call]));
        let outcome = RunOutcome::new("r".into(), Err(LoopError::ApprovalRequired(pending)));
        assert!(outcome.messages_omitted);
        let pending = outcome.pending.unwrap();
        let nested = pending.calls[0].nested.as_ref().unwrap();
        assert!(nested.messages.is_empty() && nested.run_id == "r/inside");
    }
}
