//! How often in a row the model got a tool wrong.

use std::collections::{BTreeMap, BTreeSet};

use neuron_tool::ToolRegistry;
use neuron_types::{LoopError, ToolCall, ToolError};

/// In how many turns in a row the calls of a tool failed, by its name. Names that no tool has count
/// together, under the empty one.
#[derive(Debug, Default)]
pub(crate) struct FailingTurns {
    turns: BTreeMap<String, usize>,
    /// What is known of the turn that was counted last, which goes on if it waited for an approval.
    last: Turn,
}

/// The tools whose calls failed in a turn, and those of which one succeeded.
#[derive(Debug, Default)]
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

    /// Counts a turn, or a part of one: its calls that ran, and whether they failed. A tool that
    /// succeeded in one of them starts anew.
    ///
    /// # Errors
    ///
    /// [`LoopError::Tool`] when a tool failed in more than `retries` turns in a row and once more.
    pub(crate) fn count<'a>(
        &mut self,
        turn: usize,
        ran: impl Iterator<Item = (&'a ToolCall, bool)>,
        tools: &ToolRegistry,
        retries: Option<usize>,
    ) -> Result<(), LoopError> {
        let Some(retries) = retries else {
            return Ok(());
        };
        if self.last.number != turn {
            self.last = Turn { number: turn, ..Turn::default() };
        }
        let mut failed = BTreeSet::new();
        for (call, is_error) in ran {
            let name = tools.definition(&call.name).map_or("", |_| &*call.name).to_owned();
            match is_error {
                true => failed.insert(name),
                false => self.last.succeeded.insert(name),
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
