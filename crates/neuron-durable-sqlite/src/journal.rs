//! The journal of a run that a context has opened ([`Journal`]).

mod ending;
mod holding;
mod opening;
mod progress;
mod turn;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use neuron_sqlite::rusqlite::Transaction;
use neuron_sqlite::{Abort, Database};
use neuron_types::{DurableError, Start, stored_json};
use tokio::sync::MutexGuard as AsyncGuard;

use crate::JournalError;
use crate::effect_row::EffectRow;
use crate::lock::Lock;
use crate::notices::Notices;
use crate::run_row::RunRow;
use crate::step_row::{StepRow, millis, time};
use crate::texts::to_json;
use neuron_durable::RunStatus;

pub(crate) use holding::Place;
use progress::Progress;
pub(crate) use turn::{Kind, Turn};

/// The journal of an opened run, or the nested journal of an agent inside one of its tool calls.
#[derive(Debug)]
pub(crate) struct Journal {
    database: Database,
    /// Key and id of the run, and its [epoch](holding::Opened) when this context opened the run.
    place: Place,
    notices: Arc<Notices>,
    state: Mutex<State>,
    /// The lock that a step holds until the step is done, because steps run one at a time.
    asking: tokio::sync::Mutex<()>,
    /// Lock of the opened run. A nested journal shares it.
    lock: Arc<Lock>,
    /// Number of drivers that start a new execution when the run continues as new.
    drivers: AtomicUsize,
}

/// The position of the current execution in its journal.
#[derive(Debug)]
struct State {
    /// The stored steps that were not requested yet in this replay.
    recorded: VecDeque<StepRow>,
    /// Set if the future of a step was dropped before the step ended. `recorded` may then be out of date.
    is_stale: bool,
    /// Position of the next step, from 0.
    position: i64,
    /// Number of steps of each kind so far, from which the keys of the next steps are made.
    counts: Counts,
    /// Time at which the last step ended or the execution began, in milliseconds since 1970.
    stamp: i64,
    /// Set if the run had ended and no step was added since.
    has_ended: bool,
    /// Number of the current execution, from 0.
    execution: i64,
    /// Set if the run continued as new and the new start was not read yet by `Journal::start`.
    needs_start: bool,
    /// Set if a loop of the agent has ended in this execution.
    has_ended_loops: bool,
    /// Error of an earlier step that could not return it. The next step returns it.
    failure: Option<DurableError>,
    /// Progress of the replay, which is reported as `tracing` events.
    progress: Progress,
}

/// Number of steps of each kind in the current execution.
#[derive(Debug, Default)]
struct Counts {
    models: usize,
    batches: usize,
    signals: usize,
    sleeps: usize,
    values: usize,
}

impl Journal {
    /// Returns `true` if this is the nested journal of an agent inside a tool call.
    pub(crate) fn is_nested(&self) -> bool {
        self.place.run != self.place.opened.run
    }

    /// Begins the replay, and returns the stored start and the effects of the run. If the run has no start yet, stores and
    /// returns `start`. Sets a stalled run to running.
    pub(crate) async fn start(
        &self,
        start: Start,
    ) -> Result<(Start, Vec<EffectRow>), DurableError> {
        let _asking = self.ask()?;
        let json = to_json("the start of the run", &start)?;
        let id = self.place.id.clone();
        let (run, steps, effects, is_new) = self
            .write(move |transaction, place| {
                let mut run = RunRow::get(transaction, &id)?;
                let steps = StepRow::load(transaction, (place.run, &id), 0)?;
                let effects = EffectRow::all(transaction, (place.run, &id))?;
                let is_new = run.start.is_none();
                if is_new {
                    run.set_first_start(json);
                }
                let stood_still = run.status == RunStatus::Stalled;
                if stood_still {
                    run.status = RunStatus::Running;
                    run.outcome = None;
                }
                if is_new || stood_still {
                    run.update(transaction)?;
                }
                Ok((run, steps, effects, is_new))
            })
            .await?;
        let stored = match (is_new, &run.start) {
            (false, Some(json)) => stored_json::read(json.as_bytes()).map_err(|error| {
                let reason = format!("its start cannot be read: {error}");
                JournalError::corrupt(&self.place.id, reason)
            })?,
            _ => start,
        };
        if let Start::Snapshot(snapshot) = &stored {
            snapshot.check_version()?;
        }
        *self.state() = State { needs_start: false, ..State::new(&run, steps) };
        Ok((stored, effects))
    }

