//! [`SqliteRuns`]: the database of runs, as those see it who do not drive one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use neuron_runtime::DEFAULT_RECORD_LIMIT;
use neuron_sqlite::rusqlite::{Connection, Transaction};
use neuron_sqlite::{Abort, Database, SqliteOptions};
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

/// From so many free pages on a deletion gives them back to the file system: 1 MiB. What is less is used for
/// the next steps.
const MANY_PAGES: i64 = 256;

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

    /// Begins to open a run, or to create it: set options, then [`open`](RunBuilder::open) it.
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

    /// Returns the ids of the runs that have not ended and are not damaged, the oldest first: what a process opens again when it
    /// starts. Others may drive some of them; opening those fails with [`JournalError::Held`]. A [pool](Self::pool) opens
    /// them by itself.
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

    /// Returns what was stored with a run when it was created: [`RunBuilder::input`]. None if nothing was.
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
    /// [`JournalError::NotFound`] if there is no such run. [`JournalError::Ended`] if the run ended, or its wait for this
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
                return Err(JournalError::Ended { id, reason }.into());
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
    /// [`JournalError::NotFound`]; [`JournalError::Ended`] if the run has ended; [`JournalError::Corrupt`] or
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
                return Err(JournalError::Ended { id, reason }.into());
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
    /// the run carries them out once it is opened again.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotRevivable`] if the run did not end so; [`JournalError::Approval`] if the decisions do not fit
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
    /// the tool declares.
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

    /// Deletes a run, also one that is damaged, with its steps and signals.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`]; [`JournalError::Held`] if somebody drives it;
    /// [`JournalError::Lock`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it deletes the run or does not.
    pub async fn delete(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks.clone());
        let deleted = self.database.write(move |transaction| {
            // Also one that cannot be read any more.
            let mut select = transaction.prepare("SELECT key FROM runs WHERE id = ?1")?;
            let keys = select.query_map([&id], |row| row.get::<_, i64>(0))?;
            let keys: Vec<i64> = keys.collect::<Result<_, _>>()?;
            let Some(&key) = keys.first() else {
                return Err(JournalError::NotFound { id }.into());
            };
            if locks.is_held(key)? {
                return Err(JournalError::Held { id }.into());
            }
            delete(transaction, key)?;
            Ok((key, free_pages(transaction)?))
        });
        let (key, free) = deleted.await.map_err(|error: JournalError| error)?;
        self.locks.remove(key);
        self.reclaim(free).await;
        Ok(())
    }

    /// Deletes the runs that have ended, longer ago than this, and that nobody holds. Returns how many.
    ///
    /// # Errors
    ///
    /// [`JournalError::Lock`] or [`JournalError::Database`]: then none is deleted.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it deletes all of them or none.
    pub async fn prune(&self, older_than: Duration) -> Result<usize, JournalError> {
        let locks = self.locks.clone();
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let latest = millis(Utc::now()).saturating_sub(age);
        let pruned = self.database.write(move |transaction| {
            let mut keys: Vec<i64> = Vec::new();
            // A damaged run stays.
            for run in RunRow::all(transaction)?.into_iter().flatten() {
                let is_old = run.status.is_end() && run.changed_at <= latest;
                if is_old && !locks.is_held(run.key)? {
                    delete(transaction, run.key)?;
                    keys.push(run.key);
                }
            }
            Ok((keys, free_pages(transaction)?))
        });
        let (keys, free) = pruned.await.map_err(|error: JournalError| error)?;
        keys.iter().for_each(|key| self.locks.remove(*key));
        self.reclaim(free).await;
        Ok(keys.len())
    }

    /// Gives space back. What fails here is space that the next deletion gives back.
    async fn reclaim(&self, free: i64) {
        if free >= MANY_PAGES {
            let _ = self.database.reclaim().await;
        }
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

fn delete(transaction: &Transaction<'_>, run: i64) -> Result<(), Abort<JournalError>> {
    // Its steps and signals go with it.
    RunRow::delete_nested(transaction, run)?;
    transaction.execute("DELETE FROM runs WHERE key = ?1", [run])?;
    Ok(())
}

fn free_pages(connection: &Connection) -> Result<i64, Abort<JournalError>> {
    Ok(connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
}

#[cfg(test)]
mod tests;
