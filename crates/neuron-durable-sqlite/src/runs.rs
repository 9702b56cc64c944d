//! The database of runs, for processes that do not drive one ([`SqliteRuns`]).

use std::path::Path;
use std::sync::Arc;

use chrono::Utc;
use neuron_runtime::{DEFAULT_RECORD_LIMIT, RunsError};
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
use crate::retry::retry;
use crate::revive::revive;
use crate::run_builder::RunBuilder;
use crate::run_info::RunOutcome;
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
/// Any number of processes on one machine may use it at the same time. Beside it are SQLite's own files while
/// it is in use, and for `runs.db` a folder for locks, `runs.db.locks`, and a small file from which the loss of commits
/// is noticed, `runs.db-witness`.
#[derive(Debug, Clone)]
pub struct SqliteRuns {
    database: Database,
    locks: Locks,
    notices: Arc<Notices>,
}

impl SqliteRuns {
    /// Opens a database of runs, creates it if there is none, and brings it up to date. Its folder must exist.
    ///
    /// Every step is on the disk before the run goes on: [`Synchronous::Full`](crate::Synchronous::Full).
    ///
    /// The path `:memory:` gives one that lives as long as this value and its clones: for tests.
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`] when there is something else, it is damaged, commits are lost, a newer version wrote it,
    /// or it cannot be read or written. What is there is left as it is. [`accept_older`](crate::accept_older) accepts the
    /// loss of commits.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it opens nothing, or opens the database and closes it again.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        Self::open_with(path, SqliteOptions::new()).await
    }

    /// Opens a database as [`open`](Self::open) does, with options. With
    /// [`Synchronous::Normal`](crate::Synchronous::Normal) a power failure may take the last steps with it, so
    /// that they are done again, those of [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) tools too.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let database = Database::open_witnessed(path, RUNS, options).await?;
        let locks = Locks::of(&database)?;
        Ok(Self { database, locks, notices: Arc::default() })
    }

    /// Writes a copy of all runs, as they are at one moment, to a new file. Others go on reading and writing.
    ///
    /// The copy is a complete database of its own, and is on the disk before it has its name. A run that goes on in both
    /// databases does its effects in both.
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`] if there is a file at the path, its folder does not exist, or the database is damaged.
    /// No file is then left at the path.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is written all the same or not at all.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<(), JournalError> {
        Ok(self.database.backup(path).await?)
    }

    /// Starts to open or create a run. Set options, then [`open`](RunBuilder::open) it.
    ///
    /// An id has 1 to 200 bytes and is a file name on every system:
    /// [`check_session_id`](neuron_types::check_session_id) has the rule.
    pub fn run<'a>(&'a self, id: &'a str) -> RunBuilder<'a> {
        RunBuilder::new(self, id)
    }

    /// Makes a pool that drives the runs of this database. Set its options, then [`run`](RunPool::run) it. The steps of all
    /// runs call this model and these tools.
    pub fn pool<P: Provider + 'static, A: DurableAgent>(
        &self,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
        agent: A,
    ) -> RunPool<P, A> {
        RunPool::new(self.clone(), provider, tools, agent)
    }

    /// Lists all runs, the oldest first. A damaged run is listed as [damaged](RunStatus::Damaged).
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has no effect.
    pub async fn list(&self) -> Result<Vec<RunSummary>, JournalError> {
        self.database.read(|transaction| list(transaction)).await
    }

    /// Returns the ids of the runs that have not ended and are not damaged, oldest first, so that a process
    /// opens them when it starts. Other processes may drive some of them, and opening these fails with
    /// [`JournalError::Held`]. A [pool](Self::pool) opens runs by itself.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has no effect.
    pub async fn unfinished(&self) -> Result<Vec<String>, JournalError> {
        let all = self.list().await?;
        let is_open = |run: &RunSummary| !run.status.is_end() && run.status != RunStatus::Damaged;
        Ok(all.into_iter().filter(is_open).map(|run| run.id).collect())
    }

    /// Tells all about a run. To know whether somebody drives it, it takes its turn among those who write; where
    /// others write all the time it may wait as long as
    /// [`busy_timeout`](SqliteOptions::busy_timeout) says. [`list`](Self::list) waits for nobody.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`], [`JournalError::Corrupt`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has no effect.
    pub async fn inspect(&self, id: &str) -> Result<RunDetails, JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks.clone());
        let read = self.database.read(move |transaction| details(transaction, &id));
        let (key, mut details): (i64, RunDetails) =
            read.await.map_err(|error: JournalError| error)?;
        // Locks are only looked at while nobody else writes: who opens a run at this moment would find it held.
        let look = self.database.write(move |_| Ok(locks.is_held(key)?));
        details.is_held = look.await.map_err(|error: JournalError| error)?;
        Ok(details)
    }

    /// Returns the value that [`RunBuilder::input`] stored with a new run. `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`]; [`JournalError::NotJson`] when it is not a `T`;
    /// [`JournalError::Corrupt`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has no effect.
    pub async fn input<T: DeserializeOwned>(&self, id: &str) -> Result<Option<T>, JournalError> {
        check_run_id(id)?;
        let id = id.to_owned();
        let read = self.database.read(move |transaction| Ok(RunRow::get(transaction, &id)?.input));
        let input: Option<String> = read.await?;
        let parsed = input.map(|json| stored_json::read(json.as_bytes())).transpose();
        parsed.map_err(|source| JournalError::NotJson { what: "the input of the run", source })
    }

    /// Sends a signal to a run, from any process, whether or not somebody drives the run. It waits in the
    /// database until the run receives it. Signals of one name are received in the order in which they were
    /// sent.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`] if there is no such run. [`RunsError::Ended`] if the run ended, or its wait for this
    /// signal ended at the deadline: nobody would receive the signal. [`JournalError::NotJson`] or
    /// [`JournalError::TooLong`] for what cannot be stored; [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it is sent or not.
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

    /// Cancels a run. A run that is driven ends with [`DurableError::Cancelled`](neuron_types::DurableError::Cancelled)
    /// and has no further effects. A step that it does in this process ends at once. Another process notices at the next
    /// step, look for signals or renewal of its lease, which is after a third of the lease.
    /// [`retry`](Self::retry) lets the run go on.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`]; [`RunsError::Ended`] if the run has ended; [`JournalError::Corrupt`] or
    /// [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is cancelled or is not.
    pub async fn cancel(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, now) = (id.to_owned(), millis(Utc::now()));
        let cancel = self.database.write::<_, JournalError>(move |transaction| {
            let mut run = RunRow::get(transaction, &id)?;
            let (_, last) = StepRow::last(transaction, (run.key, &id))?;
            if let Some(reason) = Standing::of(&run, last.as_ref())?.end() {
                return Err(JournalError::Runs(RunsError::Ended { id, reason }).into());
            }
            let outcome = RunOutcome::error("Cancelled", "the run was cancelled".to_owned());
            run.outcome = Some(to_json("the outcome of the run", &outcome)?);
            run.status = RunStatus::Cancelled;
            run.changed_at = now;
            run.update(transaction)
        });
        cancel.await?;
        self.notices.cancelled.notify_waiters();
        Ok(())
    }

    /// Lets a run go on with decisions that come too late. Its wait for them ended at the deadline, and the run with
    /// [`LoopError::ApprovalRequired`](neuron_types::LoopError::ApprovalRequired). The wait then ends with the decisions, and
    /// the run carries them out once it is opened again. A signal that came after the deadline, and before the run ended, is
    /// removed.
    ///
    /// A run is not revived if decisions came in time and nobody has driven it since. It goes on with them.
    ///
    /// If the agent [signs](neuron_types::ApprovalSigner) its questions, and the life of the signatures is over too, the run
    /// does not take the decisions. It asks again, with new signatures and a new deadline.
    ///
    /// # Errors
    ///
    /// [`RunsError::NotRevivable`] if the run did not end so, or decisions came in time; [`RunsError::Approval`] if the decisions do not fit
    /// its calls; [`JournalError::Held`] if somebody drives it; [`JournalError::NotFound`], [`JournalError::TooLong`],
    /// [`JournalError::Corrupt`], [`JournalError::Lock`] or [`JournalError::Database`]. Nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is revived or is not.
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

    /// Takes back that a run failed or was cancelled. Opened again, it does its last step anew, if that is what failed.
    /// For failures whose cause is gone: a key that was wrong, a network that was down.
    ///
    /// A tool call that failed is then one that began and did not end: whether it runs again follows from what
    /// the tool declares. The same holds inside an agent whose call failed.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`]; [`JournalError::NotFailed`]; [`JournalError::Held`] if somebody drives
    /// it; [`JournalError::Corrupt`], [`JournalError::Lock`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it takes it back or does not.
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

/// Checks the length of a signal.
fn within_limit(json: String, what: impl FnOnce() -> String) -> Result<String, JournalError> {
    let (length, limit) = (json.len(), DEFAULT_RECORD_LIMIT);
    match length <= limit {
        true => Ok(json),
        false => Err(JournalError::TooLong { what: what(), length, limit }),
    }
}

#[cfg(test)]
mod tests;
