//! The outcome of a run that has ended ([`RunOutcome`]).

use std::fmt;

use neuron_types::{AgentResult, LoopError, PendingApproval};
use serde::{Deserialize, Serialize};

/// The outcome of a run, which is the agent's result or the error that ended the run.
///
/// `Debug` does not show the conversation.
///
/// # The JSON
///
/// A run that ended with a result:
///
/// ```json
/// {
///   "version": 1,
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
/// then has the state from which the run can be revived.
///
/// # Example
///
/// ```
/// use neuron_durable::RunOutcome;
///
/// let json = r#"{"run_id": "run-1", "error": {"kind": "UsageLimitExceeded", "text": "too many"}}"#;
/// let outcome: RunOutcome = serde_json::from_str(json)?;
/// assert_eq!(outcome.into_result().unwrap_err().kind, "UsageLimitExceeded");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
#[non_exhaustive]
pub struct RunOutcome {
    /// Version of the JSON format, [`RunOutcome::VERSION`] of the release that wrote it.
    pub version: u32,
    /// Id of the run. Empty if the commit that stored the outcome did not store the id.
    pub run_id: String,
    /// Result of the agent. `None` if the run ended with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AgentResult>,
    /// Error that ended the run. `None` if the run ended with a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// State of a run that ended with the error `ApprovalRequired`. `None` for any other end, and if the state is too
    /// long for the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Box<PendingApproval>>,
    /// Set if the conversation was left out, or if the end of the response was cut. An engine that stores the
    /// conversation elsewhere always leaves it out. Other engines do so if the outcome is too long for them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// The JSON of an outcome. Without a result and an error it is none.
#[derive(Deserialize)]
struct Stored {
    #[serde(default = "first")]
    version: u32,
    #[serde(default)]
    run_id: String,
    result: Option<AgentResult>,
    error: Option<RunError>,
    pending: Option<Box<PendingApproval>>,
    #[serde(default, alias = "messages_omitted")]
    is_cut: bool,
}

impl TryFrom<Stored> for RunOutcome {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        let Stored { version, run_id, result, error, pending, is_cut } = stored;
        match (&result, &error) {
            (None, None) => Err(NEITHER),
            _ => Ok(Self { version, run_id, result, error, pending, is_cut }),
        }
    }
}

/// Text for an outcome that says nothing.
const NEITHER: &str = "the outcome has neither a result nor an error";

/// The error that ended a run, in a form that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
#[non_exhaustive]
pub struct RunError {
    /// Stable name of the error, as [`LoopError::kind`] returns it.
    pub kind: String,
    /// Text of the error.
    #[serde(alias = "message")]
    pub text: String,
}

impl RunOutcome {
    /// Version of the JSON format that this release writes.
    pub const VERSION: u32 = 1;

    /// Creates the outcome of a run.
    #[must_use]
    pub fn new(run_id: impl Into<String>, result: Result<AgentResult, LoopError>) -> Self {
        match result {
            Ok(result) => Self { result: Some(result), ..Self::empty(run_id) },
            Err(error) => {
                let outcome = Self::failed(run_id, RunError::from(&error));
                match error {
                    LoopError::ApprovalRequired(pending) => {
                        Self { pending: Some(pending), ..outcome }
                    }
                    _ => outcome,
                }
            }
        }
    }

    /// Creates the outcome of a run that ended with an error.
    #[must_use]
    pub fn failed(run_id: impl Into<String>, error: RunError) -> Self {
        Self { error: Some(error), ..Self::empty(run_id) }
    }

    fn empty(run_id: impl Into<String>) -> Self {
        Self {
            version: Self::VERSION,
            run_id: run_id.into(),
            result: None,
            error: None,
            pending: None,
            is_cut: false,
        }
    }

