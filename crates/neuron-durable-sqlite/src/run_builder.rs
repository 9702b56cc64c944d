//! Opening or creating a run with options ([`RunBuilder`]).

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use neuron_durable::DurableOptions;
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

/// The options with which a context opens a run.
#[derive(Debug, Clone)]
pub(crate) struct RunOptions {
    pub(crate) durable: DurableOptions,
    /// Link to the pool that drives the run. `None` if no pool drives the run.
    pub(crate) parking: Option<Parking>,
}

impl RunOptions {
    /// Returns the length of the lease, at least a millisecond.
    pub(crate) fn lease(&self) -> Duration {
        self.durable.lease.unwrap_or(DEFAULT_LEASE).max(Duration::from_millis(1))
    }
}

impl<'a> RunBuilder<'a> {
    pub(crate) fn new(runs: &'a SqliteRuns, id: &'a str) -> Self {
        let options = RunOptions { durable: DurableOptions::new(), parking: None };
        Self { runs, id, options, input: Ok(None) }
    }

    /// Sets the options of the run. In contrast to other engines:
    ///
    /// - A [recorded](neuron_types::DurableContext::record) value above the
    ///   [record limit](DurableOptions::record_limit) ends the run with an error. Open the run with a greater limit to
    ///   continue the run.
    /// - By default the run [continues](DurableOptions::continue_after) as a new execution after 1,000 steps if
    ///   [`drive`](SqliteDurableContext::drive) or a [pool](SqliteRuns::pool) drives it, and only during the agent's
    ///   first loop. Otherwise the program has to handle
    ///   [`DurableError::ContinueAsNew`](neuron_types::DurableError::ContinueAsNew) itself, so there is no default.
    /// - A run that is opened with another [version](DurableOptions::agent_version) fails with
    ///   [`JournalError::OtherVersion`]. A run without a version is pinned when it is first opened with a version.
    /// - A context renews its [lease](DurableOptions::lease) during each step, and all the time while
    ///   [`drive`](SqliteDurableContext::drive) runs. The runs of a killed process can be opened immediately, whatever
    ///   the length of the lease.
    pub fn options(mut self, options: DurableOptions) -> Self {
        self.options.durable = options;
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
        let (id, input, version) =
            (self.id.to_owned(), self.input?, self.options.durable.agent_version);
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
    /// - [`JournalError::OtherVersion`] if the run is pinned to another [version](DurableOptions::agent_version).
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
