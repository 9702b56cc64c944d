//! The steps of an invocation ([`Journal`]). A step runs once, and a replay reads its result from Restate's journal.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{Either, select};
use neuron_types::{DurableError, stored_json};
use restate_sdk::context::{Context, ContextSideEffects, ContextTimers, RunFuture};
use restate_sdk::errors::{HandlerError, TerminalError};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::failure;
use crate::fate::Fate;
use crate::journal_clock::Clock;
use crate::payload::Written;
use crate::pin::{self, Pin};
use crate::register::Register;

/// Maximum duration of a wait. Restate adds the duration to the current time, and the sum must not overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Number of steps up to which a replay is not logged. A longer replay is logged when it reaches new work.
const LONG_REPLAY: usize = 100;

/// The first record of an invocation.
#[derive(Serialize, Deserialize)]
struct Opening {
    /// Time at which the invocation began, in milliseconds since 1970.
    at: i64,
    /// Version of the agent to which the run is pinned. `None` if the run is not pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_version: Option<String>,
}

/// The steps and the clock of an invocation. Also records that the invocation replays, was cancelled, or differs from
/// its journal.
pub(crate) struct Journal<'a, 'ctx> {
    ctx: &'a Context<'ctx>,
    clock: Clock,
    /// Set as long as all steps are replayed. Cleared when the first step runs that has no result in the journal.
    replaying: AtomicBool,
    fate: Fate,
    /// Number of journal entries so far.
    steps: AtomicUsize,
    /// Number of steps so far that stored the current time. The names of these steps contain their number.
    stamps: AtomicUsize,
    pin: Pin,
    /// Entry of the run in the register, the Restate object that lists the runs. `None` in the invocation of a tool.
    register: Option<Register>,
}

impl<'a, 'ctx> Journal<'a, 'ctx> {
    /// Creates the journal of an invocation that runs a tool call.
    pub(crate) fn new(ctx: &'a Context<'ctx>) -> Self {
        Self {
            ctx,
            pin: Pin::default(),
            register: None,
            clock: Clock::default(),
            replaying: AtomicBool::new(true),
            fate: Fate::default(),
            steps: AtomicUsize::new(0),
            stamps: AtomicUsize::new(0),
        }
    }

    /// Opens the journal of a run's invocation. The first record stores the time and the version of the agent to which
    /// the run is pinned. This version is `pinned`, or the version of this service's agent if `pinned` is `None`.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the run is pinned to another version and this service's agent may not
    /// continue it.
    pub(crate) async fn open(
        ctx: &'a Context<'ctx>,
        pin: Pin,
        pinned: Option<String>,
        register: Option<Register>,
    ) -> Result<Self, DurableError> {
        let journal = Self { pin, register, ..Self::new(ctx) };
        journal.read_opening(pinned).await?;
        Ok(journal)
    }

    /// Writes the first record of the journal, or reads it from the journal on replay.
    async fn read_opening(&self, pinned: Option<String>) -> Result<(), DurableError> {
        let opening = async {
            let agent_version = pinned.or_else(|| self.pin.own());
            let at = Utc::now().timestamp_millis();
            let mut json = Vec::new();
            let written = stored_json::write(&mut json, &Opening { at, agent_version });
            written.map(|()| json).map_err(|error| DurableError::Other(Box::new(error)))
        };
        let json = self.step("time/0", opening).await?;
        self.stamps.store(1, SeqCst);
        let opening = stored_json::read::<Opening>(&json);
        let Opening { at, agent_version } =
            opening.map_err(|error| DurableError::Other(Box::new(error)))?;
        // The check comes before the first command. Otherwise code of another version would write a command that the
        // run's own code would not repeat.
        self.pin.set(agent_version)?;
        self.note(at);
        self.register_version();
        Ok(())
    }

    /// Writes the agent's version to the register of runs, if the run was just pinned to this version.
    fn register_version(&self) {
        if let (Some(register), Some(version)) = (self.register(), self.pin.take_news()) {
            register.pin(self.ctx, version);
            self.count(1);
        }
    }

    /// Returns the entry of the run in the register, the Restate object that lists the runs. Returns `None` in the
    /// invocation of a tool.
    pub(crate) fn register(&self) -> Option<&Register> {
        self.register.as_ref()
    }

    pub(crate) fn context(&self) -> &'a Context<'ctx> {
        self.ctx
    }

