//! The journal of a run that this context drives.

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
use crate::lock::Lock;
use crate::notices::Notices;
use crate::run_info::RunStatus;
use crate::run_row::RunRow;
use crate::step_row::{StepRow, millis, time};
use crate::texts::to_json;

pub(crate) use holding::Place;
use progress::Progress;
pub(crate) use turn::{Kind, Turn};

/// A run that is driven here.
#[derive(Debug)]
pub(crate) struct Journal {
    database: Database,
    place: Place,
    notices: Arc<Notices>,
    state: Mutex<State>,
    /// Whoever asks for a step holds it until the step is done.
    asking: tokio::sync::Mutex<()>,
    /// The lock of the opened run, also in a nested journal.
    lock: Arc<Lock>,
    /// Number of drivers that handle a new execution.
    drivers: AtomicUsize,
}

/// The progress of this execution.
#[derive(Debug)]
struct State {
    /// The steps that the journal holds and that were not asked for yet.
    recorded: VecDeque<StepRow>,
    /// True if `recorded` may be out of date, because a step was dropped halfway.
    is_stale: bool,
    /// The position of the next step.
    position: i64,
    /// Numbers of steps of each kind so far.
    counts: Counts,
    /// When the last step ended, or the execution began.
    stamp: i64,
    /// True if the run had ended, and nothing was added since.
    has_ended: bool,
    /// Number of this execution.
    execution: i64,
    /// True if the run continues from a state that its driver has not received yet.
    needs_start: bool,
    /// Set if a loop of the agent has ended in this execution.
    has_ended_loops: bool,
    /// Why a wait that could not say so failed.
    failure: Option<DurableError>,
    /// The progress of the replay.
    progress: Progress,
}

#[derive(Debug, Default)]
struct Counts {
    models: usize,
    batches: usize,
    signals: usize,
    sleeps: usize,
    values: usize,
}

impl Journal {
    /// Returns `true` for the journal of an agent inside a tool call.
    pub(crate) fn is_nested(&self) -> bool {
        self.place.run != self.place.opened.run
    }

    /// Returns the start of the run, from which it is replayed. Stores the given start if there is none yet.
    pub(crate) async fn start(&self, start: Start) -> Result<Start, DurableError> {
        let _asking = self.ask()?;
        let json = to_json("the start of the run", &start)?;
        let id = self.place.id.clone();
        let (run, steps, is_new) = self
            .write(move |transaction, place| {
                let mut run = RunRow::get(transaction, &id)?;
                let steps = StepRow::load(transaction, (place.run, &id), 0)?;
                let is_new = run.start.is_none();
                if is_new {
                    run.start = Some(json);
                }
                let stood_still = run.status == RunStatus::Stalled;
                if stood_still {
                    run.status = RunStatus::Running;
                    run.outcome = None;
                }
                if is_new || stood_still {
                    run.update(transaction)?;
                }
                Ok((run, steps, is_new))
            })
            .await?;
        let stored = match (is_new, &run.start) {
            (false, Some(json)) => stored_json::read(json.as_bytes()).map_err(|error| {
                let reason = format!("what it starts from cannot be read: {error}");
                JournalError::corrupt(&self.place.id, reason)
            })?,
            _ => start,
        };
        if let Start::Snapshot(snapshot) = &stored {
            snapshot.check_version()?;
        }
        *self.state() = State { needs_start: false, ..State::new(&run, steps) };
        Ok(stored)
    }

