//! Counters of a conversation and of its current run, and their limits. A limit of n allows exactly n. With
//! [`OnLimit::Finalize`], a run that reached a limit makes one more model call for a final response.

use std::collections::BTreeMap;
use std::ops::Deref;

use neuron_types::{LoopConfig, LoopError, OnLimit, TokenUsage, ToolError};
use serde::{Deserialize, Serialize};

use super::{CallState, Ledger, Phase};

/// Counters of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tally {
    /// The current run. After it has ended, the last run.
    pub(crate) run: RunRecord,
    /// Number of runs that have begun.
    pub(crate) runs: usize,
    /// Number of model calls of all runs that returned a response.
    // FAULT a new execution reminds as if it were the first: add `#[serde(skip)]`
    pub(crate) turns: usize,
    // FAULT a new execution forgets the usage of all runs: add `#[serde(skip)]`
    pub(crate) total_usage: TokenUsage,
    /// Number of messages at the start of the history that were already sent to the model.
    pub(crate) passed_messages: usize,
}

/// Counters of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunRecord {
    pub(crate) id: String,
    /// Number of this run in its conversation, starting at zero.
    pub(crate) number: usize,
    /// Number of the current turn, starting at zero.
    pub(crate) turn: usize,
    /// Number of model calls that returned a response.
    // FAULT a new execution has all its turns left: add `#[serde(skip)]`
    pub(crate) turns: usize,
    /// Number of model calls that were made, including failed ones.
    // FAULT a new execution has all its requests left: add `#[serde(skip)]`
    pub(crate) requests: usize,
    /// Number of tool calls that were started.
    // FAULT a new execution has all its tool calls left: add `#[serde(skip)]`
    pub(crate) tool_calls: usize,
    pub(crate) usage: RunUsage,
    /// Number of consecutive turns in which all calls of a tool failed, by tool name. The empty name stands for all
    /// tools that do not exist. If tools are deferred, each name has its own number.
    // FAULT how often a tool failed is not stored: add `#[serde(skip)]`
    pub(crate) failing: BTreeMap<String, usize>,
    /// Number of times in a row that the provider paused its response, so that another call had to continue it.
    // FAULT how often the provider paused is not stored: add `#[serde(skip)]`
    pub(crate) pauses: usize,
    /// Number of responses that were checked for the output of a typed run.
    pub(crate) output_attempts: usize,
    /// Number of the last turn in which calls started before their response was complete, and the number of such
    /// responses in this turn.
    ///
    /// The response may have been discarded after its calls started. Calls of a later response in the turn therefore
    /// need other idempotency keys.
    pub(crate) given_up: (usize, usize),
    /// Set if the last model call did not fit into the context window. If the next call does not fit either, the
    /// conversation is not compacted again.
    pub(crate) overflowed: bool,
}

/// Tokens of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunUsage {
    // FAULT a new execution forgets the usage: add `#[serde(skip)]`
    pub(crate) total: TokenUsage,
    /// Tokens that tools used.
    // FAULT a new execution forgets what its tools took: add `#[serde(skip)]`
    pub(crate) tools: TokenUsage,
    /// Tokens that were estimated, because the provider did not report them.
    pub(crate) estimated: TokenUsage,
}

impl RunRecord {
    /// Checks before a model call that the limits allow another turn, another request and more tokens. Returns the
    /// error of the first reached limit.
    pub(crate) fn check_before_call(&self, config: &LoopConfig) -> Result<(), LoopError> {
        // FAULT a turn too many: `>=` -> `>`
        if let Some(max) = config.max_turns.filter(|max| self.turns >= *max) {
            return Err(LoopError::MaxTurns(max));
        }
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            // FAULT a request more than may be: without `.saturating_add(1)`
            limits.check_requests(self.requests.saturating_add(1))?;
            limits.check_tokens(&self.usage.total)
        })
    }

    /// Checks before tool calls that the limits allow more tokens and this number of calls. Returns
    /// [`LoopError::UsageLimitExceeded`] otherwise.
    pub(crate) fn check_before_tools(
        &self,
        config: &LoopConfig,
        calls: usize,
    ) -> Result<(), LoopError> {
        config.usage_limits.as_ref().map_or(Ok(()), |limits| {
            // FAULT tokens are not checked before tools: without the line
            limits.check_tokens(&self.usage.total)?;
            // FAULT tool calls of earlier turns do not count: `self.tool_calls.saturating_add(calls)` -> `calls`
            limits.check_tool_calls(self.tool_calls.saturating_add(calls))
        })
    }

    /// Counts a response that was checked for the output of a typed run, or that had no content.
    pub(super) fn count_output_attempt(&mut self) {
        self.output_attempts = self.output_attempts.saturating_add(1);
    }

    /// Returns the number of earlier responses of this turn that were discarded after tool calls had started.
    pub(crate) fn attempt(&self) -> usize {
        match self.given_up {
            (turn, attempts) if turn == self.turn => attempts,
            _ => 0,
        }
    }
}

/// The counters of a ledger, while a model call or a batch of tool calls borrows them. They can be read, and change only
/// by the methods here.
pub(crate) struct Counters<'l>(pub(super) &'l mut Tally);

impl Deref for Counters<'_> {
    type Target = Tally;

    fn deref(&self) -> &Tally {
        self.0
    }
}

