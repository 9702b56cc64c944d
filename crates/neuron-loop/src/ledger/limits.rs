//! Limits of a run, and tools whose calls fail too often. A limit of n allows exactly n. With [`OnLimit::Finalize`], a
//! run that reached a limit makes one more model call for a final response.

use std::collections::BTreeMap;

use neuron_types::{LoopConfig, LoopError, OnLimit, ToolError};
use serde::{Deserialize, Serialize};

use super::{CallState, Ledger, Phase};

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
        let is_wanted = config.on_limit == OnLimit::Finalize && allows_calls(config);
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

/// Returns `true` if the limits allow at least one model call.
fn allows_calls(config: &LoopConfig) -> bool {
    let requests = config.usage_limits.as_ref().and_then(|limits| limits.request_limit);
    // FAULT a last call although none is allowed: without `config.max_turns != Some(0) &&`
    config.max_turns != Some(0) && requests != Some(0)
}