    /// Returns the result of the run.
    ///
    /// # Errors
    ///
    /// The error that ended the run.
    pub fn into_result(self) -> Result<AgentResult, RunError> {
        let missing = || RunError::new("Other", NEITHER);
        match (self.result, self.error) {
            (Some(result), _) => Ok(result),
            (None, error) => Err(error.unwrap_or_else(missing)),
        }
    }

    /// Removes the conversation, also from the pending calls and the agents inside them. Sets [`is_cut`](Self::is_cut).
    pub fn remove_messages(&mut self) {
        self.is_cut = self.is_cut || self.result.is_some() || self.pending.is_some();
        if let Some(result) = &mut self.result {
            result.messages = Vec::new();
        }
        if let Some(pending) = &mut self.pending {
            **pending = pending.without_messages();
        }
    }
}

/// Version of outcomes that were stored without a version.
fn first() -> u32 {
    1
}

impl RunError {
    /// Creates an error. `kind` is its stable name.
    pub fn new(kind: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind: kind.into(), text: text.into() }
    }
}

impl From<&LoopError> for RunError {
    fn from(error: &LoopError) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

impl fmt::Debug for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let response = self.result.as_ref().map(|result| &result.response);
        let pending = self.pending.as_ref().map(|pending| pending.calls.len());
        f.debug_struct("RunOutcome")
            .field("run_id", &self.run_id)
            .field("response", &response)
            .field("error", &self.error)
            .field("pending", &pending)
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use neuron_types::{Message, PendingCall, ToolCall};
    use serde_json::json;

    use super::*;

    #[test]
    fn outcomes_without_a_version_or_an_id_are_read() {
        let result = json!({
            "response": "hi", "messages": [], "usage": {"input_tokens": 1, "output_tokens": 2}, "turns": 1,
            "stop_reason": "end_turn"
        });
        let read = |json| serde_json::from_value::<RunOutcome>(json).unwrap();
        // As Restate's adapter stored it.
        let outcome = read(json!({"run_id": "r", "result": result, "messages_omitted": true}));
        assert_eq!((outcome.version, &*outcome.run_id, outcome.is_cut), (1, "r", true));
        // As Temporal's adapter stored it.
        let outcome = read(json!({"version": 1, "result": result, "is_cut": false}));
        assert_eq!((&*outcome.run_id, outcome.is_cut), ("", false));
        assert_eq!(outcome.into_result().unwrap().response, "hi");
        let error = read(json!({"error": {"kind": "MaxTurns", "text": "too many"}}));
        assert_eq!(error.into_result().unwrap_err(), RunError::new("MaxTurns", "too many"));
    }

    #[test]
    fn json_without_a_result_and_an_error_is_no_outcome() {
        for json in [json!({}), json!({"run_id": "r", "version": 1})] {
            let error = serde_json::from_value::<RunOutcome>(json).unwrap_err();
            assert_eq!(error.to_string(), NEITHER);
        }
        serde_json::from_value::<RunOutcome>(json!([])).unwrap_err();
    }

    #[test]
    fn conversation_is_removed_also_from_nested_calls_and_not_shown() {
        let secret = || vec![Message::user("the secret")];
        let mut nested = PendingApproval::new("r/inside", Vec::new());
        nested.messages = secret();
        let call = ToolCall { id: "c".into(), name: "ask".into(), input: json!({}) };
        let mut call = PendingCall::new(call, "?");
        call.nested = Some(Box::new(nested));
        let mut pending = Box::new(PendingApproval::new("r", vec![call]));
        pending.messages = secret();
        let mut outcome = RunOutcome::new("r", Err(LoopError::ApprovalRequired(pending)));
        assert!(!outcome.is_cut && !format!("{outcome:?}").contains("secret"));
        outcome.remove_messages();
        assert!(outcome.is_cut);
        assert!(!serde_json::to_string(&outcome).unwrap().contains("secret"));

        let mut failed = RunOutcome::failed("r", RunError::new("MaxTurns", "too many"));
        failed.remove_messages();
        assert!(!failed.is_cut, "there was no conversation");
    }
}