impl Counters<'_> {
    /// Counts a model call. `messages` is the number of messages of the conversation that the request sends.
    pub(crate) fn count_request(&mut self, messages: usize) {
        self.0.run.requests = self.0.run.requests.saturating_add(1);
        // FAULT what passed may be rejected again: without the line
        self.0.passed_messages = messages;
    }

    /// Counts a turn, which is a response that the outermost layer returned.
    pub(crate) fn count_answer(&mut self) {
        self.0.run.turns = self.0.run.turns.saturating_add(1);
        // FAULT the turns of all runs stand still: without the line
        self.0.turns = self.0.turns.saturating_add(1);
    }

    /// Counts a response whose tool calls start before the response is complete. If it is discarded, the calls of the
    /// next response get other idempotency keys.
    pub(crate) fn begin_attempt(&mut self) {
        let attempt = self.run.attempt().saturating_add(1);
        self.0.run.given_up = (self.run.turn, attempt);
    }

    /// Counts a tool call that starts.
    pub(crate) fn count_tool_call(&mut self) {
        self.0.run.tool_calls = self.run.tool_calls.saturating_add(1);
    }

    /// Adds the tokens of a model call.
    pub(crate) fn add_usage(&mut self, usage: &TokenUsage) {
        self.0.run.usage.total += usage;
        // FAULT the usage of all runs stands still: without the line
        self.0.total_usage += usage;
    }

    /// Notes that the tokens of a model call are an estimate.
    pub(crate) fn note_estimate(&mut self, usage: &TokenUsage) {
        self.0.run.usage.estimated += usage;
    }
}

/// A limit that a run has reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    Turns(usize),
    Usage(String),
}

/// Converts between a limit and the error that reports it.
impl Limit {
    fn of(error: &LoopError) -> Option<Self> {
        match error {
            LoopError::MaxTurns(turns) => Some(Self::Turns(*turns)),
            LoopError::UsageLimitExceeded(text) => Some(Self::Usage(text.clone())),
            _ => None,
        }
    }

    /// Returns the error that reports the limit.
    pub(crate) fn error(&self) -> LoopError {
        match self {
            Self::Turns(turns) => LoopError::MaxTurns(*turns),
            Self::Usage(text) => LoopError::UsageLimitExceeded(text.clone()),
        }
    }

    /// Returns the system message that tells the model to give its final response now.
    pub(crate) fn notice(&self, output_tool: Option<&str>) -> String {
        let how = match output_tool {
            None => "Give your final answer now, from what is known so far, and say what is left \
                     open. No tool can be called in this answer."
                .to_owned(),
            Some(tool) => format!(
                "Give the final output now, from what is known so far, by calling `{tool}`. No other \
                 tool can be called in this answer."
            ),
        };
        format!("This run has reached a limit ({}). {how}", self.error())
    }
}

impl Ledger {
    /// Counts for each tool the consecutive turns in which all its calls failed. A successful call resets the counter
    /// of its tool. Tools that do not exist share one counter, which a turn without calls of such tools resets. Counts
    /// nothing if `retries` is `None`.
    ///
    /// # Errors
    ///
    /// [`LoopError::Tool`] if the calls of a tool failed in more than `retries` consecutive turns.
    pub(crate) fn count_failing(
        &mut self,
        retries: Option<usize>,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<(), LoopError> {
        let Some(retries) = retries else {
            return Ok(());
        };
        let mut succeeded: BTreeMap<String, bool> = BTreeMap::new();
        let Some((calls, counters)) = self.open_batch() else {
            return Ok(());
        };
        for (made, state) in calls.iter() {
            // FAULT a tool whose calls did not run fails: `ran: true` -> `..`
            if let CallState::Ended { is_error, ran: true } = state {
                let name = if is_known(made.name) { made.name } else { "" };
                // FAULT only the last call of a tool tells whether it failed: `|=` -> `=`
                *succeeded.entry(name.to_owned()).or_default() |= !is_error;
            }
        }
        let failing = &mut counters.0.run.failing;
        // FAULT unknown tools count beyond a turn without them: without the statement
        //     (failing_tools::turn_without_unknown_tools_resets_their_counter)
        if !succeeded.contains_key("") {
            failing.remove("");
        }
        for (name, succeeded) in succeeded {
            if succeeded {
                failing.remove(&name);
                continue;
            }
            let turns = failing.entry(name.clone()).or_default();
            *turns = turns.saturating_add(1);
            // FAULT a retry too many: `retries` -> `retries + 1`
            if *turns > retries {
                let what = match name.as_str() {
                    "" => "the model called tools that do not exist".to_owned(),
                    name => format!("the calls of `{name}` failed"),
                };
                let text = format!("{what} in {turns} turns in a row: no retry is left");
                return Err(ToolError::InvalidInput(text).into());
            }
        }
        Ok(())
    }

    /// Prepares one last model call after the run reached a limit. Ends unfinished tool calls, including pending calls,
    /// with the limit's error as their result.
    ///
    /// Returns `false` if `error` is not a limit, or if the run must end without a last call.
    pub(crate) fn land_on(&mut self, error: &LoopError, config: &LoopConfig) -> bool {
        let requests = config.usage_limits.as_ref().and_then(|limits| limits.request_limit);
        // FAULT a last call although none is allowed: without `config.max_turns != Some(0) &&`
        let allows_calls = config.max_turns != Some(0) && requests != Some(0);
        let is_wanted = config.on_limit == OnLimit::Finalize && allows_calls;
        let Some(limit) = Limit::of(error).filter(|_| is_wanted) else {
            return false;
        };
        let is_open = match &self.phase {
            Phase::Landing { .. } | Phase::Idle | Phase::Ended(_) => return false,
            // FAULT a last call opens its turn twice: `true` -> `false`
            Phase::Calling => true,
            // FAULT a last call opens no turn: `false` -> `true`
            Phase::TurnStart => false,
            Phase::Batch(_) => {
                // FAULT calls that a limit prevents have no reason: without the line
                self.close_batch_because_of(error);
                false
            }
        };
        self.phase = Phase::Landing { limit, is_open };
        true
    }
}
