//! Details of a run for operators.

use chrono::{DateTime, Utc};
pub use neuron_runtime::{RunStatus, RunSummary, WaitEvent, WaitsFor};
use neuron_types::{
    AgentResult, DurableError, LoopError, PendingApproval, StopReason, TokenUsage, ToolEffect,
};
use serde::{Deserialize, Serialize};

/// All that can be told about a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunDetails {
    /// The run as a list has it.
    pub summary: RunSummary,
    /// Set if a context holds the run and its lease has not expired.
    pub is_held: bool,
    /// The steps of this execution, in order.
    pub steps: Vec<StepInfo>,
    /// The signals that were sent and not received, the oldest first.
    pub signals: Vec<QueuedSignal>,
    /// The outcome, if the run has ended.
    pub outcome: Option<RunOutcome>,
}

/// A step of a run, which is a call of the model or of a tool, or a wait.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Place of the step, such as `model/0`, `tools/0/1` (the second call of the first batch), `signal/0`,
    /// `sleep/0` or `value/0`.
    pub key: String,
    /// The kind of the step.
    pub kind: StepKind,
    /// Name of the model, the tool or the signal. `None` if the step has none.
    pub name: Option<String>,
    /// The effect of a second run of the tool.
    pub effect: Option<ToolEffect>,
    /// The key that every attempt of a tool call sees.
    pub idempotency_key: Option<String>,
    /// Number of times that the step was started, by this process and earlier ones.
    pub attempts: usize,
    /// Time of the first start. For a call of the model, the time at which its response was stored.
    pub begun_at: DateTime<Utc>,
    /// Time of the end. `None` if it has not ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// The stable name of the error that it ended with, if it did.
    pub error: Option<String>,
    /// The bytes of its record.
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
    /// A value from outside of the run.
    Value,
}

/// A signal that nobody has received.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct QueuedSignal {
    /// Name of the signal.
    pub name: String,
    /// Time at which the signal was sent.
    pub sent_at: DateTime<Utc>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The version of the stored form.
    pub version: u32,
    /// The answer's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The tokens that the run took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// The calls of the model that were answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<usize>,
    /// Stable name of the error, by [`LoopError::kind`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// The error's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The calls that the run ended for, without the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<PendingApproval>>,
}

impl RunOutcome {
    /// The version of the stored form that this release writes.
    pub const VERSION: u32 = 1;

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

    /// The outcome of a run that ended with an error.
    pub(crate) fn error(kind: &str, error: String) -> Self {
        Self { error_kind: Some(kind.to_owned()), error: Some(error), ..Self::NOTHING }
    }

    /// Returns the status of a run after this result, with the stored outcome. `None` if the run was
    /// interrupted or continues as a new execution.
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
