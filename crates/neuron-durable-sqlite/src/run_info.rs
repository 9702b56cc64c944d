//! Details of a run for operators.

use chrono::{DateTime, Utc};
pub use neuron_durable::{RunStatus, RunSummary, WaitEvent, WaitsFor};
use neuron_types::{
    AgentResult, DurableError, LoopError, PendingApproval, StopReason, TokenUsage, ToolEffect,
};
use serde::{Deserialize, Serialize};

/// The summary of a run with its steps and its queued signals.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunDetails {
    /// Summary of the run, as in a list of runs.
    pub summary: RunSummary,
    /// Set if a context holds the run and the lease of that context has not expired.
    pub is_held: bool,
    /// The steps of the current execution, in order.
    pub steps: Vec<StepInfo>,
    /// The signals that the run has not received yet, the oldest first.
    pub signals: Vec<QueuedSignal>,
    /// Outcome of the run. `None` if the run has not ended.
    pub outcome: Option<RunOutcome>,
}

/// A step of a run, which is a model call, a tool call, a wait or a recorded value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Key of the step, such as `model/0`, `signal/0`, `sleep/0` or `value/0`. The number counts the steps of this kind
    /// from 0.
    ///
    /// The steps of a batch of tool calls have a second number. For example, `tools/0/1` is the second call of the
    /// first batch.
    pub key: String,
    /// The kind of the step.
    pub kind: StepKind,
    /// Name of the model, the tool or the signal. `None` if the step has none.
    pub name: Option<String>,
    /// Effect of the tool call, which decides if it may run twice. `None` if the step is not a tool call.
    pub effect: Option<ToolEffect>,
    /// Idempotency key of the tool call, the same in every attempt. `None` if the step is not a tool call.
    pub idempotency_key: Option<String>,
    /// Number of attempts, in this process and earlier processes.
    pub attempts: usize,
    /// Start of the first attempt. For a model call, the time at which its response was stored.
    pub begun_at: DateTime<Utc>,
    /// End of the step. `None` if the step has not ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Stable name of the error with which the step ended. `None` if the step has not ended, or ended without an error.
    pub error: Option<String>,
    /// Size of the step's stored record in bytes. 0 if the step has not ended.
    pub bytes: usize,
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// A call of the model.
    Model,
    /// A call of a tool.
    Tool,
    /// A wait for a signal.
    Signal,
    /// A wait for a time.
    Sleep,
    /// A [recorded](neuron_types::DurableContext::record) value.
    Value,
}

/// A signal that was sent to a run and not received yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueuedSignal {
    /// Name of the signal.
    pub name: String,
    /// Time at which the signal was sent.
    pub sent_at: DateTime<Utc>,
}

/// The stored outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// Version of the stored format.
    pub version: u32,
    /// Text of the agent's response. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Reason for which the model stopped. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Tokens that the run used. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// Number of model calls that returned a response. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<usize>,
    /// Stable name of the error, as [`LoopError::kind`] returns it. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// Text of the error. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Calls that required approval when the run ended, without the conversation. `None` if the run ended for another
    /// reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<PendingApproval>>,
}

impl RunOutcome {
    /// Version of the stored format that this release writes.
    pub const VERSION: u32 = 1;

    /// An outcome whose optional fields are all `None`.
    const NOTHING: Self = Self {
        version: Self::VERSION,
        response: None,
        stop_reason: None,
        usage: None,
        turns: None,
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
}
