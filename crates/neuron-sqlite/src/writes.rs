//! The queue of a database's writes ([`Queue`]). Writes that wait at the same time share one transaction and its sync.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Error, Transaction, TransactionBehavior, ffi};
use tokio::sync::oneshot;

use crate::database::Files;
use crate::witness::Witness;
use crate::{Abort, SqliteError};

/// Maximum number of writes that share a transaction.
const MOST: usize = 256;

/// The outcome of a write. The outer `Err` is the payload of a panic.
pub(crate) type Outcome<T, E> = Result<Result<T, E>, Box<dyn Any + Send>>;

/// A queue of waiting writes, in the order of their calls.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Box<dyn Job>>>,
    /// Locked while the writes of a transaction run and are committed. Only threads hold this lock, and they never wait
    /// for a future while they hold it.
    running: Mutex<()>,
    /// Set if a caller was dropped before its write ended. The write may still be running.
    has_dropped_caller: AtomicBool,
}

/// The caller of a write. Must be dropped after the receiver of the outcome, so that [`Queue::wait_for_dropped`] finds
/// every write that runs without its caller.
pub(crate) struct Caller<'q> {
    queue: &'q Queue,
    is_waiting: bool,
}

impl Caller<'_> {
    /// Records that the write has ended.
    pub(crate) fn end(&mut self) {
        self.is_waiting = false;
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.queue.has_dropped_caller.store(true, Ordering::SeqCst);
        }
    }
}

