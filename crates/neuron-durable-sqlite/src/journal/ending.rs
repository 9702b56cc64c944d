//! Ending an execution, and ending a run.

use neuron_durable::RunStatus;
use neuron_types::{DurableError, Start};

use super::{Counts, Journal};
use crate::outcome::StoredOutcome;
use crate::run_row::RunRow;
use crate::step_row::StepRow;
use crate::texts::to_json;
use crate::{inspect, standing};

impl Journal {
    /// Ends the current execution. Deletes its steps, stores `start` for the next execution, and returns the number of
    /// the next execution.
    pub(crate) async fn continue_as_new(&self, start: Start) -> Result<i64, DurableError> {
        let turn = self.turn().await?;
        turn.expect_end("a new execution")?;
        let json = to_json("the state of the run", &start)?;
        let now = self.stamp();
        let execution = self
            .write(move |transaction, place| {
                let mut run = RunRow::get(transaction, &place.id)?;
                // The deleted steps still count in the run's summary (`earlier_steps`).
                let deleted = transaction.execute("DELETE FROM steps WHERE run = ?1", [run.key])?;
                RunRow::delete_nested(transaction, run.key)?;
                run.started_at = now;
                run.changed_at = now;
                run.earlier_steps += i64::try_from(deleted).unwrap_or(i64::MAX);
                run.set_next_start(json);
                run.status = RunStatus::Running;
                run.outcome = None;
                run.update(transaction)?;
                Ok(run.execution)
            })
            .await?;
        let mut state = self.state();
        state.position = 0;
        state.counts = Counts::default();
        state.stamp = now;
        state.execution = execution;
        state.needs_start = true;
        drop(state);
        turn.finish();
        Ok(execution)
    }

    /// Stores the outcome of the run, and returns `true` if it was not stored before.
    ///
    /// Returns `false` and stores nothing if the journal has steps that were not replayed yet, because the run can then
    /// continue. The outcome of a stalled run is stored even if such steps remain, but a run that has ended does not
    /// stall. If a driver runs the agent, the lease ends too, so that another context can open the run.
    pub(crate) async fn end(
        &self,
        status: RunStatus,
        outcome: StoredOutcome,
    ) -> Result<bool, DurableError> {
        let turn = self.turn().await?;
        let is_end = status != RunStatus::Stalled;
        if is_end && !self.is_at_end() {
            turn.finish();
            return Ok(false);
        }
        let now = self.stamp();
        let lock = self.is_driven().then(|| self.lock.clone());
        let is_new = self
            .write(move |transaction, place| {
                let mut run = RunRow::get(transaction, &place.id)?;
                // The lease expires inside this transaction. Others check the lock only under the write lock, so a
                // context that sees the end finds the run free.
                if let Some(lock) = lock {
                    lock.expire();
                }
                // A changed agent cannot replay a run that has ended, but the run keeps its outcome. A waiting run keeps
                // the calls to decide on.
                if !is_end && !matches!(run.status, RunStatus::Running | RunStatus::Stalled) {
                    return Ok(false);
                }
                let (_, last) = StepRow::last(transaction, (run.key, &run.id))?;
                let status = match last {
                    Some(last)
                        if status == RunStatus::Waiting && standing::is_unanswered(&last)? =>
                    {
                        RunStatus::Failed
                    }
                    _ => status,
                };
                if run.status == status && inspect::outcome(&run)?.as_ref() == Some(&outcome) {
                    return Ok(false);
                }
                run.status = status;
                run.changed_at = now;
                run.outcome = Some(to_json("the outcome of the run", &outcome)?);
                run.update(transaction)?;
                Ok(true)
            })
            .await?;
        self.state().has_ended |= is_end;
        turn.finish();
        Ok(is_new)
    }
}
