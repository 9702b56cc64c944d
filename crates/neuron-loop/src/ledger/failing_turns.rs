//! How often in a row the model got a tool wrong.

use std::collections::BTreeMap;

use neuron_types::{LoopError, ToolError};

use super::{CallState, Ledger};

impl Ledger {
    /// Counts the tools whose calls of the batch ran and failed. A tool with a call that succeeded starts anew. Names that
    /// no tool has count together.
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
        let mut succeeded: BTreeMap<String, bool> = BTreeMap::new();
        for call in self.calls() {
            if let CallState::Ended { is_error, ran: true } = call.state {
                let name = if is_known(call.made.name) { call.made.name } else { "" };
                *succeeded.entry(name.to_owned()).or_default() |= !is_error;
            }
        }
        for (name, succeeded) in succeeded {
            if succeeded {
                self.tally.run.failing.remove(&name);
                continue;
            }
            let turns = self.tally.run.failing.entry(name.clone()).or_default();
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
