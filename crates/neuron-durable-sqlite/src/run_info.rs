//! Details of a run for operators.

use chrono::{DateTime, Utc};
use neuron_durable::{RunOutcome, RunSummary};
use neuron_types::ToolEffect;

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
    /// Outcome of the run, without the conversation, which is in the journal. `None` if the run has not ended.
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
