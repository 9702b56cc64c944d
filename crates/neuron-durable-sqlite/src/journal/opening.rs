//! Opening the journal of a run, and the nested journals of agents inside its tool calls.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use chrono::Utc;
use neuron_durable::RunStatus;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Transaction;
use neuron_types::DurableError;

use super::holding::Opened;
use super::{Journal, Place, State};
use crate::lock::{Lock, Locks};
use crate::run_builder::RunOptions;
use crate::run_row::RunRow;
use crate::step_row::{StepRow, millis};
use crate::version::{self, Pin};
use crate::{JournalError, SqliteRuns};

impl Journal {
    /// Opens a run, and creates it if it does not exist. All steps and their checksums are checked before the database
    /// is changed.
    ///
    /// # Errors
    ///
    /// - [`JournalError::NotFound`] if a pool opens a run that does not exist.
    /// - [`JournalError::OtherVersion`] if the run is pinned to another version.
    /// - The errors of [`SqliteDurableContext::open`](crate::SqliteDurableContext::open).
    pub(crate) async fn open(
        runs: &SqliteRuns,
        id: &str,
        input: Option<String>,
        options: &RunOptions,
    ) -> Result<Self, JournalError> {
        let (id, locks, options) = (id.to_owned(), runs.locks().clone(), options.clone());
        let now = millis(Utc::now());
        let opened = runs.database().write(move |transaction| {
            let run = match RunRow::find(transaction, &id)? {
                Some(run) => run,
                // A pool opens only runs that it found. This run was deleted since.
                None if options.parking.is_some() => {
                    return Err(JournalError::NotFound { id }.into());
                }
                None => {
                    let mut run = RunRow::new(id, input, now);
                    run.agent_version.clone_from(&options.durable.agent_version);
                    run.insert(transaction)?;
                    run
                }
            };
            open(transaction, run, &locks, &options)
        });
        let opened: Result<_, JournalError> = opened.await?;
        let (run, steps, lock) = opened?;
        let state = State::new(&run, steps);
        Ok(Self {
            database: runs.database().clone(),
            place: Place {
                run: run.key,
                id: run.id.into(),
                opened: Opened { run: run.key, epoch: run.epoch },
            },
            notices: runs.notices().clone(),
            state: Mutex::new(state),
            asking: tokio::sync::Mutex::new(()),
            lock: Arc::new(lock),
            drivers: AtomicUsize::new(0),
        })
    }

    /// Opens or creates the nested journal of an agent inside a tool call. `key` is the key of the call's step.
    pub(crate) async fn nested(&self, key: &str) -> Result<Self, DurableError> {
        let (id, now) = (format!("{}/{key}", self.place.id), self.stamp());
        let opened = self.write(move |transaction, _| {
            let run = match RunRow::find(transaction, &id)? {
                Some(run) => run,
                None => {
                    let mut run = RunRow::new(id, None, now);
                    run.insert(transaction)?;
                    run
                }
            };
            let steps = StepRow::load(transaction, (run.key, &run.id), 0)?;
            StepRow::check_end(transaction, (run.key, &run.id))?;
            Ok((run, steps))
        });
        let (run, steps) = opened.await?;
        let state = State::new(&run, steps);
        Ok(Self {
            database: self.database.clone(),
            place: Place { run: run.key, id: run.id.into(), opened: self.place.opened },
            notices: self.notices.clone(),
            state: Mutex::new(state),
            asking: tokio::sync::Mutex::new(()),
            lock: self.lock.clone(),
            drivers: AtomicUsize::new(0),
        })
    }
}

/// The opened run with its steps and its lock.
///
/// `Err` means that the run is pinned to another version. The transaction is still committed, because it has set the
/// status of the run to [`RunStatus::Stalled`].
type Open = Result<(RunRow, Vec<StepRow>, Lock), JournalError>;

/// Locks a run for one context, and returns the run with its steps. Fails if another context holds the run, or if it
/// is cancelled, damaged or pinned to another version.
fn open(
    transaction: &Transaction<'_>,
    mut run: RunRow,
    locks: &Locks,
    options: &RunOptions,
) -> Result<Open, Abort<JournalError>> {
    let held = |id: &str| JournalError::Held { id: id.into() };
    if locks.is_held(run.key)? {
        return Err(held(&run.id).into());
    }
    if run.status == RunStatus::Cancelled {
        return Err(JournalError::Cancelled { id: run.id }.into());
    }
    let steps = StepRow::load(transaction, (run.key, &run.id), 0)?;
    StepRow::check_end(transaction, (run.key, &run.id))?;
    match version::pin(&mut run, options)? {
        Pin::Fits => {}
        Pin::Differs(error) => {
            run.update(transaction)?;
            return Ok(Err(error));
        }
    }
    // The lock must come last. If this transaction failed after a takeover, the previous holder would not get its lock
    // back. Only the database can fail from here on.
    let lock = locks.acquire(run.key, options.lease())?.ok_or_else(|| held(&run.id))?;
    run.epoch += 1;
    run.update(transaction)?;
    Ok(Ok((run, steps, lock)))
}