    /// Asks for the next step. Only one is done at a time.
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
            // By a write, which waits for what was given up.
            let read = move |transaction: &Transaction<'_>, place: &Place| {
                let run = RunRow::get(transaction, &place.id)?;
                Ok((run.execution, StepRow::load(transaction, (run.key, &place.id), from)?))
            };
            let (execution, steps) = self.write(read).await?;
            let mut state = self.state();
            if execution != state.execution {
                // What was given up was the end of the execution, and it was stored.
                state.needs_start = true;
                return Err(self.needs_start());
            }
            state.recorded = steps.into();
            state.is_stale = false;
        }
        Ok(turn)
    }

    fn needs_start(&self) -> DurableError {
        other(format!(
            "the run {:?} goes on from a stored state: let the agent run from what `start` returns",
            self.place.id
        ))
    }

    fn ask(&self) -> Result<AsyncGuard<'_, ()>, DurableError> {
        self.asking.try_lock().map_err(|_| {
            other(format!(
                "the run {:?} was asked for a step while another one is done: the order of its steps must \
                 not depend on chance",
                self.place.id
            ))
        })
    }

    /// Tells that a driver handles new executions, until the guard is dropped.
    pub(crate) fn driven(&self) -> Driven<'_> {
        self.drivers.fetch_add(1, Ordering::SeqCst);
        Driven(self)
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.drivers.load(Ordering::SeqCst) > 0
    }

    /// Remembers a failure for whoever asks next.
    pub(crate) fn fail_later(&self, failure: DurableError) {
        self.state().failure = Some(failure);
    }

    /// Returns the failure that was remembered.
    pub(crate) fn take_failure(&self) -> Option<DurableError> {
        self.state().failure.take()
    }

    /// Runs a transaction, if nobody else drives the run since.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        Ok(self.database.write(placed(self.place.clone(), work)).await?)
    }

    /// [`write`](Self::write)s something of a step. A run that had ended goes on with it.
    pub(crate) async fn write_step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        let work = placed(self.place.clone(), of_step(self.state().has_ended, work));
        let done = self.database.write(work).await?;
        self.state().has_ended = false;
        Ok(done)
    }

    /// Writes a step, as [`write_step`](Self::write_step) does, but without a sync, so that a power failure may
    /// undo it.
    pub(crate) async fn write_step_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>> + Send + 'static,
    ) -> Result<T, DurableError> {
        let work = placed(self.place.clone(), of_step(self.state().has_ended, work));
        let done = self.database.write_unsynced(work).await?;
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

    /// The steps of this execution so far.
    pub(crate) fn position(&self) -> i64 {
        self.state().position
    }

    /// Returns `true` if all steps of the journal were replayed.
    pub(crate) fn is_at_end(&self) -> bool {
        self.state().recorded.is_empty()
    }

    /// Notes that a loop of the agent has ended.
    pub(crate) fn loop_ended(&self) {
        self.state().has_ended_loops = true;
    }

    pub(crate) fn has_ended_loops(&self) -> bool {
        self.state().has_ended_loops
    }

    /// Checks that an agent that returns has asked for all steps of the journal. A step that was given up halfway was asked
    /// for.
    pub(crate) fn expect_all_asked(&self) -> Result<(), DurableError> {
        let state = self.state();
        match state.recorded.front().filter(|_| !state.is_stale) {
            None => Ok(()),
            Some(step) => Err(differs(&step.key, "the end of the agent")),
        }
    }

    /// The time by the journal's clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        time(self.state().stamp)
    }

    /// Returns the time for a record. It is the system's time, but never goes back.
    pub(crate) fn stamp(&self) -> i64 {
        millis(Utc::now()).max(self.state().stamp)
    }

    /// Returns `true` if the run has ended or was cancelled.
    pub(crate) async fn is_over(&self) -> bool {
        let has_ended = self.state().has_ended;
        has_ended || matches!(self.check_held().await, Err(DurableError::Cancelled))
    }

    /// Returns `true` while the journal has steps that were not replayed yet, or if it had all of them.
    pub(crate) fn is_replaying(&self) -> bool {
        let state = self.state();
        state.has_ended || state.recorded.iter().any(|step| step.record.is_some())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A driver that handles new executions.
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

/// Checks before some work that nobody else drives the run since.
fn placed<T>(
    place: Place,
    work: impl FnOnce(&Transaction<'_>, &Place) -> Result<T, Abort<JournalError>>,
) -> impl FnOnce(&Transaction<'_>) -> Result<T, Abort<JournalError>> {
    move |transaction| {
        place.check(transaction)?;
        work(transaction, &place)
    }
}

/// Lets a run that had ended go on before some work.
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

/// The code or its configuration changed since the journal was written.
pub(crate) fn differs(
    expected: &(impl ToString + ?Sized),
    got: &(impl ToString + ?Sized),
) -> DurableError {
    DurableError::NonDeterminism { expected: expected.to_string(), got: got.to_string() }
}

pub(crate) fn other(text: String) -> DurableError {
    DurableError::Other(text.into())
}

#[cfg(test)]
mod tests;