impl Queue {
    pub(crate) fn caller(&self) -> Caller<'_> {
        Caller { queue: self, is_waiting: true }
    }

    /// Blocks the thread until no write of a dropped caller runs any more. Such a write can still commit, and a read that
    /// starts after the drop must see it.
    pub(crate) fn wait_for_dropped(&self) {
        if self.has_dropped_caller.load(Ordering::SeqCst) {
            let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            // While this lock is held, no write runs. A write that still waits without its caller never runs.
            self.has_dropped_caller.store(false, Ordering::SeqCst);
        }
    }

    /// Adds a write and returns the receiver of its outcome. If `is_synced` is `true`, the write is on the disk before
    /// the outcome is sent.
    pub(crate) fn add<T, E, F>(&self, is_synced: bool, work: F) -> oneshot::Receiver<Outcome<T, E>>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    {
        let (reply, outcome) = oneshot::channel();
        self.lock().push_back(Box::new(Write { is_synced, state: State::Waiting(work), reply }));
        outcome
    }

    /// Runs up to [`MOST`] of the waiting writes in one transaction. The function `switch_sync` turns the sync of the
    /// next commit on or off.
    ///
    /// A failed write is undone, and the other writes of the transaction are kept. If the transaction cannot begin,
    /// only the first write receives the error.
    pub(crate) fn run(
        &self,
        path: &Path,
        connection: &mut Connection,
        files: &Files,
        switch_sync: impl FnOnce(&Connection, bool) -> rusqlite::Result<()>,
    ) {
        let is_synced = {
            let mut jobs = self.lock();
            // Writes of dropped callers must not start a transaction.
            while jobs.front().is_some_and(|job| !job.is_awaited()) {
                jobs.pop_front();
            }
            if jobs.is_empty() {
                return;
            }
            // One write that needs a sync makes the whole transaction synced.
            jobs.iter().take(MOST).any(|job| job.is_synced())
        };
        let begun = switch_sync(connection, is_synced)
            .map_err(|error| SqliteError::new(path, error))
            .and_then(|()| files.begin(path, connection, TransactionBehavior::Immediate));
        let transaction = match begun {
            Ok(transaction) => transaction,
            Err(error) => {
                if let Some(first) = self.pop() {
                    first.end(path, Some(error));
                }
                return;
            }
        };
        // Not locked while the transaction waits for another process. A write whose caller is dropped until here is not
        // kept.
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut jobs = self.take(is_synced);
        let mut has_changed = false;
        let mut failure = None;
        let mut ran = 0;
        for job in &mut jobs {
            ran += 1;
            match job.run(&transaction) {
                Ok(changed) => has_changed |= changed,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // After a failure of the transaction, the remaining writes run in the next one.
        self.put_back(jobs.split_off(ran));
        let witness = files.witness.as_ref().filter(|_| has_changed);
        let committed = match failure {
            Some(error) => Err(error),
            None => commit(transaction, witness),
        };
        let failure = match committed {
            Ok(number) => {
                // A commit without a sync can be lost after a power failure, so the witness must not count it.
                if let (Some(witness), Some(number), true) = (witness, number, is_synced) {
                    witness.note(number);
                }
                None
            }
            Err(error) => Some(error),
        };
        for job in jobs {
            job.end(path, failure.as_ref().map(|error| SqliteError::new(path, again(error))));
        }
    }

    /// Removes and returns the first waiting write.
    fn pop(&self) -> Option<Box<dyn Job>> {
        self.lock().pop_front()
    }

    /// Removes and returns the next writes, at most [`MOST`]. If `is_synced` is `false`, stops before the first write
    /// that needs a sync.
    fn take(&self, is_synced: bool) -> VecDeque<Box<dyn Job>> {
        let mut jobs = self.lock();
        let next = jobs.iter().take(MOST);
        let count = next.take_while(|job| is_synced || !job.is_synced()).count();
        let rest = jobs.split_off(count);
        mem::replace(&mut *jobs, rest)
    }

    /// Puts writes that did not run back to the front of the queue.
    fn put_back(&self, mut jobs: VecDeque<Box<dyn Job>>) {
        if !jobs.is_empty() {
            let mut waiting = self.lock();
            jobs.append(&mut waiting);
            *waiting = jobs;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<dyn Job>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits a transaction. Returns its commit number, or `None` if the database has no witness file that counts commits.
fn commit(
    transaction: Transaction<'_>,
    witness: Option<&Witness>,
) -> rusqlite::Result<Option<u64>> {
    let number = witness.map(|witness| witness.count(&transaction)).transpose()?;
    transaction.commit()?;
    Ok(number)
}

/// A write in the queue, without its generic types.
trait Job: Send {
    /// Returns `true` if the commit of the write must be synced.
    fn is_synced(&self) -> bool;

    /// Returns `true` if the caller still waits for the outcome.
    fn is_awaited(&self) -> bool;

    /// Runs the write in a savepoint. Undoes the savepoint if the write fails or if its caller no longer waits. Returns
    /// `true` if the write changed the database.
    ///
    /// # Errors
    ///
    /// Returns an error if SQLite has undone the whole transaction, as it does when the disk is full.
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<bool>;

    /// Sends the outcome to the caller. `failure` is the reason why the transaction was not committed. It is `None`
    /// after a commit.
    fn end(self: Box<Self>, path: &Path, failure: Option<SqliteError>);
}

/// A waiting write, and the sender of its outcome.
struct Write<T, E, F> {
    is_synced: bool,
    state: State<T, E, F>,
    reply: oneshot::Sender<Outcome<T, E>>,
}

/// The progress of a write, with its work or its outcome.
enum State<T, E, F> {
    Waiting(F),
    Done(T),
    Failed(Abort<E>),
    Panicked(Box<dyn Any + Send>),
    /// The caller no longer waits, so the write is not kept.
    Dropped,
}

impl<T, E, F> Job for Write<T, E, F>
where
    T: Send,
    E: From<SqliteError> + Send,
    F: FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send,
{
    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        // The caller may have been dropped while the transaction waited for another process.
        let State::Waiting(work) = mem::replace(&mut self.state, State::Dropped) else {
            return Ok(false);
        };
        if !self.is_awaited() {
            return Ok(false);
        }
        transaction.execute_batch("SAVEPOINT neuron_write")?;
        // A transaction without changes does not increment the commit number.
        let changes = transaction.total_changes();
        let ran = catch_unwind(AssertUnwindSafe(|| work(transaction)));
        self.state = match ran {
            Ok(Ok(_)) if !self.is_awaited() => State::Dropped,
            Ok(Ok(result)) => State::Done(result),
            Ok(Err(abort)) => State::Failed(abort),
            Err(payload) => State::Panicked(payload),
        };
        // Autocommit means that SQLite has undone the whole transaction.
        if transaction.is_autocommit() {
            return Err(match &self.state {
                State::Failed(Abort::Sqlite(error)) => again(error),
                _ => failure(ffi::SQLITE_ABORT_ROLLBACK, "a write of the transaction failed"),
            });
        }
        let is_kept = matches!(self.state, State::Done(_));
        if !is_kept {
            transaction.execute_batch("ROLLBACK TO neuron_write")?;
        }
        transaction.execute_batch("RELEASE neuron_write")?;
        Ok(is_kept && transaction.total_changes() != changes)
    }

    fn end(self: Box<Self>, path: &Path, failure: Option<SqliteError>) {
        let outcome = match (self.state, failure) {
            (State::Done(result), None) => Ok(Ok(result)),
            (State::Done(_) | State::Waiting(_), Some(error)) => Ok(Err(error.into())),
            (State::Failed(abort), _) => Ok(Err(abort.into_error(path))),
            (State::Panicked(payload), _) => Err(payload),
            (State::Dropped | State::Waiting(_), _) => return,
        };
        // If the caller no longer waits, its result is dropped here, before the next transaction begins.
        let _ = self.reply.send(outcome);
    }
}

/// Returns a copy of an error of SQLite, whose type does not implement `Clone`.
fn again(error: &Error) -> Error {
    match error {
        Error::SqliteFailure(code, text) => Error::SqliteFailure(*code, text.clone()),
        other => failure(ffi::SQLITE_ERROR, &other.to_string()),
    }
}

fn failure(code: i32, text: &str) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
}
