//! The writes of a database. Writes that wait at the same time share a transaction and its sync.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Error, Transaction, TransactionBehavior, ffi};
use tokio::sync::oneshot;

use crate::database::Files;
use crate::witness::Witness;
use crate::{Abort, SqliteError};

/// Maximum number of writes in a transaction.
const MOST: usize = 256;

/// The outcome of a write, which is its result or the payload of its panic.
pub(crate) type Outcome<T, E> = Result<Result<T, E>, Box<dyn Any + Send>>;

/// Writes in order of arrival.
#[derive(Default)]
pub(crate) struct Queue(Mutex<VecDeque<Box<dyn Job>>>);

impl Queue {
    /// Adds a write. `is_synced` tells whether it has to be on the disk when it returns.
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

    /// Runs the writes that wait, in one transaction. `switch_sync` makes the next commits synced or not.
    ///
    /// A write that fails is undone, and the others stay. If the transaction cannot begin, the first write fails.
    pub(crate) fn run(
        &self,
        path: &Path,
        connection: &mut Connection,
        files: &Files,
        switch_sync: impl FnOnce(&Connection, bool) -> rusqlite::Result<()>,
    ) {
        let is_synced = {
            let mut jobs = self.lock();
            while jobs.front().is_some_and(|job| !job.is_awaited()) {
                jobs.pop_front();
            }
            if jobs.is_empty() {
                return;
            }
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
        self.put_back(jobs.split_off(ran));
        let witness = files.witness.as_ref().filter(|_| has_changed);
        let committed = match failure {
            Some(error) => Err(error),
            None => commit(transaction, witness),
        };
        let failure = match committed {
            Ok(number) => {
                // A commit that is not synced can be lost, so the witness must not have seen it.
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

    fn pop(&self) -> Option<Box<dyn Job>> {
        self.lock().pop_front()
    }

    /// Takes the next writes. Without a sync, writes that need one stay.
    fn take(&self, is_synced: bool) -> VecDeque<Box<dyn Job>> {
        let mut jobs = self.lock();
        let next = jobs.iter().take(MOST);
        let count = next.take_while(|job| is_synced || !job.is_synced()).count();
        let rest = jobs.split_off(count);
        mem::replace(&mut *jobs, rest)
    }

    fn put_back(&self, mut jobs: VecDeque<Box<dyn Job>>) {
        if !jobs.is_empty() {
            let mut waiting = self.lock();
            jobs.append(&mut waiting);
            *waiting = jobs;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<dyn Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits a transaction. Returns its number, if the witness counts it.
fn commit(
    transaction: Transaction<'_>,
    witness: Option<&Witness>,
) -> rusqlite::Result<Option<u64>> {
    let number = witness.map(|witness| witness.count(&transaction)).transpose()?;
    transaction.commit()?;
    Ok(number)
}

/// A write in the queue.
trait Job: Send {
    fn is_synced(&self) -> bool;

    /// Returns `true` if the future of the write was not dropped.
    fn is_awaited(&self) -> bool;

    /// Runs the write, and undoes it if it fails or nobody awaits it. Returns `true` if it changed the database.
    ///
    /// # Errors
    ///
    /// SQLite has undone the whole transaction, as it does when a disk is full.
    fn run(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<bool>;

    /// Sends the outcome. `failure` is the reason for which the transaction was not committed.
    fn end(self: Box<Self>, path: &Path, failure: Option<SqliteError>);
}

struct Write<T, E, F> {
    is_synced: bool,
    state: State<T, E, F>,
    reply: oneshot::Sender<Outcome<T, E>>,
}

enum State<T, E, F> {
    Waiting(F),
    Done(T),
    Failed(Abort<E>),
    Panicked(Box<dyn Any + Send>),
    /// The caller has dropped the write.
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
        // It may have waited long for another process.
        let State::Waiting(work) = mem::replace(&mut self.state, State::Dropped) else {
            return Ok(false);
        };
        if !self.is_awaited() {
            return Ok(false);
        }
        transaction.execute_batch("SAVEPOINT neuron_write")?;
        let changes = transaction.total_changes();
        let ran = catch_unwind(AssertUnwindSafe(|| work(transaction)));
        self.state = match ran {
            Ok(Ok(_)) if !self.is_awaited() => State::Dropped,
            Ok(Ok(result)) => State::Done(result),
            Ok(Err(abort)) => State::Failed(abort),
            Err(payload) => State::Panicked(payload),
        };
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
        // A result that nobody awaits is dropped here, before the next transaction.
        let _ = self.reply.send(outcome);
    }
}

/// Makes an error of SQLite once more.
fn again(error: &Error) -> Error {
    match error {
        Error::SqliteFailure(code, text) => Error::SqliteFailure(*code, text.clone()),
        other => failure(ffi::SQLITE_ERROR, &other.to_string()),
    }
}

fn failure(code: i32, text: &str) -> Error {
    Error::SqliteFailure(ffi::Error::new(code), Some(text.to_owned()))
}
