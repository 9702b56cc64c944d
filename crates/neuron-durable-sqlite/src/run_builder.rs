//! Opening a run with options.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use neuron_runtime::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};
use neuron_tool::ToolRegistry;
use neuron_types::{Provider, Start};
use serde::Serialize;

use crate::error::check_run_id;
use crate::journal::Journal;
use crate::lock::DEFAULT_LEASE;
use crate::parking::Parking;
use crate::run_row::RunRow;
use crate::step_row::millis;
use crate::texts::to_json;
use crate::{JournalError, SqliteDurableContext, SqliteRuns};

/// Opens a run with options. [`SqliteRuns::run`] creates it.
#[derive(Debug)]
#[must_use = "`open` opens the run"]
pub struct RunBuilder<'a> {
    runs: &'a SqliteRuns,
    id: &'a str,
    options: RunOptions,
    input: Result<Option<String>, JournalError>,
}

/// The options of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub(crate) record_limit: usize,
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) continue_after: Option<usize>,
    pub(crate) changed_agent: ChangedAgent,
    pub(crate) agent_version: Option<String>,
    pub(crate) lease: Duration,
    /// Of a run in a pool.
    pub(crate) parking: Option<Parking>,
}

impl<'a> RunBuilder<'a> {
    pub(crate) fn new(runs: &'a SqliteRuns, id: &'a str) -> Self {
        let options = RunOptions {
            record_limit: DEFAULT_RECORD_LIMIT,
            unknown_outcome: UnknownOutcome::default(),
            continue_after: None,
            changed_agent: ChangedAgent::default(),
            agent_version: None,
            lease: DEFAULT_LEASE,
            parking: None,
        };
        Self { runs, id, options, input: Ok(None) }
    }

    /// The most bytes that the record of a step may have, 1 MiB by default. An answer or a result that is
    /// longer becomes an error that says so; a tool call with longer arguments does not run. A longer
    /// [recorded](neuron_types::DurableContext::record) value is an error of the run, which goes on with a greater limit.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.options.record_limit = bytes;
        self
    }

    /// Sets the handling of a tool call that began, did not end, and must not run twice. By default the model
    /// receives an error.
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.options.unknown_outcome = unknown_outcome;
        self
    }

    /// Continues the run as a new execution after `steps` steps. Its state is stored, and the steps are
    /// removed. A replay reads all steps of an execution, and the state has the whole conversation.
    ///
    /// The default is 1,000 for a run that [`drive`](SqliteDurableContext::drive) or a [pool](SqliteRuns::pool) drives,
    /// until a loop of its agent has ended. Otherwise the run does not continue as new, because its program would have to
    /// handle [`DurableError::ContinueAsNew`](neuron_types::DurableError::ContinueAsNew).
    ///
    /// The new execution calls the agent with [`Start::Snapshot`], the state of the loop that was under way, and with an empty
    /// journal. An agent that waits, records values or does other loops before that loop would do all of it again. It has to
    /// see by the start that this is done.
    pub fn continue_after(mut self, steps: usize) -> Self {
        self.options.continue_after = Some(steps.max(1));
        self
    }

    /// Sets the reaction to a prompt, tools or a model that changed since the journal was written. By default
    /// the run stops, and is listed as [stalled](crate::RunStatus::Stalled) with an error that names the
    /// change.
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.options.changed_agent = changed_agent;
        self
    }

    /// Sets the version of the agent. It is stored with a new run, which is pinned to it from then on.
    ///
    /// A run that is opened with another version fails with [`JournalError::OtherVersion`] and is listed as
    /// [stalled](crate::RunStatus::Stalled). It goes on once it is opened with its version.
    /// [`ChangedAgent::GoOn`] pins it to the new version instead. A run without a version is pinned when it is opened
    /// with one. Nothing is checked if it is opened without a version.
    pub fn agent_version(mut self, version: impl Into<String>) -> Self {
        self.options.agent_version = Some(version.into());
        self
    }

    /// Sets the length of the lease, 30 seconds by default. Another context takes the run over if this one has not renewed
    /// its lease for so long, because its process is stopped or hangs.
    ///
    /// A context renews its lease while it does a step, and while [`drive`](SqliteDurableContext::drive) runs. A tool that
    /// blocks its thread for longer than the lease loses the run. A killed process holds nothing, whatever its lease is.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Stores a value with a new run, for example the parameters from which a process builds the agent again.
    /// [`SqliteRuns::input`] returns it. Ignored for a run that exists.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = to_json("the input of the run", input).map(Some);
        self
    }

    /// Marks a run of a pool.
    pub(crate) fn parking(mut self, parking: Parking) -> Self {
        self.options.parking = Some(parking);
        self
    }

    /// Creates the run with its start, and does not open it. A [pool](SqliteRuns::pool) of this process or another one
    /// drives it. A run that exists keeps its start.
    ///
    /// # Errors
    ///
    /// [`JournalError::InvalidId`]; [`JournalError::NotJson`] for an input or a start that cannot be stored;
    /// [`JournalError::Corrupt`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is created or is not.
    pub async fn submit(self, start: impl Into<Start>) -> Result<(), JournalError> {
        check_run_id(self.id)?;
        let start = to_json("the start of the run", &start.into())?;
        let (id, input, version) = (self.id.to_owned(), self.input?, self.options.agent_version);
        let now = millis(Utc::now());
        let submit = self.runs.database().write::<_, JournalError>(move |transaction| {
            let mut run = match RunRow::find(transaction, &id)? {
                Some(run) if run.start.is_some() => return Ok(()),
                Some(run) => run,
                None => {
                    let mut run = RunRow::new(id, input, now);
                    run.agent_version = version;
                    run.insert(transaction)?;
                    run
                }
            };
            run.start = Some(start);
            run.update(transaction)
        });
        submit.await?;
        self.runs.notices().runnable.notify_waiters();
        Ok(())
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
        let journal = Journal::open(self.runs, self.id, self.input?, &self.options).await?;
        Ok(SqliteDurableContext::new(journal, provider, tools, self.options))
    }
}