    /// Returns the pin, which has the version to which the run is pinned and the version of this service's agent.
    pub(crate) fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Runs `work` as a step, unless the journal has the result. Returns the stored JSON. An error of `work` is stored
    /// as the failure of the step.
    ///
    /// On replay `work` is never polled. `work` may borrow, although the closures of Restate's SDK may not. The SDK's
    /// closure therefore only communicates with `work` over two channels.
    pub(crate) async fn step(
        &self,
        name: &str,
        work: impl Future<Output = Result<Vec<u8>, DurableError>> + Send,
    ) -> Result<Bytes, DurableError> {
        self.check()?;
        self.count(1);
        let (begin, begun) = oneshot::channel::<()>();
        let (finish, finished) = oneshot::channel::<Result<Vec<u8>, DurableError>>();
        let run = self.ctx.run(move || async move {
            let _ = begin.send(());
            match finished.await {
                Ok(Ok(json)) => Ok(Written(json.into())),
                Ok(Err(error)) => Err(HandlerError::from(TerminalError::new(error.to_string()))),
                Err(gone) => Err(HandlerError::from(gone)),
            }
        });
        let run = run.name(name);
        let drive = async {
            if begun.await.is_ok() {
                self.reach_new_work();
                let done = work.await.map(|json| pin::with_change(json, self.pin.change()));
                let _ = finish.send(done);
            }
            pending::<Infallible>().await
        };
        let ran = match select(pin!(run), pin!(drive)).await {
            Either::Left((ran, _)) => ran,
            Either::Right((never, _)) => match never {},
        };
        match ran {
            Ok(Written(json)) => {
                let record = self.compared(self.pin.read(json))?;
                self.register_version();
                Ok(record)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Marks the end of the replay, and logs it if the replay was long.
    fn reach_new_work(&self) {
        let steps = self.steps();
        if self.replaying.swap(false, SeqCst) && steps > LONG_REPLAY {
            tracing::info!(steps, "a replay reached new work");
        }
    }

    /// Stores the current time as a step, and sets the journal's clock to the stored time. On replay, reads the time
    /// from the journal.
    ///
    /// Called after each wait, because Restate does not store the end time of a wait.
    pub(crate) async fn stamp(&self) -> Result<(), DurableError> {
        let name = format!("time/{}", self.stamps.fetch_add(1, SeqCst));
        let now = async { Ok(Utc::now().timestamp_millis().to_string().into_bytes()) };
        let json = self.step(&name, now).await?;
        let millis = serde_json::from_slice(&json);
        self.note(millis.map_err(|error| DurableError::Other(Box::new(error)))?);
        Ok(())
    }

    /// Waits for `duration`, and then sets the journal's clock to the end of the wait.
    pub(crate) async fn sleep(&self, duration: Duration) -> Result<(), DurableError> {
        self.check()?;
        self.count(1);
        self.ctx.sleep(longest(duration)).await.map_err(|error| self.failed(&error))?;
        self.stamp().await
    }

    /// Returns the end of a wait of length `timeout` that begins at the time of the journal's clock. Returns `None` if
    /// a [`DateTime`] cannot represent the end.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<DateTime<Utc>> {
        self.now().checked_add_signed(TimeDelta::from_std(longest(timeout)).ok()?)
    }

    /// Moves the clock forward to the time of a record, in milliseconds since 1970.
    pub(crate) fn note(&self, millis: i64) {
        self.clock.note(millis);
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Returns the clock of the invocation, for use after the journal is dropped.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Returns `true` as long as all steps were read from the journal and none was executed.
    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying.load(SeqCst)
    }

    /// Adds `entries` to the number of journal entries. The run continues as new after a certain number of entries.
    pub(crate) fn count(&self, entries: usize) {
        self.steps.fetch_add(entries, SeqCst);
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.load(SeqCst)
    }

    /// Returns an error if the invocation was cancelled or if the run differs from its journal. Called before each
    /// step, so that the agent makes no further calls.
    pub(crate) fn check(&self) -> Result<(), DurableError> {
        if self.fate.is_cancelled() {
            return Err(DurableError::Cancelled);
        }
        self.fate.check()
    }

    /// Returns `compared` unchanged. If `compared` is an error that reports a difference between the run and its
    /// journal, also records this error.
    ///
    /// An unreadable record counts as a difference too. For example, a newer release of this crate may have written the
    /// record.
    pub(crate) fn compared<T>(&self, compared: Result<T, DurableError>) -> Result<T, DurableError> {
        if let Err(error @ (DurableError::NonDeterminism { .. } | DurableError::Other(_))) =
            &compared
        {
            self.fate.differ(error);
        }
        compared
    }

    /// Returns the record of the reason for which the invocation must end, for use after the journal is dropped.
    pub(crate) fn fate(&self) -> Fate {
        self.fate.clone()
    }

    /// Converts an error of Restate. If the error reports that this invocation was cancelled, also records the
    /// cancellation.
    pub(crate) fn failed(&self, error: &TerminalError) -> DurableError {
        if failure::is_cancellation(error) {
            self.fate.cancel();
        }
        failure::durable(error)
    }
}

/// Limits a wait to the maximum that Restate accepts.
pub(crate) fn longest(duration: Duration) -> Duration {
    duration.min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Running invocations have this record, and a release must continue them.
    #[test]
    fn first_record_keeps_its_stored_form() {
        for json in [r#"{"at":1700000000000}"#, r#"{"at":1700000000000,"agent_version":"2"}"#] {
            let opening: Opening = stored_json::read(json.as_bytes()).unwrap();
            assert_eq!(opening.at, 1_700_000_000_000);
            let mut written = Vec::new();
            stored_json::write(&mut written, &opening).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), json);
        }
    }
}
