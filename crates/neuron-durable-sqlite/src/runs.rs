//! The database of runs ([`SqliteRuns`]). A process can list, cancel and retry runs here without driving them.

use std::path::Path;
use std::sync::Arc;

use chrono::Utc;
use neuron_durable::{DEFAULT_RECORD_LIMIT, RunsError};
use neuron_sqlite::{Database, SqliteOptions};
use neuron_tool::ToolRegistry;
use neuron_types::{ApprovalDecisions, DurableAgent, Provider, stored_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::check_run_id;
use crate::inspect::{details, list};
use crate::lock::Locks;
use crate::notices::Notices;
use crate::outcome::StoredOutcome;
use crate::retry::retry;
use crate::revive::revive;
use crate::run_builder::RunBuilder;
use crate::run_row::RunRow;
use crate::schema::RUNS;
use crate::signal_row::SignalRow;
use crate::standing::Standing;
use crate::step_row::{StepRow, millis};
use crate::texts::to_json;
use crate::waits::queued;
use crate::{JournalError, RunDetails, RunPool, RunStatus, RunSummary};

/// A database of runs. Clones share its connections.
///
/// Any number of processes on one machine may use the database at the same time. A database `runs.db` has these files
/// beside it:
///
/// - The folder `runs.db.locks` contains locks.
/// - The file `runs.db-witness` is used to detect lost commits.
/// - SQLite's own files exist while the database is in use.
///
/// On Unix, only the owner can read a new database and the files beside it. An existing database keeps its mode.
#[derive(Debug, Clone)]
pub struct SqliteRuns {
    database: Database,
    locks: Locks,
    notices: Arc<Notices>,
}

impl SqliteRuns {
    /// Opens a database of runs. Creates the file and its folder if they do not exist. Migrates the tables to the
    /// current version.
    ///
    /// The database uses [`Synchronous::Full`](crate::Synchronous::Full), so every step is on the disk before the run
    /// continues.
    ///
    /// The path `:memory:` creates a database in memory for tests. It lives as long as the returned value and its
    /// clones.
    ///
    /// # Errors
    ///
    /// The file is left unchanged after an error.
    ///
    /// - [`JournalError::Database`] if the file is not a database of runs, is damaged, or cannot be read or written.
    /// - [`JournalError::Database`] if a newer version of this crate wrote the file.
    /// - [`JournalError::Database`] if another process holds the file.
    /// - [`JournalError::Database`] if the file has lost commits. Call [`accept_older`](crate::accept_older) to accept
    ///   the loss.
    /// - [`JournalError::Lock`] if the path of the database cannot be resolved.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the database may still be opened. It is then closed again.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens a database with options, and otherwise like [`open`](Self::open).
    ///
    /// With [`Synchronous::Normal`](crate::Synchronous::Normal), a power failure may undo the last steps. They then run
    /// again, even if they are calls of [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) tools.
    ///
    /// # Errors
    ///
    /// The same errors as [`open`](Self::open).
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let database = Database::open_witnessed(path, RUNS, options).await?;
        let locks = Locks::of(&database)?;
        Ok(Self { database, locks, notices: Arc::default() })
    }

    /// Writes a snapshot of all runs to a new file. Other contexts may read and write meanwhile.
    ///
    /// The new file is a complete database. It is synced to the disk before it gets its name. If a run is continued in
    /// both databases, its effects happen twice.
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`] if a file exists at the path, the folder does not exist, or the database is damaged.
    /// No file of this call is then left at the path.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is either written completely or not at all.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<(), JournalError> {
        Ok(self.database.backup(path).await?)
    }

    /// Returns a builder that opens or creates a run. Set options, then call [`open`](RunBuilder::open).
    ///
    /// The id must have 1 to 200 bytes and be a valid file name on every system. See
    /// [`check_session_id`](neuron_types::check_session_id) for the exact rule. The builder's methods return an error
    /// if the id is invalid.
    pub fn run<'a>(&'a self, id: &'a str) -> RunBuilder<'a> {
        RunBuilder::new(self, id)
    }

    /// Creates a pool that drives the runs of this database. The steps of all runs call `provider` and `tools`.
    ///
    /// `agent` is an agent for all runs, or a closure that builds an agent for each run. [`RunPool`] has an example of
    /// such a closure.
    ///
    /// Set the options of the pool, then call [`run`](RunPool::run).
    pub fn pool<P: Provider + 'static, A: DurableAgent>(
        &self,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
        agent: A,
    ) -> RunPool<P, A> {
        RunPool::new(self.clone(), provider, tools, agent)
    }

    /// Lists all runs, the oldest first. A run that cannot be read is listed as [damaged](RunStatus::Damaged).
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`] if the database cannot be read.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn list(&self) -> Result<Vec<RunSummary>, JournalError> {
        self.database.read(|transaction| list(transaction)).await
    }

    /// Returns the ids of the runs that have not ended and are not damaged, the oldest first. A process that drives
    /// runs without a [pool](Self::pool) can open these runs when it starts.
    ///
    /// Opening a run that another process drives fails with [`JournalError::Held`].
    ///
    /// # Errors
    ///
    /// The same errors as [`list`](Self::list).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn unfinished(&self) -> Result<Vec<String>, JournalError> {
        let all = self.list().await?;
        let is_open = |run: &RunSummary| !run.status.is_end() && run.status != RunStatus::Damaged;
        Ok(all.into_iter().filter(is_open).map(|run| run.id).collect())
    }

    /// Returns the details of a run with all steps of its current execution.
    ///
    /// This method takes the database's write lock, because it checks if a context holds the run. It may wait for other
    /// writers up to [`busy_timeout`](SqliteOptions::busy_timeout). [`list`](Self::list) does not wait for writers.
    ///
    /// # Errors
    ///
    /// [`JournalError::InvalidId`], [`JournalError::NotFound`], [`JournalError::Corrupt`], [`JournalError::Lock`] or
    /// [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn inspect(&self, id: &str) -> Result<RunDetails, JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks.clone());
        let read = self.database.read(move |transaction| details(transaction, &id));
        let (key, mut details): (i64, RunDetails) =
            read.await.map_err(|error: JournalError| error)?;
        // Locks are checked only under the database's write lock. Otherwise a context that opens the run at this moment
        // would see the lock of this check, and fail with `Held`.
        let look = self.database.write(move |_| Ok(locks.is_held(key)?));
        details.is_held = look.await.map_err(|error: JournalError| error)?;
        Ok(details)
    }

    /// Returns the value that [`RunBuilder::input`] stored with the run. Returns `None` if the run was created without
    /// an input.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotJson`] if the stored value is not a `T`.
    /// - [`JournalError::InvalidId`], [`JournalError::NotFound`], [`JournalError::Corrupt`] or
    ///   [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn input<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>, JournalError> {
        check_run_id(id)?;
        let id = id.to_owned();
        let read = self.database.read(move |transaction| Ok(RunRow::get(transaction, &id)?.input));
        let input: Option<String> = read.await?;
        let parsed = input.map(|json| stored_json::read(json.as_bytes())).transpose();
        parsed.map_err(|source| JournalError::NotJson { what: "the input of the run", source })
    }

    /// Sends a signal to a run. The signal stays in the database until the run receives it, so no process has to drive
    /// the run now.
    ///
    /// Signals with the same name are received in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotFound`] if the run does not exist.
    /// - [`JournalError::Runs`] with [`RunsError::Ended`] if the run has ended, or if its wait for this signal ended at
    ///   the deadline.
    /// - [`JournalError::NotJson`] or [`JournalError::TooLong`] if the value cannot be stored.
    /// - [`JournalError::InvalidId`], [`JournalError::Corrupt`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the signal is either sent or not sent.
    pub async fn signal(
        &self,
        id: &str,
        name: &str,
        value: impl Serialize,
    ) -> Result<(), JournalError> {
        check_run_id(id)?;
        let value = within_limit(queued(&value)?, || format!("the signal `{name}`"))?;
        let (id, name, now) = (id.to_owned(), name.to_owned(), millis(Utc::now()));
        let send = self.database.write::<_, JournalError>(move |transaction| {
            let run = RunRow::get(transaction, &id)?;
            let (_, last) = StepRow::last(transaction, (run.key, &id))?;
            if let Some(reason) = Standing::of(&run, last.as_ref())?.refuses(&name) {
                return Err(JournalError::Runs(RunsError::Ended { id, reason }).into());
            }
            SignalRow::new(name, now, value).insert(transaction, run.key)
        });
        send.await?;
        self.notices.signals.notify_waiters();
        self.notices.runnable.notify_waiters();
        Ok(())
    }

    /// Cancels a run. A run that is being driven ends with
    /// [`DurableError::Cancelled`](neuron_types::DurableError::Cancelled) and has no further effects. Call
    /// [`retry`](Self::retry) to continue a cancelled run.
    ///
    /// If this process drives the run, the current step is cancelled immediately. Another process notices the
    /// cancellation when it starts a step, checks for signals or renews its lease. A lease is renewed after a third of
    /// its length.
    ///
    /// # Errors
    ///
    /// - [`JournalError::Runs`] with [`RunsError::Ended`] if the run has ended.
    /// - [`JournalError::InvalidId`], [`JournalError::NotFound`], [`JournalError::Corrupt`] or
    ///   [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is either cancelled or not cancelled.
    pub async fn cancel(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, now) = (id.to_owned(), millis(Utc::now()));
        let cancel = self.database.write::<_, JournalError>(move |transaction| {
            let mut run = RunRow::get(transaction, &id)?;
            let (_, last) = StepRow::last(transaction, (run.key, &id))?;
            if let Some(reason) = Standing::of(&run, last.as_ref())?.end() {
                return Err(JournalError::Runs(RunsError::Ended { id, reason }).into());
            }
            let outcome = StoredOutcome::error("Cancelled", "the run was cancelled".to_owned());
            run.outcome = Some(to_json("the outcome of the run", &outcome)?);
            run.status = RunStatus::Cancelled;
            run.changed_at = now;
            run.update(transaction)
        });
        cancel.await?;
        self.notices.cancelled.notify_waiters();
        Ok(())
    }

    /// Continues a run with late decisions, after its wait for decisions ended at the deadline.
    ///
    /// Such a run ended with [`LoopError::ApprovalRequired`](neuron_types::LoopError::ApprovalRequired). This method
    /// changes the recorded end of the wait, so that the wait ends with the decisions. Open the run again to carry the
    /// decisions out. Signals that arrived after the deadline and before the end of the run are removed.
    ///
    /// This method returns an error if decisions arrived in time, and no process has driven the run since. Open the run
    /// instead.
    ///
    /// If the agent [signs](neuron_types::ApprovalSigner) the pending calls and the signatures have expired, the run
    /// does not accept the decisions. It asks again, with new signatures and a new deadline.
    ///
    /// # Errors
    ///
    /// Nothing is changed after an error.
    ///
    /// - [`JournalError::Runs`] with [`RunsError::NotRevivable`] if the run did not end in a wait for decisions, or
    ///   decisions arrived in time.
    /// - [`JournalError::Runs`] with [`RunsError::Approval`] if the decisions do not fit the pending calls.
    /// - [`JournalError::Held`] if another context drives the run.
    /// - [`JournalError::InvalidId`], [`JournalError::NotFound`], [`JournalError::NotJson`], [`JournalError::TooLong`],
    ///   [`JournalError::Corrupt`], [`JournalError::Lock`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is either revived or unchanged.
    pub async fn revive(&self, id: &str, decisions: ApprovalDecisions) -> Result<(), JournalError> {
        check_run_id(id)?;
        let what = || "the decisions".to_owned();
        let json = within_limit(queued(&decisions)?, what)?;
        let value: Value = stored_json::read(json.as_bytes())
            .map_err(|source| JournalError::NotJson { what: "the decisions", source })?;
        let (id, locks) = (id.to_owned(), self.locks.clone());
        let write = self
            .database
            .write(move |transaction| revive(transaction, &id, &decisions, value, &locks));
        write.await.map_err(|error: JournalError| error)?;
        self.notices.runnable.notify_waiters();
        Ok(())
    }

    /// Reopens a run that failed or was cancelled. Use it after the cause of the failure was fixed, for example a wrong
    /// API key or a network failure.
    ///
    /// If the last step failed, its stored failure is removed, and the step runs again when the run is opened. The
    /// failure of a tool call is removed only if it ended the run. The call then runs again if the
    /// [effect](neuron_types::ToolEffect) of its tool allows it. These rules also apply to the steps of an agent inside
    /// a failed tool call.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotFailed`] if the run has neither failed nor been cancelled.
    /// - [`JournalError::Held`] if another context drives the run.
    /// - [`JournalError::InvalidId`], [`JournalError::NotFound`], [`JournalError::Corrupt`], [`JournalError::Lock`] or
    ///   [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is either reopened or unchanged.
    pub async fn retry(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks.clone());
        let write = self.database.write(move |transaction| retry(transaction, &id, &locks));
        write.await.map_err(|error: JournalError| error)?;
        self.notices.runnable.notify_waiters();
        Ok(())
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) fn notices(&self) -> &Arc<Notices> {
        &self.notices
    }
}

/// Returns `json` if it has at most [`DEFAULT_RECORD_LIMIT`] bytes, and [`JournalError::TooLong`] otherwise. `what`
/// names the value in the error.
fn within_limit(json: String, what: impl FnOnce() -> String) -> Result<String, JournalError> {
    let (length, limit) = (json.len(), DEFAULT_RECORD_LIMIT);
    match length <= limit {
        true => Ok(json),
        false => Err(JournalError::TooLong { what: what(), length, limit }),
    }
}

#[cfg(test)]
mod tests;
