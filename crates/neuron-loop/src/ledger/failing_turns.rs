//! How often in a row the model got a tool wrong.

use std::collections::{BTreeMap, BTreeSet};

use neuron_types::{LoopError, ToolError};
use serde::{Deserialize, Serialize};

use super::{CallState, Ledger};

/// Number of turns in a row in which the calls of a tool failed, by its name. Names that no tool has count together,
/// under the empty name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FailingTurns {
    turns: BTreeMap<String, usize>,
    /// The turn that was counted last. It goes on if it waited for an approval.
    last: Turn,
}

/// The tools whose calls failed in a turn, and the tools with a call that succeeded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Turn {
    number: usize,
    failed: BTreeSet<String>,
    succeeded: BTreeSet<String>,
}

impl From<BTreeMap<String, usize>> for FailingTurns {
    fn from(turns: BTreeMap<String, usize>) -> Self {
        Self { turns, last: Turn::default() }
    }
}

impl FailingTurns {
    /// In how many turns in a row the calls of each tool failed.
    pub(crate) fn turns(&self) -> &BTreeMap<String, usize> {
        &self.turns
    }

    /// Counts the calls of a turn that ran: the tool's name, and whether the call failed. A tool with a call that
    /// succeeded starts anew.
    fn count<'a>(
        &mut self,
        turn: usize,
        ran: impl Iterator<Item = (&'a str, bool)>,
        retries: usize,
    ) -> Result<(), LoopError> {
        if self.last.number != turn {
            self.last = Turn { number: turn, ..Turn::default() };
        }
        let mut failed = BTreeSet::new();
        for (name, is_error) in ran {
            match is_error {
                true => failed.insert(name.to_owned()),
                false => self.last.succeeded.insert(name.to_owned()),
            };
        }
        for name in &self.last.succeeded {
            self.turns.remove(name);
        }
        for name in failed.difference(&self.last.succeeded) {
            if !self.last.failed.insert(name.clone()) {
                continue;
            }
            let turns = self.turns.entry(name.clone()).or_default();
            *turns = turns.saturating_add(1);
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
}

impl Ledger {
    /// Counts the calls of the batch that ran and failed. `is_known` says whether a tool has a name.
    ///
    /// # Errors
    ///
    /// [`LoopError::Tool`] when a tool failed in more turns in a row than may be retried.
    pub(crate) fn count_failing(
        &mut self,
        retries: Option<usize>,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<(), LoopError> {
        let Some(retries) = retries else {
            return Ok(());
        };
        let mut failing = std::mem::take(&mut self.run.failing);
        let ran = self.calls().filter_map(|call| match call.state {
            CallState::Ended { is_error, ran: true } => {
                let name = if is_known(call.made.name) { call.made.name } else { "" };
                Some((name, *is_error))
            }
            _ => None,
        });
        let counted = failing.count(self.run.turn, ran, retries);
        self.run.failing = failing;
        counted
    }
}
