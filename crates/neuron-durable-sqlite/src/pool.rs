//! A pool that drives the runs of a database, with a limit of concurrent runs ([`RunPool`]).

mod backoff;
mod caught;
mod due;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use chrono::Utc;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use neuron_tool::ToolRegistry;
use neuron_types::{DurableAgent, DurableError, LoopError, Provider, Start};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::parking::Parking;
use crate::step_row::millis;
use crate::{DurableOptions, JournalError, SqliteRuns};
use backoff::Backoff;
use caught::Caught;
use due::{Due, Moment, due};

/// Interval at which a pool reads the database for changes of other processes.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum number of concurrent runs, if no other number is set.
const AT_ONCE: usize = 8;

/// Drives the runs of a database, with a limit of concurrent runs. Created by [`SqliteRuns::pool`].
///
/// The pool opens each run that has not ended and that no context holds. It runs the agent until the end of the run, as
/// [`drive`](crate::SqliteDurableContext::drive) does. Use [`submit`](crate::RunBuilder::submit) to create runs for a pool.
/// Several processes may have pools on the same database.
///
/// - A run that waits for a signal or a time releases its place in the pool. The pool opens it again when the signal
///   arrives or the time has come.
/// - New runs, signals, [`revive`](SqliteRuns::revive) and [`retry`](SqliteRuns::retry) wake a pool of the same process
///   immediately. A pool of another process notices them within about a second. A pool also finds the runs of a killed
///   process, and runs whose [lease](DurableOptions::lease) has expired, within about a second.
/// - A failed run is [listed](SqliteRuns::list) as failed, and the pool continues with the other runs.
/// - A [stalled](crate::RunStatus::Stalled) run is opened again after a minute, and the pause doubles each time, up to
///   an hour. A run whose agent panics is stalled.
/// - A run whose agent returns before the end of its journal has not ended. The pool logs a warning, and opens the run
///   again after pauses that double each time.
/// - A run that [`open`](crate::RunBuilder::open) created may have no start. The agent then begins with the run's
///   [input](crate::RunBuilder::input) as a text. An input that is not a string is converted to JSON. A run with neither a
///   start nor an input is ignored.
///
/// The pool spawns no tasks. The future of [`run`](Self::run) polls all runs.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
///
/// use neuron_durable_sqlite::{DurableOptions, RunStatus, SqliteRuns};
/// use neuron_loop::Agent;
/// use neuron_tool::ToolRegistry;
/// # use neuron_testing::ScriptedProvider;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let my_provider = Arc::new(ScriptedProvider::new(["It is 4."]));
/// # let runs = SqliteRuns::open(":memory:").await?;
/// let agent = Agent::builder(my_provider.clone()).build();
/// let pool = runs.pool(my_provider, Arc::new(ToolRegistry::new()), agent);
/// let pool = pool.at_once(8).options(DurableOptions::new().agent_version("2026-03"));
///
/// // In any process:
/// runs.run("run-42").submit("What is 2 + 2?").await?;
///
/// let done = async {
///     while runs.inspect("run-42").await?.summary.status != RunStatus::Done {
///         tokio::task::yield_now().await;
///     }
///     Ok::<_, Box<dyn std::error::Error>>(())
/// };
/// tokio::select! {
///     ended = pool.run() => ended?,
///     done = done => done?,
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Example: an agent for each run
///
/// The agent of a pool may be a closure. This closure builds an agent from the run's id and input:
///
/// ```
/// # use std::sync::Arc;
/// # use neuron_durable_sqlite::{JournalError, SqliteRuns};
/// # use neuron_loop::{Agent, Conversation};
/// # use neuron_testing::ScriptedProvider;
/// # use neuron_types::{AgentResult, Durability, DurableContext as _, LoopError, Start, WasmBoxedFuture};
/// fn helper(
///     runs: SqliteRuns,
///     provider: Arc<ScriptedProvider>,
/// ) -> impl for<'d> Fn(Start, Durability<'d>) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
///     move |start, durability| {
///         let (runs, provider) = (runs.clone(), provider.clone());
///         Box::pin(async move {
///             let customer: Option<String> = runs.input(durability.run_id().unwrap_or_default()).await?;
///             let prompt = format!("You help {}.", customer.unwrap_or_default());
///             let agent = Agent::builder(provider).system_prompt(prompt).build();
///             let mut conversation = Conversation::new();
///             let result = agent.run(&mut conversation, start).durable(durability).await?;
///             Ok(result.with_messages(&conversation))
///         })
///     }
/// }
///
/// # async fn test(runs: SqliteRuns, my_provider: Arc<ScriptedProvider>) -> Result<(), JournalError> {
/// runs.run("run-42").input(&"Ada").submit("Where is my order?").await?;
/// let agent = helper(runs.clone(), my_provider.clone());
/// runs.pool(my_provider, Arc::default(), agent).run().await
/// # }
/// ```
#[must_use = "`run` drives the runs"]
pub struct RunPool<P, A> {
    runs: SqliteRuns,
    provider: Arc<P>,
    tools: Arc<ToolRegistry>,
    agent: A,
    at_once: usize,
    options: DurableOptions,
    token: CancellationToken,
}

