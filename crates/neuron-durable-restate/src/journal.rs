//! The steps of one invocation: what is done once, and read from Restate's journal on replay.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::{Either, select};
use neuron_types::DurableError;
use restate_sdk::context::{Context, ContextSideEffects, ContextTimers, RunFuture};
use restate_sdk::errors::{HandlerError, TerminalError};
use tokio::sync::oneshot;

use crate::failure;
use crate::payload::Written;

/// The longest wait: Restate counts from now, in a number that must not overflow.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An invocation's steps, its clock, and whether it replays or was cancelled.
pub(crate) struct Journal<'a, 'ctx> {
    ctx: &'a Context<'ctx>,
    /// The newest stamp, in milliseconds since 1970.
    now: AtomicI64,
    /// Until something really runs, all of it has run before.
    replaying: AtomicBool,
    fate: Fate,
    steps: AtomicUsize,
    stamps: AtomicUsize,
}

impl<'a, 'ctx> Journal<'a, 'ctx> {
    pub(crate) fn new(ctx: &'a Context<'ctx>) -> Self {
        Self {
            ctx,
            now: AtomicI64::new(0),
            replaying: AtomicBool::new(true),
            fate: Fate::default(),
            steps: AtomicUsize::new(0),
            stamps: AtomicUsize::new(0),
        }
    }

    pub(crate) fn context(&self) -> &'a Context<'ctx> {
        self.ctx
    }

    /// Does `work` unless the journal has what it gave. `work` gives JSON that Restate may keep; an error
    /// of it is kept as a failure of the step.
    ///
    /// What is handed to Restate must live as long as its context, so these are the two ends of channels;
    /// `work` is driven beside it, and may borrow. On replay it is never polled.
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
                self.replaying.store(false, SeqCst);
                let _ = finish.send(work.await);
            }
            pending::<Infallible>().await
        };
        let Either::Left((ran, _)) = select(pin!(run), pin!(drive)).await;
        match ran {
            Ok(Written(json)) => Ok(json),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Sets the clock: after something that took time of which no step tells.
    pub(crate) async fn stamp(&self) -> Result<(), DurableError> {
        let name = format!("time/{}", self.stamps.fetch_add(1, SeqCst));
        let now = async { Ok(Utc::now().timestamp_millis().to_string().into_bytes()) };
        let json = self.step(&name, now).await?;
        let millis = serde_json::from_slice(&json);
        self.note(millis.map_err(|error| DurableError::Other(Box::new(error)))?);
        Ok(())
    }

    pub(crate) async fn sleep(&self, duration: Duration) -> Result<(), DurableError> {
        self.check()?;
        self.count(1);
        let slept = self.ctx.sleep(longest(duration)).await;
        slept.map_err(|error| self.failed(&error))?;
        self.stamp().await
    }

    /// Notes when something ended.
    pub(crate) fn note(&self, millis: i64) {
        self.now.fetch_max(millis, SeqCst);
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now.load(SeqCst)).unwrap_or_default()
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying.load(SeqCst)
    }

    /// Counts entries of the journal.
    pub(crate) fn count(&self, entries: usize) {
        self.steps.fetch_add(entries, SeqCst);
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.load(SeqCst)
    }

    /// Checks that nobody has cancelled the invocation, and that it is the one that the journal holds: what
    /// an agent does that goes on all the same must not be paid for and journaled.
    pub(crate) fn check(&self) -> Result<(), DurableError> {
        if self.fate.is_cancelled() {
            return Err(DurableError::Cancelled);
        }
        self.fate.differs.get().map_or(Ok(()), |error| Err(error.again()))
    }

    /// Notes where the run is not the one that the journal holds, or cannot be told from it: a record of a
    /// newer release, for instance.
    pub(crate) fn compared<T>(&self, compared: Result<T, DurableError>) -> Result<T, DurableError> {
        if let Err(error @ (DurableError::NonDeterminism { .. } | DurableError::Other(_))) =
            &compared
        {
            let _ = self.fate.differs.set(error.again());
        }
        compared
    }

    /// What becomes of the invocation, to be asked when the run has ended.
    pub(crate) fn fate(&self) -> Fate {
        self.fate.clone()
    }

    /// What a failure of the engine means, and remembers a cancellation.
    pub(crate) fn failed(&self, error: &TerminalError) -> DurableError {
        if failure::is_cancellation(error) {
            self.fate.cancelled.store(true, SeqCst);
        }
        failure::durable(error)
    }
}

/// What becomes of an invocation, whatever the agent makes of the errors that it saw. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fate {
    /// Restate tells of a cancellation once.
    cancelled: Arc<AtomicBool>,
    differs: Arc<OnceLock<DurableError>>,
    /// What of the engine ended the run of an agent inside a tool call.
    failed: Arc<OnceLock<String>>,
}

impl Fate {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// Notes what of the engine ended the run of an agent inside a tool call.
    pub(crate) fn fail(&self, error: &DurableError) {
        let _ = self.failed.set(error.to_string());
    }

    pub(crate) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Where the run is not the one that the journal holds.
    pub(crate) fn differs(&self) -> Option<String> {
        self.differs.get().map(ToString::to_string)
    }
}

/// A wait that Restate can count.
pub(crate) fn longest(duration: Duration) -> Duration {
    duration.min(LONGEST_WAIT)
}
