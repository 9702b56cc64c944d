//! Opening a run with options.

use std::sync::Arc;

use neuron_runtime::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};
use neuron_tool::ToolRegistry;
use neuron_types::Provider;
use serde::Serialize;

use crate::error::check_run_id;
use crate::journal::Journal;
use crate::texts::to_json;
use crate::{JournalError, SqliteDurableContext, SqliteRuns};

/// Opens a run with options; made by [`SqliteRuns::run`].
#[derive(Debug)]
#[must_use = "`open` opens the run"]
pub struct RunBuilder<'a> {
    runs: &'a SqliteRuns,
    id: &'a str,
    options: RunOptions,
    input: Result<Option<String>, JournalError>,
}

/// How a run is driven.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub(crate) record_limit: usize,
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) continue_after: Option<usize>,
    pub(crate) changed_agent: ChangedAgent,
}

impl<'a> RunBuilder<'a> {
    pub(crate) fn new(runs: &'a SqliteRuns, id: &'a str) -> Self {
        let options = RunOptions {
            record_limit: DEFAULT_RECORD_LIMIT,
            unknown_outcome: UnknownOutcome::default(),
            continue_after: None,
            changed_agent: ChangedAgent::default(),
        };
        Self { runs, id, options, input: Ok(None) }
    }

    /// The most bytes that the record of a step may have, 1 MiB by default. An answer or a result that is
    /// longer becomes an error that says so; a tool call with longer arguments does not run.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.options.record_limit = bytes;
        self
    }

    /// What becomes of a tool call that began, did not end, and must not run twice. By default the model is
    /// told.
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.options.unknown_outcome = unknown_outcome;
        self
    }

    /// Lets the run continue as a new execution after so many steps: its state is stored, and the steps are
    /// removed. Never by default. For runs of thousands of steps: a replay reads all of an execution, while
    /// the state has the whole conversation.
    pub fn continue_after(mut self, steps: usize) -> Self {
        self.options.continue_after = Some(steps.max(1));
        self
    }

    /// What the run does if its prompt, its tools or its model changed since the journal was written. By default it
    /// stops, and is listed as [stalled](crate::RunStatus::Stalled) with an error that names what changed.
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.options.changed_agent = changed_agent;
        self
    }

    /// Stores a value with the run when it is created: what a process needs to build the agent again, which
    /// [`SqliteRuns::input`] returns. Not used for a run that exists.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = to_json("the input of the run", input).map(Some);
        self
    }

    /// Opens the run, or creates it. The model and the tools are those that its steps call.
    ///
    /// # Errors
    ///
    /// As [`SqliteDurableContext::open`]; [`JournalError::NotJson`] for an input that cannot be stored.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it opens nothing; an empty run may have been created.
    pub async fn open<P: Provider>(
        self,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
    ) -> Result<SqliteDurableContext<P>, JournalError> {
        check_run_id(self.id)?;
        let journal = Journal::open(self.runs, self.id, self.input?).await?;
        Ok(SqliteDurableContext::new(journal, provider, tools, self.options))
    }
}
