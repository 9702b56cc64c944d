//! Opening or creating a run with options ([`RunBuilder`]).

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use neuron_durable::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};
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

/// Opens a run with options. Created by [`SqliteRuns::run`].
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
    /// Link to the pool that drives the run. `None` if no pool drives the run.
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

    /// Sets the maximum size in bytes of the record of a step. Default: 1 MiB. A record above the limit has these
    /// effects:
    ///
    /// - A model response or tool result is replaced by an error that names the limit.
    /// - A tool call with arguments above the limit does not run.
    /// - A [recorded](neuron_types::DurableContext::record) value ends the run with an error. Open the run with a
    ///   greater limit to continue the run.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.options.record_limit = bytes;
        self
    }

    /// Sets the result of an interrupted tool call that must not run twice. By default the model receives an error as
    /// the call's result.
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.options.unknown_outcome = unknown_outcome;
        self
    }

    /// Continues the run as a new execution after `steps` steps. The state of the run is stored with the whole
    /// conversation, and the steps are removed. This keeps a long run fast, because a replay reads all steps of the
    /// current execution.
    ///
    /// Defaults:
    ///
    /// - 1,000 steps if [`drive`](SqliteDurableContext::drive) or a [pool](SqliteRuns::pool) drives the run. There is
    ///   no limit after the agent's first loop has ended.
    /// - Otherwise no limit, because the program would have to handle
    ///   [`DurableError::ContinueAsNew`](neuron_types::DurableError::ContinueAsNew) itself.
    ///
    /// The new execution calls the agent with [`Start::Snapshot`] and an empty journal. The snapshot contains only the
    /// state of the agent loop that was in progress. An agent may have executed other steps before this loop, such as a
    /// wait or an earlier loop. It must skip these steps when it is started with a snapshot. Otherwise they are
    /// executed again.
    pub fn continue_after(mut self, steps: usize) -> Self {
        self.options.continue_after = Some(steps.max(1));
        self
    }

    /// Sets the reaction if the prompt, the tools or the model have changed since the journal was written.
    ///
    /// By default the run stops with an error that names the change, and is listed as
    /// [stalled](crate::RunStatus::Stalled).
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.options.changed_agent = changed_agent;
        self
    }

    /// Sets the version of the agent. A new run stores the version and is pinned to it.
    ///
    /// A pinned run that is opened with another version fails with [`JournalError::OtherVersion`] and is listed as
    /// [stalled](crate::RunStatus::Stalled). The run continues when it is opened with the pinned version. If
    /// [`ChangedAgent::GoOn`] is set, the run is pinned to the new version instead and continues.
    ///
    /// A run without a version is pinned when it is first opened with a version. If this method is not called, the
    /// version is not checked.
    pub fn agent_version(mut self, version: impl Into<String>) -> Self {
        self.options.agent_version = Some(version.into());
        self
    }

    /// Sets the length of the lease, 30 seconds by default. If the process of this context is stopped or hangs for
    /// longer than the lease, another context may take over the run.
    ///
    /// A context renews its lease during each step, and all the time while [`drive`](SqliteDurableContext::drive) runs.
    /// A tool that blocks its thread for longer than the lease loses the run. The runs of a killed process can be
    /// opened immediately, whatever the length of the lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Stores a value with a new run, for example the parameters from which a process builds the agent. Read the value
    /// with [`SqliteRuns::input`]. If the run already exists, [`open`](Self::open) ignores the value, and
    /// [`submit`](Self::submit) fails if the run has another one.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        self.input = to_json("the input of the run", input).map(Some);
        self
    }

    /// Marks the run as driven by a pool. `parking` lets the run release its place in the pool while it waits.
    pub(crate) fn parking(mut self, parking: Parking) -> Self {
        self.options.parking = Some(parking);
        self
    }

    /// Creates the run and stores its start, but does not open the run. A [pool](SqliteRuns::pool) of this or another
    /// process drives it. Returns `true` if the run got its start, and `false` if it has this start already, because the
    /// call is repeated.
    ///
    /// # Errors
    ///
    /// - [`JournalError::OtherStart`] if the run already has another start, or another input. Nothing is changed.
    /// - [`JournalError::NotJson`] if the input or the start cannot be stored.
    /// - [`JournalError::InvalidId`], [`JournalError::Corrupt`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is either created or not created.
    pub async fn submit(self, start: impl Into<Start>) -> Result<bool, JournalError> {
        check_run_id(self.id)?;
        let start = to_json("the start of the run", &start.into())?;
        let (id, input, version) = (self.id.to_owned(), self.input?, self.options.agent_version);
        let now = millis(Utc::now());
        let submit = self.runs.database().write::<_, JournalError>(move |transaction| {
            let mut run = match RunRow::find(transaction, &id)? {
                Some(run) if !run.fits(&start, input.as_deref()) => {
                    return Err(JournalError::OtherStart { id }.into());
                }
                Some(run) if run.start.is_some() => return Ok(false),
                Some(mut run) => {
                    run.input = run.input.take().or(input);
                    run
                }
                None => {
                    let mut run = RunRow::new(id, input, now);
                    run.agent_version = version;
                    run.insert(transaction)?;
                    run
                }
            };
            run.set_first_start(start);
            run.update(transaction)?;
            Ok(true)
        });
        let is_new = submit.await?;
        if is_new {
            self.runs.notices().runnable.notify_waiters();
        }
        Ok(is_new)
    }

    /// Opens the run, and creates it if it does not exist. The steps of the run call `provider` and `tools`.
    ///
    /// # Errors
    ///
    /// - The errors of [`SqliteDurableContext::open`].
    /// - [`JournalError::NotJson`] if the input cannot be stored.
    /// - [`JournalError::OtherVersion`] if the run is pinned to another [version](Self::agent_version).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is not opened. An empty run may have been created.
    pub async fn open<P: Provider>(
        self,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
    ) -> Result<SqliteDurableContext<P>, JournalError> {
        check_run_id(self.id)?;
        let journal = Journal::open(self.runs, self.id, self.input?, &self.options).await?;
        Ok(SqliteDurableContext::new(journal, provider, tools, self.options, Arc::default()))
    }
}