    /// Begins the next step, and returns a [`Turn`] with which the step uses the journal. If an earlier step was
    /// dropped before its end, the stored steps are first read again from the database.
    ///
    /// # Errors
    ///
    /// - Another step is in progress.
    /// - An earlier call of [`fail_later`](Self::fail_later) stored a failure.
    /// - The run must first be restarted by [`start`](Self::start).
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, DurableError> {
        let asking = self.ask()?;
        let turn = Turn::new(self, asking);
        let (is_stale, from) = {
            let mut state = self.state();
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.needs_start {
                return Err(self.needs_start());
            }
            (state.is_stale, state.position)
        };
        if is_stale {
            // Read in a write transaction: it begins only after the abandoned write of the dropped step was committed
            // or rolled back.
            let read = move |transaction: &Transaction<'_>, place: &Place| {
                let run = RunRow::get(transaction, &place.id)?;
                Ok((run.execution, StepRow::load(transaction, (run.key, &place.id), from)?))
            };
            let (execution, steps) = self.write(read).await?;
            let mut state = self.state();
            if execution != state.execution {
                // The dropped step was `continue_as_new`, and its transaction was committed.
                state.needs_start = true;
                return Err(self.needs_start());
            }
            state.recorded = steps.into();
            state.is_stale = false;
        }
        Ok(turn)
    }

    /// Creates the error for a step that the agent requests too early. The run continues as a new execution, so
    /// [`start`](Self::start) must first read the stored state.
    fn needs_start(&self) -> DurableError {
        other(format!(
            "the run {:?} continues from a stored state: run the agent from the result of `start`",
            self.place.id
        ))
    }

    /// Locks the journal for one step. Returns an error if another step is in progress.
    fn ask(&self) -> Result<AsyncGuard<'_, ()>, DurableError> {
        self.asking.try_lock().map_err(|_| {
            other(format!(
                "the run {:?} was asked for a step while another one is done: the order of its steps must \
                 not depend on chance",
                self.place.id
            ))
        })
    }

    /// Registers a driver until the returned guard is dropped. A driver is code that starts the next execution when the
    /// run continues as new.
    pub(crate) fn driven(&self) -> Driven<'_> {
        self.drivers.fetch_add(1, Ordering::SeqCst);
        Driven(self)
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.drivers.load(Ordering::SeqCst) > 0
    }

    /// Stores a failure that the next step returns.
    pub(crate) fn fail_later(&self, failure: DurableError) {
        self.state().failure = Some(failure);
    }

    /// Removes and returns the failure that [`fail_later`](Self::fail_later) stored. Returns `None` if there is none.
    pub(crate) fn take_failure(&self) -> Option<DurableError> {
        self.state().failure.take()
    }

    /// Runs `work` in a transaction that may write. If the run was cancelled, deleted, or opened by another context,
    /// returns an error and does not run `work`.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        Ok(self.database.write(placed(self.place.clone(), work)).await?)
    }

    /// Runs `work`, which writes a step, in a transaction as [`write`](Self::write) does. If the run had ended, the
    /// transaction also sets its status to running.
    pub(crate) async fn write_step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        self.commit_step(true, work).await
    }

    /// Writes a step as [`write_step`](Self::write_step) does, but without a sync. A power failure may undo the write.
    pub(crate) async fn write_step_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        self.commit_step(false, work).await
    }

    async fn commit_step<T: Send + 'static>(
        &self,
        is_synced: bool,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        let work = placed(self.place.clone(), of_step(self.state().has_ended, work));
        let done = match is_synced {
            true => self.database.write(work).await?,
            false => self.database.write_unsynced(work).await?,
        };
        self.state().has_ended = false;
        Ok(done)
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the position of the next step, which is the number of steps so far.
    pub(crate) fn position(&self) -> i64 {
        self.state().position
    }

    /// Returns `true` if all steps of the journal were replayed.
    pub(crate) fn is_at_end(&self) -> bool {
        self.state().recorded.is_empty()
    }

    /// Records that a loop of the agent has ended.
    pub(crate) fn loop_ended(&self) {
        self.state().has_ended_loops = true;
    }

    pub(crate) fn has_ended_loops(&self) -> bool {
        self.state().has_ended_loops
    }

    /// Checks that the agent requested all steps of the journal before it returned.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if a step was not requested. A step whose future was dropped before its end
    /// counts as requested.
    pub(crate) fn expect_all_asked(&self) -> Result<(), DurableError> {
        let state = self.state();
        match state.recorded.front().filter(|_| !state.is_stale) {
            None => Ok(()),
            Some(step) => Err(differs(&step.key, "the end of the agent")),
        }
    }

    /// Returns the time of the journal's clock, at which the last step ended or the execution began.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        time(self.state().stamp)
    }

    /// Returns the time for a new record, in milliseconds since 1970. Returns the system time, or the time of the last
    /// step if this is later.
    pub(crate) fn stamp(&self) -> i64 {
        millis(Utc::now()).max(self.state().stamp)
    }

    /// Returns `true` if the run has ended or was cancelled.
    pub(crate) async fn is_over(&self) -> bool {
        let has_ended = self.state().has_ended;
        has_ended || matches!(self.check_held().await, Err(DurableError::Cancelled))
    }

    /// Returns `true` while the journal has finished steps that were not replayed yet. Also returns `true` if the run
    /// has ended and no new step was written since.
    pub(crate) fn is_replaying(&self) -> bool {
        let state = self.state();
        state.has_ended || state.recorded.iter().any(|step| step.record.is_some())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that counts as one driver of its journal until it is dropped.
pub(crate) struct Driven<'a>(&'a Journal);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.drivers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl State {
    fn new(run: &RunRow, steps: Vec<StepRow>) -> Self {
        let progress = Progress::of(steps.iter().filter(|step| step.record.is_some()).count());
        Self {
            recorded: steps.into(),
            is_stale: false,
            position: 0,
            counts: Counts::default(),
            stamp: run.started_at,
            has_ended: run.outcome.is_some() && run.status != RunStatus::Stalled,
            execution: run.execution,
            needs_start: run.execution > 0,
            has_ended_loops: false,
            failure: None,
            progress,
        }
    }

