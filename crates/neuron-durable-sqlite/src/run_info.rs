//! What can be asked about a run from outside.

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
    /// How it ended, if it did.
    pub outcome: Option<RunOutcome>,
}

/// A step of a run: a call of the model or of a tool, or a wait.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Its place: `model/0`, `tools/0/1` (the second call of the first batch), `signal/0`, `sleep/0`, `value/0`.
    pub key: String,
    /// What it is.
    pub kind: StepKind,
    /// The model, the tool or the signal; `None` where there is none.
    pub name: Option<String>,
    /// What running the tool twice would do.
    pub effect: Option<ToolEffect>,
    /// The key that every attempt of a tool call sees.
    pub idempotency_key: Option<String>,
    /// How often it was begun, by this process and those before.
    pub attempts: usize,
    /// When it was begun first; for a call of the model, when its answer was stored.
    pub begun_at: DateTime<Utc>,
    /// When it ended; `None`: it has begun.
    pub ended_at: Option<DateTime<Utc>>,
    /// The stable name of the error that it ended with, if it did.
    pub error: Option<String>,
    /// The bytes of its record.
    pub bytes: usize,
}

/// What a step is.
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
    /// Its name.
    pub name: String,
    /// When it was sent.
    pub sent_at: DateTime<Utc>,
}

/// How a run ended.
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
    /// The stable name of the error: [`LoopError::kind`].
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

    /// How a run stands after this result, and what is kept of it; none where the run has not ended, but was
    /// interrupted or goes on as a new execution.
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
