//! How often in a row the model got a tool wrong.

use std::collections::{BTreeMap, BTreeSet};

use neuron_tool::ToolRegistry;
use neuron_types::{LoopError, ToolCall, ToolError};

/// In how many turns in a row the calls of a tool failed, by its name. Names that no tool has count
/// together, under the empty one.
#[derive(Debug, Default)]
pub(crate) struct FailingTurns(BTreeMap<String, usize>);

impl FailingTurns {
    /// Counts a turn: its calls that ran, and whether they failed. A tool that succeeded in one of
    /// them starts anew.
    ///
    /// # Errors
    ///
    /// [`LoopError::Tool`] when a tool failed in more than `retries` turns in a row and once more.
    pub(crate) fn count<'a>(
        &mut self,
        ran: impl Iterator<Item = (&'a ToolCall, bool)>,
        tools: &ToolRegistry,
        retries: Option<usize>,
    ) -> Result<(), LoopError> {
        let (mut failed, mut succeeded) = (BTreeSet::new(), BTreeSet::new());
        for (call, is_error) in ran {
            let name = tools.definition(&call.name).map_or("", |_| &*call.name);
            if is_error {
                failed.insert(name)
            } else {
                succeeded.insert(name)
            };
        }
        for name in &succeeded {
            self.0.remove(*name);
        }
        for name in failed.difference(&succeeded) {
            let turns = self.0.entry((*name).to_owned()).or_default();
            *turns = turns.saturating_add(1);
            if retries.is_some_and(|retries| *turns > retries) {
                let what = match *name {
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