    /// Returns the counter of the steps of a kind.
    fn count(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Model => &mut self.counts.models,
            Kind::Tools => &mut self.counts.batches,
            Kind::Signal => &mut self.counts.signals,
            Kind::Sleep => &mut self.counts.sleeps,
            Kind::Value => &mut self.counts.values,
        }
    }
}

/// Returns a transaction that first checks that this context still holds the run, and then does `work`.
fn placed<T>(
    place: Place,
    work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>>,
) -> impl FnOnce(&Transaction<'_>) -> Result<T, Abort<JournalError>> {
    move |transaction| {
        place.check(transaction)?;
        work(transaction, &place)
    }
}

/// Returns a transaction that runs `work`. If `has_ended` is `true`, the transaction first sets the run to running.
fn of_step<T>(
    has_ended: bool,
    work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>>,
) -> impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> {
    move |transaction, place| {
        if has_ended {
            let mut run = RunRow::get(transaction, &place.id)?;
            run.status = RunStatus::Running;
            run.outcome = None;
            run.update(transaction)?;
        }
        work(transaction, place)
    }
}

/// Creates the error for a step that differs from the recorded step, because the agent's code or configuration changed.
pub(crate) fn differs(
    expected: &(impl ToString + ?Sized),
    got: &(impl ToString + ?Sized),
) -> DurableError {
    DurableError::NonDeterminism { expected: expected.to_string(), got: got.to_string() }
}

/// Creates a [`DurableError::Other`] with a text.
pub(crate) fn other(text: String) -> DurableError {
    DurableError::Other(text.into())
}

#[cfg(test)]
mod tests;
