//! The outcome of a run, and of one of its steps.

use neuron_types::{AgentResult, StopReason, TokenUsage, ToolCall, ToolOutput};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::ledger::{Ending, Ledger};

/// The outcome of a run. The messages are in the [`Conversation`](crate::Conversation).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunResult<O = ()> {
    /// The text of the last answer. Empty if it has none.
    pub response: String,
    /// The output of a [typed](crate::Run::typed) run.
    pub output: O,
    /// Tokens of the run, including the tokens of its tools.
    pub usage: TokenUsage,
    /// The part of `usage` that is an estimate, because the provider did not report it.
    pub estimated_usage: TokenUsage,
    /// Answered calls of the model.
    pub turns: usize,
    /// The reason for which the model stopped. It tells whether the answer is whole.
    pub stop_reason: StopReason,
    /// The limit that ended the run with a last call. See [`OnLimit::Finalize`](crate::OnLimit::Finalize).
    pub limit_reached: Option<String>,
}

/// A step of a run.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nobody keeps many steps")]
pub enum Step<O = ()> {
    /// The model called tools, and they ran. The run goes on.
    Tools {
        /// The calls of the answer.
        calls: Vec<ToolCall>,
        /// Their results, in the order of the calls.
        results: Vec<ToolOutput>,
    },
    /// The history was compacted. The run goes on.
    Compacted {
        /// Tokens before.
        old_tokens: usize,
        /// Estimate after.
        new_tokens: usize,
    },
    /// The run has ended.
    Ended(RunResult<O>),
}

impl RunResult<Option<Value>> {
    pub(crate) fn new(ledger: &Ledger, ending: Ending) -> Self {
        let Ending { response, stop_reason, output, limit } = ending;
        Self {
            response,
            output,
            usage: ledger.tally.run.usage.total.clone(),
            estimated_usage: ledger.tally.run.usage.estimated.clone(),
            turns: ledger.tally.run.turns,
            stop_reason,
            limit_reached: limit,
        }
    }
}

impl<O> RunResult<O> {
    /// Returns the outcome with a copy of the conversation's messages.
    #[must_use]
    pub fn with_messages(&self, conversation: &Conversation) -> AgentResult {
        agent_result(&conversation.ledger, self)
    }

    /// The same outcome with another output.
    pub(crate) fn with_output<T>(self, output: T) -> RunResult<T> {
        let Self { response, usage, estimated_usage, turns, stop_reason, limit_reached, .. } = self;
        RunResult { response, output, usage, estimated_usage, turns, stop_reason, limit_reached }
    }
}

/// The result with a copy of the messages, for hooks, durable engines and the facade.
pub(crate) fn agent_result<O>(ledger: &Ledger, result: &RunResult<O>) -> AgentResult {
    AgentResult {
        response: result.response.clone(),
        messages: ledger.messages.clone(),
        usage: result.usage.clone(),
        turns: result.turns,
        stop_reason: result.stop_reason.clone(),
        limit_reached: result.limit_reached.clone(),
    }
}