/// A run that the pool has stopped driving.
struct Left {
    id: String,
    /// Set if the run ended, was cancelled or waits. If not set, the pool pauses before it opens the run again.
    is_settled: bool,
    /// Error with which the run left the pool, if any.
    error: Option<LoopError>,
}

impl<P: Provider + 'static, A: DurableAgent> RunPool<P, A> {
    pub(crate) fn new(
        runs: SqliteRuns,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
        agent: A,
    ) -> Self {
        let options = DurableOptions::new();
        let token = CancellationToken::new();
        Self { runs, provider, tools, agent, at_once: AT_ONCE, options, token }
    }

    /// Sets the maximum number of concurrent runs, 8 by default.
    pub fn at_once(mut self, runs: usize) -> Self {
        self.at_once = runs.max(1);
        self
    }

    /// Sets the options of all runs, for example the lease and the version of the agent.
    pub fn options(mut self, options: DurableOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets a token whose cancellation stops the pool. The runs are interrupted at their current step, and continue
    /// when a pool opens them again.
    pub fn cancelled_with(mut self, token: &CancellationToken) -> Self {
        self.token = token.clone();
        self
    }

    /// Drives runs until the token of [`cancelled_with`](Self::cancelled_with) is cancelled. Without a token it never
    /// returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`JournalError::Database`] if the database cannot be read. Errors of a single run do not end the pool.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the runs are interrupted at their current step, and continue when a pool opens them
    /// again.
    pub async fn run(self) -> Result<(), JournalError> {
        let token = self.token.clone();
        token.run_until_cancelled(self.drive_all()).await.unwrap_or(Ok(()))
    }

    /// Looks for runs and drives them, until the database cannot be read.
    async fn drive_all(&self) -> Result<(), JournalError> {
        let mut driven = FuturesUnordered::new();
        let mut ids = HashSet::new();
        let mut backoff = Backoff::default();
        loop {
            // Registered before the database is read, so a change during the read wakes the pool.
            let woken = self.runs.notices().runnable.notified();
            // The runs are polled during the read, because the read may have to wait for a connection that a run uses.
            let mut look = pin!(self.runs.database().read(|transaction| due(transaction)));
            let mut gone = Vec::new();
            let found: Vec<Due> = loop {
                match select(look, pin!(ended(&mut driven))).await {
                    Either::Left((found, _)) => break found?,
                    Either::Right((left, unfinished)) => {
                        look = unfinished;
                        gone.push(left.id.clone());
                        note(&mut backoff, left);
                    }
                }
            };
            backoff.keep(&found);
            let mut pause = LOOK;
            let mut next = VecDeque::new();
            for run in found {
                match run.moment {
                    Moment::Now if !ids.contains(&run.id) && backoff.allows(&run.id) => {
                        next.push_back(run);
                    }
                    Moment::At(at) => pause = pause.min(until(at)),
                    _ => {}
                }
            }
            // The read may have seen these runs before they left the pool. So they are removed only after `next` was
            // filled.
            ids.retain(|id| !gone.contains(id));
            let mut wait = pin!(tokio::time::timeout(pause, woken));
            loop {
                while driven.len() < self.at_once
                    && let Some(run) = next.pop_front()
                {
                    ids.insert(run.id.clone());
                    driven.push(self.drive_one(run));
                }
                match select(pin!(ended(&mut driven)), wait.as_mut()).await {
                    Either::Left((left, _)) => {
                        ids.remove(&left.id);
                        note(&mut backoff, left);
                    }
                    Either::Right(_) => break,
                }
                if next.is_empty() {
                    break;
                }
            }
        }
    }

    /// Opens and drives one run until it ends or fails, or until it waits and releases its place in the pool.
    async fn drive_one(&self, run: Due) -> Left {
        let parking = Parking::default();
        let drive = async {
            let builder =
                self.runs.run(&run.id).options(self.options.clone()).parking(parking.clone());
            let context = builder.open(self.provider.clone(), self.tools.clone()).await?;
            // The context returns the stored start and ignores this one.
            let start = match run.has_start {
                true => Start::Continue,
                false => match self.runs.input::<Value>(&run.id).await? {
                    Some(Value::String(text)) => text.into(),
                    input => input.unwrap_or_default().to_string().into(),
                },
            };
            let ended = context.drive(start, &Caught(&self.agent)).await;
            let is_settled = context.journal().is_over().await;
            Ok((is_settled, ended.err()))
        };
        let (is_settled, error) = match select(pin!(drive), pin!(parking.parked())).await {
            Either::Left((Ok(ended), _)) => ended,
            Either::Left((Err(error), _)) => (false, Some(error)),
            Either::Right(_) => (true, None),
        };
        Left { id: run.id, is_settled, error }
    }
}

