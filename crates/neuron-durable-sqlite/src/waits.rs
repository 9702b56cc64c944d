//! Waits for a signal or a time, as steps of a run. A wait keeps its deadline after a restart, because the deadline is
//! stored when the wait begins.

use std::time::Duration;

use chrono::Utc;
use neuron_durable::StepRecord;
use neuron_sqlite::Abort;
use neuron_types::{DurableError, PendingApproval, Provider, stored_json};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::journal::{Journal, Kind, differs, other};
use crate::model_step::read;
use crate::parking::{GRACE, Parking};
use crate::signal_row::SignalRow;
use crate::step_row::{StepRow, millis, time};
use crate::texts::{text, to_json};
use crate::{JournalError, SqliteDurableContext};

/// First interval between two checks for a signal of another process. It doubles after each check.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// Longest interval between two checks for a signal of another process.
const LATEST_LOOK: Duration = Duration::from_secs(1);

impl<P: Provider> SqliteDurableContext<P> {
    /// Waits for the oldest signal with this name, as a step. Returns `None` if no signal arrives before the timeout.
    ///
    /// Pass the calls that need a decision as `pending` if the signal brings decisions.
    pub(crate) async fn receive(
        &self,
        name: &str,
        timeout: Duration,
        pending: Option<&PendingApproval>,
    ) -> Result<Option<Value>, DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let key = turn.key(Kind::Signal);
        let recorded = turn.recorded(&key)?;
        if let Some(step) = &recorded
            && step.name.as_deref() != Some(name)
        {
            let wait = |name: &str| format!("{key} of `{name}`");
            return Err(differs(&wait(step.name.as_deref().unwrap_or_default()), &wait(name)));
        }
        let (mut step, is_new) = match recorded {
            Some(step) => (step, false),
            None => {
                let mut step = StepRow::new(turn.position(), key, journal.stamp());
                step.name = Some(name.to_owned());
                step.deadline = deadline(step.begun_at, timeout);
                step.pending = match pending {
                    Some(pending) => {
                        Some(to_json("the calls to decide on", &pending.without_messages())?)
                    }
                    None => None,
                };
                (step, true)
            }
        };
        if step.record.is_none() {
            step = journal.while_held(self.await_signal(name, step, is_new)).await?;
        }
        let mut received = read::<Vec<Value>>(&step)?.into_value()?;
        turn.done(Kind::Signal, 1, step.ended_at.unwrap_or_default());
        Ok(received.pop())
    }

    /// Waits for a signal until the step's deadline, and returns the ended step. If `is_new` is `true`, first inserts
    /// the step into the journal.
    async fn await_signal(
        &self,
        name: &str,
        step: StepRow,
        is_new: bool,
    ) -> Result<StepRow, DurableError> {
        let journal = self.journal();
        let left = left(&step);
        // Registers for notifications before the first look into the queue, so a signal that arrives between the look
        // and the wait is noticed.
        let mut sent = Box::pin(journal.notices().signals.notified());
        sent.as_mut().enable();
        let mut step = take_signal(journal, step, is_new, left.is_zero()).await?;
        if step.record.is_some() {
            return Ok(step);
        }
        if Handle::try_current().is_err() {
            let text = "waiting for a signal needs a tokio runtime, by whose clock the wait ends";
            return Err(other(text.into()));
        }
        let start = Instant::now();
        let mut look = FIRST_LOOK;
        loop {
            if let Some(parking) = self.parking().filter(|_| start.elapsed() >= GRACE) {
                parking.park().await;
            }
            let pause = look.min(left.saturating_sub(start.elapsed()));
            if tokio::time::timeout(pause, sent.as_mut()).await.is_ok() {
                sent.set(journal.notices().signals.notified());
                sent.as_mut().enable();
            }
            look = look.saturating_mul(2).min(LATEST_LOOK);
            let is_over = start.elapsed() >= left;
            if is_over || is_there(journal, name).await? {
                step = take_signal(journal, step, false, is_over).await?;
            }
            if step.record.is_some() {
                return Ok(step);
            }
        }
    }

    /// Waits for `duration`, as a step. A replayed wait that has not ended waits only for the remaining time.
    pub(crate) async fn sleep_as_step(&self, duration: Duration) -> Result<(), DurableError> {
        let journal = self.journal();
        let turn = journal.turn().await?;
        let key = turn.key(Kind::Sleep);
        let step = match turn.recorded(&key)? {
            Some(step) => step,
            None => {
                let mut step = StepRow::new(turn.position(), key, journal.stamp());
                step.deadline = deadline(step.begun_at, duration);
                let begun = step.clone();
                let write = journal
                    .write_step(move |transaction, place| begun.insert(transaction, place.run));
                write.await?;
                step
            }
        };
        let at = match step.ended_at {
            Some(at) => at,
            None => {
                let left = left(&step);
                let pause = async {
                    if let Some(parking) = self.parking().filter(|_| left > GRACE) {
                        wait(GRACE).await;
                        parking.park().await;
                    }
                    wait(left).await;
                    Ok(())
                };
                journal.while_held(pause).await?;
                let at = journal.stamp().max(step.deadline.unwrap_or_default());
                let step = step.ended(received(None, at)?, at);
                journal
                    .write(move |transaction, place| step.update(transaction, place.run))
                    .await?;
                at
            }
        };
        turn.done(Kind::Sleep, 1, at);
        Ok(())
    }

    /// Returns the link to the pool, through which a waiting run releases its place in the pool.
    ///
    /// Returns `None` for a run without a pool, and for an agent inside a tool call. Other calls of the batch may
    /// continue while that agent waits, so the place stays in use.
    fn parking(&self) -> Option<&Parking> {
        self.options().parking.as_ref().filter(|_| !self.journal().is_nested())
    }
}

