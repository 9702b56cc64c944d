//! The access of one step to the journal, while no other step is in progress ([`Turn`]).

use neuron_types::DurableError;
use tokio::sync::MutexGuard as AsyncGuard;

use super::{Journal, differs};
use crate::step_row::StepRow;

/// The kind of a step, which is the first part of its key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Model,
    Tools,
    Signal,
    Sleep,
    Value,
}

/// A step in progress, which locks the journal. If this value is dropped before [`done`](Self::done) is called, the
/// next step first reads the stored steps again.
pub(crate) struct Turn<'a> {
    journal: &'a Journal,
    _asking: AsyncGuard<'a, ()>,
    is_done: bool,
}

impl<'a> Turn<'a> {
    pub(super) fn new(journal: &'a Journal, asking: AsyncGuard<'a, ()>) -> Self {
        Self { journal, _asking: asking, is_done: false }
    }

    /// Ends this step's access to the journal, and marks the state of the journal as up to date.
    pub(super) fn finish(mut self) {
        self.is_done = true;
    }

    /// Returns the key of the next step of a kind, for example `model/0`.
    pub(crate) fn key(&self, kind: Kind) -> String {
        let count = *self.journal.state().count(kind);
        match kind {
            Kind::Model => format!("model/{count}"),
            Kind::Tools => format!("tools/{count}"),
            Kind::Signal => format!("signal/{count}"),
            Kind::Sleep => format!("sleep/{count}"),
            Kind::Value => format!("value/{count}"),
        }
    }

    /// Returns the recorded step at the current position. Returns `None` at the end of the journal.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the recorded step has another key.
    pub(crate) fn recorded(&self, key: &str) -> Result<Option<StepRow>, DurableError> {
        let state = self.journal.state();
        match state.recorded.front() {
            None => Ok(None),
            Some(step) if step.key == key => Ok(Some(step.clone())),
            Some(step) => Err(differs(&step.key, key)),
        }
    }

    /// Returns the recorded steps of a batch of `calls` tool calls, one step per call. Returns no steps at the end of
    /// the journal.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the recorded steps have other keys, or their number is not `calls`.
    pub(crate) fn recorded_batch(
        &self,
        key: &str,
        calls: usize,
    ) -> Result<Vec<StepRow>, DurableError> {
        let state = self.journal.state();
        let steps: Vec<StepRow> = state.recorded.iter().take(calls).cloned().collect();
        let batch = format!("{key}/");
        let is_of_batch = |step: &&StepRow| step.key.starts_with(&batch);
        let more = state.recorded.iter().skip(calls).take_while(is_of_batch).count();
        drop(state);
        for (index, step) in steps.iter().enumerate() {
            let key = format!("{key}/{index}");
            if step.key != key {
                return Err(differs(&step.key, &key));
            }
        }
        let stored = steps.len() + more;
        if stored > 0 && stored != calls {
            let batch = |calls| format!("{key} with {calls} calls");
            return Err(differs(&batch(stored), &batch(calls)));
        }
        Ok(steps)
    }

    /// Checks that all recorded steps were replayed. `instead` names the requested step in the error.
    pub(crate) fn expect_end(&self, instead: &str) -> Result<(), DurableError> {
        match self.journal.state().recorded.front() {
            None => Ok(()),
            Some(step) => Err(differs(&step.key, instead)),
        }
    }

    /// Returns the position of the next step, from 0.
    pub(crate) fn position(&self) -> i64 {
        self.journal.state().position
    }

    /// Ends the step in progress, and moves the journal forward by `steps` steps. This is the number of calls for a
    /// tool batch, and one for other steps. `at` is the end time in milliseconds since 1970.
    pub(crate) fn done(self, kind: Kind, steps: usize, at: i64) {
        let mut state = self.journal.state();
        *state.count(kind) += 1;
        state.position = state.position.saturating_add(i64::try_from(steps).unwrap_or(i64::MAX));
        let recorded = steps.min(state.recorded.len());
        state.recorded.drain(..recorded);
        state.stamp = state.stamp.max(at);
        state.progress.advance(&self.journal.place.id, recorded);
        drop(state);
        self.finish();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.journal.state().is_stale = true;
        }
    }
}
