//! The outcome of a run, and of one of its steps.

use neuron_types::{AgentResult, StopReason, TokenUsage, ToolCall, ToolOutput};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::ledger::{Ending, Ledger};

/// The outcome of a run. The [`Conversation`](crate::Conversation) has the messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunResult<O = ()> {
    /// The text of the last response. Empty if the response has no text.
    pub response: String,
    /// The output of a [typed](crate::Run::typed) run. `()` for other runs.
    pub output: O,
    /// Tokens of the run and their [cost](TokenUsage::cost), including the agents inside its tools.
    ///
    /// The cost is `None` if the run has no [`Budget`](crate::Budget) with prices. Without a limit in money, use
    /// [`Budget::priced`](crate::Budget::priced).
    pub usage: TokenUsage,
    /// The part of `usage` that is an estimate, because the provider did not report it.
    pub estimated_usage: TokenUsage,
    /// Number of model calls that returned a response.
    pub turns: usize,
    /// The reason why the model stopped. It shows if the response is complete.
    pub stop_reason: StopReason,
    /// Error text of the limit that ended the run with a last call. `None` if no limit was reached. See
    /// [`OnLimit::Finalize`](crate::OnLimit::Finalize).
    pub limit_reached: Option<String>,
}

/// A step of a run. [`Steps::next`](crate::Steps::next) returns one step per call.
#[derive(Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nobody keeps many steps")]
pub enum Step<O = ()> {
    /// The model called tools, and they ran. The run continues.
    Tools {
        /// The tool calls of the response.
        calls: Vec<ToolCall>,
        /// The results of the calls, in the order of `calls`.
        results: Vec<ToolOutput>,
    },
    /// The history was compacted. The run continues.
    Compacted {
        /// Size before the compaction, in tokens.
        old_tokens: usize,
        /// Estimated size after the compaction, in tokens.
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
            usage: ledger.tally().run.usage.total.clone(),
            estimated_usage: ledger.tally().run.usage.estimated.clone(),
            turns: ledger.tally().run.turns,
            stop_reason,
            limit_reached: limit,
        }
    }
}

impl<O> RunResult<O> {
    /// Returns the result together with a copy of the conversation's messages.
    #[must_use]
    pub fn with_messages(&self, conversation: &Conversation) -> AgentResult {
        agent_result(&conversation.ledger, self)
    }

    /// Returns the same result with another output.
    pub(crate) fn with_output<T>(self, output: T) -> RunResult<T> {
        let Self { response, usage, estimated_usage, turns, stop_reason, limit_reached, .. } = self;
        RunResult { response, output, usage, estimated_usage, turns, stop_reason, limit_reached }
    }
}

/// Returns the result together with a copy of the messages, for hooks, durable engines and
/// [`AgentLoop`](crate::AgentLoop).
pub(crate) fn agent_result<O>(ledger: &Ledger, result: &RunResult<O>) -> AgentResult {
    AgentResult {
        response: result.response.clone(),
        messages: ledger.messages().to_vec(),
        usage: result.usage.clone(),
        turns: result.turns,
        stop_reason: result.stop_reason.clone(),
        limit_reached: result.limit_reached.clone(),
    }
}
