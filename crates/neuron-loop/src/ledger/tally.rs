//! Counters of a conversation and of its current run, and the limits on them.

use std::collections::BTreeMap;

use neuron_types::{LoopConfig, LoopError, TokenUsage};
use serde::{Deserialize, Serialize};

/// Counters of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tally {
    /// The current run, or the last.
    pub(crate) run: RunRecord,
    /// Number of runs that have begun.
    pub(crate) runs: usize,
    /// Answered calls of the model over all runs.
    pub(crate) turns: usize,
    pub(crate) total_usage: TokenUsage,
    /// Number of messages, from the start, that went to the model.
    pub(crate) passed_messages: usize,
}

/// Counters of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunRecord {
    pub(crate) id: String,
    /// Number of this run in its conversation, from zero.
    pub(crate) number: usize,
    /// The current turn, from zero.
    pub(crate) turn: usize,
    /// Answered calls of the model.
    pub(crate) turns: usize,
    /// Calls of the model that were made.
    pub(crate) requests: usize,
    /// Tool calls that were started.
    pub(crate) tool_calls: usize,
    pub(crate) usage: RunUsage,
    /// Number of turns in a row in which the calls of a tool failed. Names that no tool has count under the empty name.
    pub(crate) failing: BTreeMap<String, usize>,
    /// Number of times in a row that the provider paused its turn.
    pub(crate) pauses: usize,
    /// Answers that were taken for the output of a typed run.
    pub(crate) output_attempts: usize,
    /// The last turn in which prefetched calls were given up, and how often. Their idempotency keys are used up.
    pub(crate) given_up: (usize, usize),
    /// True if the last call did not fit into the context window and a compaction made room for it.
    pub(crate) overflowed: bool,
}

/// Tokens of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunUsage {
    pub(crate) total: TokenUsage,
    /// The part that tools took.
    pub(crate) tools: TokenUsage,
    /// The part that the provider did not report.
    pub(crate) estimated: TokenUsage,
}

impl RunRecord {
    /// Checks before a call of the model that the limits leave a turn, a request and tokens.
    pub(crate) fn check_before_call(&self, config: &LoopConfig) -> Result<(), LoopError> {
        if let Some(max) = config.max_turns.filter(|max| self.turns >= *max) {
            return Err(LoopError::MaxTurns(max));
        }
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            limits.check_requests(self.requests.saturating_add(1))?;
            limits.check_tokens(&self.usage.total)
        })
    }

    /// Checks before tools that the limits leave tokens and room for so many calls.
    pub(crate) fn check_before_tools(
        &self,
        config: &LoopConfig,
        calls: usize,
    ) -> Result<(), LoopError> {
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            limits.check_tokens(&self.usage.total)?;
            limits.check_tool_calls(self.tool_calls.saturating_add(calls))
        })
    }

    /// Returns the number of times that prefetched calls of this turn were given up.
    pub(crate) fn attempt(&self) -> usize {
        match self.given_up {
            (turn, attempts) if turn == self.turn => attempts,
            _ => 0,
        }
    }

    /// Uses up the idempotency keys of the current attempt, because a prefetched call begins.
    pub(crate) fn begin_attempt(&mut self) {
        self.given_up = (self.turn, self.attempt().saturating_add(1));
    }

    /// Counts a tool call that starts.
    pub(crate) fn count_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }
}

impl Tally {
    /// Counts a call of the model that is made now, with so many messages of the conversation.
    pub(crate) fn count_request(&mut self, messages: usize) {
        self.run.requests = self.run.requests.saturating_add(1);
        self.passed_messages = messages;
    }

    /// Counts an answer of the model.
    pub(crate) fn count_answer(&mut self) {
        self.run.turns = self.run.turns.saturating_add(1);
        self.turns = self.turns.saturating_add(1);
    }

    /// Adds tokens of a call of a model.
    pub(crate) fn add_usage(&mut self, usage: &TokenUsage) {
        self.run.usage.total += usage;
        self.total_usage += usage;
    }

    /// Adds tokens that tools took.
    pub(crate) fn add_tool_usage(&mut self, usage: &TokenUsage) {
        self.add_usage(usage);
        self.run.usage.tools += usage;
    }
}