/// Waits for the next run that leaves the pool. Never returns while no run is driven.
async fn ended<F: Future<Output = Left>>(driven: &mut FuturesUnordered<F>) -> Left {
    poll_fn(|cx| match driven.poll_next_unpin(cx) {
        Poll::Ready(Some(ended)) => Poll::Ready(ended),
        _ => Poll::Pending,
    })
    .await
}

/// Decides when a run that has left the pool may be opened again, and logs its error.
fn note(backoff: &mut Backoff, left: Left) {
    let Left { id: run, is_settled, error } = left;
    let journal = match &error {
        Some(LoopError::Durable(DurableError::Other(source))) => source.downcast_ref(),
        _ => None,
    };
    if let Some(JournalError::Held { .. } | JournalError::Superseded { .. }) = journal {
        return backoff.skip(run, LOOK);
    }
    match &error {
        Some(LoopError::Durable(DurableError::Cancelled)) | None if is_settled => {}
        Some(error) => tracing::warn!(run, %error, "a run of the pool failed"),
        None => tracing::warn!(run, "the agent returned a result before the end of its journal"),
    }
    match error {
        _ if is_settled => backoff.forget(&run),
        None | Some(LoopError::Cancelled | LoopError::Durable(DurableError::Cancelled)) => {
            backoff.failed(run, false);
        }
        Some(error) => backoff.failed(run, matches!(error, LoopError::Durable(_))),
    }
}

/// Returns the time until `at`, which is in milliseconds since 1970. Returns at least one millisecond.
fn until(at: i64) -> Duration {
    Duration::from_millis(at.saturating_sub(millis(Utc::now())).max(1).unsigned_abs())
}

impl<P, A> fmt::Debug for RunPool<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPool")
            .field("runs", &self.runs)
            .field("tools", &self.tools)
            .field("at_once", &self.at_once)
            .finish_non_exhaustive()
    }
}