/// Ends the step with the oldest queued signal of the step's name, and returns the step. Without such a signal, the
/// step ends only if `is_over` is `true`.
///
/// A step that `is_new` is inserted into the journal, even if it has not ended.
async fn take_signal(
    journal: &Journal,
    step: StepRow,
    is_new: bool,
    is_over: bool,
) -> Result<StepRow, DurableError> {
    let now = journal.stamp();
    let take = journal.write_step(move |transaction, place| {
        let name = step.name.clone().unwrap_or_default();
        let found = SignalRow::take(transaction, (place.run, &place.id), &name)?;
        let end = |step: StepRow, signal, at| match received(signal, at) {
            Ok(record) => Ok(step.ended(record, at)),
            Err(error) => Err(JournalError::corrupt(&place.id, error.to_string())),
        };
        let step = match found {
            Some(signal) => {
                let signal = stored_json::read::<Value>(signal.value.as_bytes());
                let signal = signal.map_err(|error| {
                    let reason = format!("a signal `{name}` cannot be read: {error}");
                    JournalError::corrupt(&place.id, reason)
                })?;
                end(step, Some(signal), now)?
            }
            None if is_over => {
                // The clock of this process may be a little behind the deadline.
                let at = now.max(step.deadline.unwrap_or_default());
                end(step, None, at)?
            }
            None => step,
        };
        match (is_new, step.record.is_some()) {
            (true, _) => step.insert(transaction, place.run)?,
            (false, true) => step.update(transaction, place.run)?,
            (false, false) => {}
        }
        Ok::<_, Abort<JournalError>>(step)
    });
    take.await
}

/// Serialises a signal for the queue. Returns an error if the record of a step could not hold the signal, because the
/// run could then never receive it.
pub(crate) fn queued(signal: &impl Serialize) -> Result<String, JournalError> {
    // The record nests the value two levels deeper, so the depth limit is checked with the same nesting.
    to_json("the signal", &[[signal]])?;
    let json = to_json("the signal", signal)?;
    let read = stored_json::read::<Value>(json.as_bytes());
    read.map_err(|source| JournalError::NotJson { what: "the signal", source })?;
    Ok(json)
}

/// Returns `true` if a signal with this name is queued. Returns an error if the run was cancelled, deleted, or opened
/// by another context.
async fn is_there(journal: &Journal, name: &str) -> Result<bool, DurableError> {
    let (place, name) = (journal.place().clone(), name.to_owned());
    let looked = journal.database().read(move |transaction| {
        place.check(transaction)?;
        SignalRow::is_queued(transaction, place.run, &name)
    });
    looked.await.map_err(|error: JournalError| error.into())
}

/// Serialises the record of a wait with its end time `at`, in milliseconds since 1970. The value of the record is a
/// list with the signal. The list is empty if no signal arrived.
pub(crate) fn received(signal: Option<Value>, at: i64) -> Result<String, DurableError> {
    let signals: Vec<Value> = signal.into_iter().collect();
    text(StepRecord::of_value(signals, time(at)).to_json()?)
}

/// Returns the deadline of a wait, in milliseconds since 1970. Returns `None` if the deadline is too late for a date.
///
/// `begun_at` is ahead of the system clock if the clock was set back. The wait is then counted from the system time.
fn deadline(begun_at: i64, wait: Duration) -> Option<i64> {
    let now = millis(Utc::now()).min(begun_at);
    let deadline = now.checked_add(i64::try_from(wait.as_millis()).ok()?)?;
    chrono::DateTime::from_timestamp_millis(deadline).map(millis)
}

/// Returns the remaining time of a step's wait by the system clock. Returns [`Duration::MAX`] if the step has no
/// deadline.
fn left(step: &StepRow) -> Duration {
    let Some(deadline) = step.deadline else {
        return Duration::MAX;
    };
    let left = deadline.saturating_sub(millis(Utc::now()));
    Duration::from_millis(u64::try_from(left).unwrap_or_default())
}

/// Waits for a time. Without a tokio runtime it logs a warning and returns immediately.
async fn wait(duration: Duration) {
    if !neuron_types::clock::sleep(duration).await && !duration.is_zero() {
        tracing::warn!(?duration, "there is no tokio runtime, so the wait ends immediately");
    }
}

#[cfg(test)]
mod tests;
