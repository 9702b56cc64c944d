//! A durable context with a journal in a SQLite database ([`SqliteDurableContext`]).

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_durable::{
    EffectKeys, LocalDurableContext, RequestLog, UnknownOutcome, execute_as_batch,
};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DeltaSink, Durability, DurableAgent, DurableContext, DurableError, KnownEffect, LoopError,
    PendingApproval, Provider, RequestRef, RunSnapshot, Start, ToolCall, ToolContext,
    ToolInvocation, ToolOutput, ToolSet, parse_signal,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::effects::Effects;
use crate::error::is_lost;
use crate::journal::{Journal, other};
use crate::outcome::StoredOutcome;
use crate::run_builder::RunOptions;
use crate::{JournalError, SqliteRuns};

/// Number of steps after which a driven run continues as new, if no other number is set.
const DEFAULT_CONTINUE_AFTER: usize = 1000;

/// A [`DurableContext`] that journals the steps of a run in a SQLite database. If the process is killed and started
/// again, the run continues from its journal.
///
/// A context holds its run, so no other context can open the run, in this process or another one. Clones of the context
/// share the hold. Another context can open the run in these cases:
///
/// - [`drive`](Self::drive) has stored the end of the run.
/// - The last clone is dropped.
/// - The process has ended.
///
/// The hold is a [lease](crate::DurableOptions::lease). The context renews the lease during each step, and all the time
/// while [`drive`](Self::drive) runs. The lease expires if the process is stopped or hangs, or if the program is busy
/// between two steps for longer than the lease. Another context may then take the run over. The first context fails
/// with [`JournalError::Superseded`] and starts no further step. In a tokio runtime the renewal needs the timer, which
/// `enable_time` enables.
///
/// # What is stored
///
/// - The response of each model call, once the response is complete. A model call that was in progress when the process
///   ended is made again.
/// - The start of all calls of a tool batch, before any of these calls runs.
/// - The result of each tool call as soon as the call ends, with the tokens that the tool itself used. A call that has
///   ended does not run again.
/// - The deadline of each wait, so that a restart does not extend the wait, and the result of the wait.
/// - The steps of an [agent](neuron_types::AgentTool) that is called as a tool, in a nested journal. An interrupted
///   call of an agent always runs again, and its nested journal replays the finished steps. At most one model call of
///   that agent is repeated after a crash. Timeouts apply to the agent's steps, and not to the whole call.
///
/// Errors that the model or the loop receives are stored too, and a replay returns the same errors. A stored error has
/// only the text of a boxed source. A step returns the stored form of its error also when it is first executed.
///
/// # Recovery of an unfinished tool call
///
/// | declared effect | on recovery |
/// |---|---|
/// | [`Pure`](neuron_types::ToolEffect::Pure), [`Idempotent`](neuron_types::ToolEffect::Idempotent) | the call runs again, with the same idempotency key |
/// | [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce), the default | the call does not run again; the model is told that the outcome is unknown, or the run ends with an error: [`unknown_outcome`](crate::DurableOptions::unknown_outcome) |
///
/// If the tool declared another effect when the call began, the more careful of the two effects counts.
///
/// The same rules apply to a call that was dropped or cancelled together with the run, even in the same process. No
/// result of such a call is stored.
///
/// # Changes to the agent
///
/// On replay the agent must ask for the same steps in the same order, with the same inputs. If its code or
/// configuration changed and a step differs, the run stops with [`DurableError::NonDeterminism`], which names the
/// change. The run is then listed as [stalled](crate::RunStatus::Stalled), and its journal stays unchanged.
///
/// The run continues when the change is undone, or when the run is opened with
/// [`ChangedAgent::GoOn`](neuron_durable::ChangedAgent::GoOn).
///
/// Only one step may be in progress at a time. The calls of a tool batch run concurrently.
///
/// # Cancel safety
///
/// A run that was dropped or cancelled continues when the agent requests its steps again. Call [`start`](Self::start)
/// to begin the replay.
///
/// # Activity options
///
/// Steps use the [`ActivityOptions`] in the same way as the steps of a [`LocalDurableContext`], which executes them.
pub struct SqliteDurableContext<P> {
    shared: Arc<Shared<P>>,
}

/// The state that all clones of a context share.
struct Shared<P> {
    journal: Journal,
    /// The context that executes the steps that are not in the journal.
    work: LocalDurableContext<P>,
    tools: Arc<dyn ToolSet>,
    options: RunOptions,
    /// The log that compares the requests of a replay with the recorded requests.
    requests: RequestLog,
    /// The results of the run's tool calls by effect key. A later call with the same effect key gets the stored result
    /// and does not run.
    effects: EffectKeys,
    /// The effects of the outermost run, which the contexts of agents inside tool calls share.
    shared_effects: Arc<Effects>,
}

impl<P: Provider> SqliteDurableContext<P> {
    /// Opens a run, and creates the run or the database if it does not exist. The steps of the run call `provider` and
    /// `tools`.
    ///
    /// To open several runs in one process, or to set options, open the database once with [`SqliteRuns::open`] and use
    /// [`SqliteRuns::run`].
    ///
    /// # Errors
    ///
    /// The errors of [`SqliteRuns::open`], and these errors, after which the stored run is unchanged:
    ///
    /// - [`JournalError::Held`] if another context holds the run.
    /// - [`JournalError::Cancelled`] if the run was cancelled.
    /// - [`JournalError::InvalidId`], [`JournalError::Corrupt`] or [`JournalError::Lock`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is not opened. An empty run may have been created.
    pub async fn open(
        path: impl AsRef<Path>,
        id: &str,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
    ) -> Result<Self, JournalError> {
        SqliteRuns::open(path).await?.run(id).open(provider, tools).await
    }

    pub(crate) fn new(
        journal: Journal,
        provider: Arc<P>,
        tools: Arc<dyn ToolSet>,
        options: RunOptions,
        shared_effects: Arc<Effects>,
    ) -> Self {
        let work = LocalDurableContext::new(provider, tools.clone());
        let requests = RequestLog::new(options.durable.changed_agent);
        let effects = EffectKeys::default();
        let shared = Shared { journal, work, tools, options, requests, effects, shared_effects };
        Self { shared: Arc::new(shared) }
    }

    /// Begins the replay of the run, and returns the [`Start`] from which the agent must run.
    ///
    /// - A run that has no start yet stores and returns `start`.
    /// - A run that already has a start returns the stored start, and ignores `start`.
    /// - A run that continued as new returns the state of its previous execution.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] with a [`JournalError`] as its source, or [`DurableError::Cancelled`] if the run was
    /// cancelled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `start` may or may not be stored. Call the method again.
    pub async fn start(&self, start: impl Into<Start>) -> Result<Start, DurableError> {
        let (start, effects) = self.shared.journal.start(start.into()).await?;
        self.shared.requests.restart();
        self.shared.effects.restart(&start);
        self.restart_effects(effects, self.shared.effects.to_stored()).await?;
        Ok(start)
    }

    /// Runs an agent until the end of the run. A new run begins with `start`, for example the user's message. If the
    /// run continues as new, the next execution is started too.
    ///
    /// The context holds the run until the end of the run is stored, even between its steps. After that the run can
    /// immediately be [retried](crate::SqliteRuns::retry), [revived](crate::SqliteRuns::revive), opened or deleted. If
    /// the run continues after its end, the context takes the run back.
    ///
    /// An agent may run several loops. The run ends when the agent returns.
    ///
    /// By default the run [continues as new](crate::DurableOptions::continue_after) after 1,000 steps, until the agent's
    /// first loop has ended.
    ///
    /// # Errors
    ///
    /// - The error with which the agent ended.
    /// - The errors of [`start`](Self::start).
    /// - [`DurableError::Cancelled`] if the run was cancelled, or [`JournalError::Superseded`] if another context has
    ///   taken the run over. Both are returned even if the agent has just returned a result.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run stops at its current step. Call the method again to continue the run, in this
    /// process or another one.
    pub async fn drive<'d, A: DurableAgent + ?Sized>(
        &self,
        start: impl Into<Start>,
        agent: &'d A,
    ) -> Result<AgentResult, LoopError>
    where
        P: 'd,
    {
        let mut start = start.into();
        let _driven = self.shared.journal.driven();
        loop {
            start = self.start(start).await?;
            let run = agent.run(start.clone(), Durability::new(self.clone()));
            match self.shared.journal.drive_while_held(run).await? {
                Err(LoopError::Durable(DurableError::ContinueAsNew(_))) => {}
                ended => {
                    self.store_end(ended.as_ref()).await?;
                    return ended;
                }
            }
        }
    }

    /// Stores the outcome of the run, unless the same outcome is stored already. A run that was cancelled or continues
    /// as new has no outcome, and nothing is stored.
    ///
    /// # Errors
    ///
    /// Returns an error if the run was cancelled, deleted or taken over by another context. Other errors are only
    /// logged.
    async fn store_end(
        &self,
        result: Result<&AgentResult, &LoopError>,
    ) -> Result<(), DurableError> {
        let Some((status, outcome)) = StoredOutcome::of(result) else {
            return Ok(());
        };
        match self.journal().end(status, outcome).await {
            Ok(true) => {
                // If the checkpoint fails, the log file only keeps its space.
                let _ = self.journal().database().checkpoint().await;
            }
            Ok(false) => {}
            Err(error) => {
                let run = &*self.journal().place().id;
                tracing::warn!(run, %error, "the outcome of the run could not be stored");
                if is_lost(&error) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(crate) fn effects(&self) -> &EffectKeys {
        &self.shared.effects
    }

    pub(crate) fn shared_effects(&self) -> &Arc<Effects> {
        &self.shared.shared_effects
    }

    pub(crate) fn requests(&self) -> &RequestLog {
        &self.shared.requests
    }

    pub(crate) fn work(&self) -> &LocalDurableContext<P> {
        &self.shared.work
    }

    pub(crate) fn tools(&self) -> &dyn ToolSet {
        &*self.shared.tools
    }

    pub(crate) fn options(&self) -> &RunOptions {
        &self.shared.options
    }

    /// Returns an error if this context belongs to an agent inside a tool call. Such an agent cannot wait for a signal,
    /// because signals are sent to the parent run.
    fn check_may_wait(&self) -> Result<(), DurableError> {
        match self.journal().is_nested() {
            true => Err(other("an agent inside a tool call cannot wait for a signal".into())),
            false => Ok(()),
        }
    }

    pub(crate) fn record_limit(&self) -> usize {
        self.shared.options.durable.record_limit
    }

    pub(crate) fn unknown_outcome(&self) -> UnknownOutcome {
        self.shared.options.durable.unknown_outcome
    }
}

/// Executes steps with the journal. The documentation of [`SqliteDurableContext`] lists the stored data of each step.
impl<P: Provider> DurableContext for SqliteDurableContext<P> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request.view(), options, None).await
    }

    /// Runs the call as a batch of one.
    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let call = ToolCall { id: ctx.call_id.clone(), name: tool_name.to_owned(), input };
        execute_as_batch(self, self.tools(), call, ctx, options).await
    }

    /// Waits for a signal that [`SqliteRuns::signal`] sent, from any process. Returns `None` if no signal arrived
    /// before the timeout.
    ///
    /// A signal that arrived before the wait is received too. Each signal is received only once, the oldest signal
    /// first. If the value of a signal is not a `T`, the signal is removed and the wait fails. The same transaction
    /// removes a received signal from the queue and stores it in the journal.
    ///
    /// A signal is received immediately if this process sends it through the [`SqliteRuns`] that opened the run, or
    /// through a clone. A signal from another process is received within a second.
    ///
    /// Cancel safe: if the future is dropped, no signal is lost.
    async fn wait_for_signal<T: DeserializeOwned + neuron_types::WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout, None).await?)
    }

    /// Returns `true` if this execution has as many steps as [`continue_after`](crate::DurableOptions::continue_after)
    /// allows.
    fn should_continue_as_new(&self) -> bool {
        // A new execution starts from the state of the current loop only. It would repeat the loops before it.
        let is_first_loop = self.journal().is_driven() && !self.journal().has_ended_loops();
        let default = is_first_loop.then_some(DEFAULT_CONTINUE_AFTER);
        let most = self.shared.options.durable.continue_after.or(default);
        let Some(most) = most.filter(|_| !self.journal().is_nested()) else {
            return false;
        };
        // Continuing as new deletes all steps. Steps that were not replayed yet would have to run again.
        let steps = usize::try_from(self.journal().position()).unwrap_or(usize::MAX);
        steps >= most.max(1) && self.journal().is_at_end()
    }

    /// Stores the state and removes the steps of this execution in one transaction. Then returns
    /// [`DurableError::ContinueAsNew`], which ends this execution.
    ///
    /// The next call of [`start`](SqliteDurableContext::start) returns the stored state. That call may come from this
    /// context, or from another context that opens the run later.
    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        let snapshot: RunSnapshot =
            serde_json::from_value(state).map_err(|error| DurableError::Other(Box::new(error)))?;
        snapshot.check_version()?;
        let execution = self.journal().continue_as_new(snapshot.into()).await?;
        let id = &self.journal().place().id;
        Err(DurableError::ContinueAsNew(format!("execution {execution} of the run {id:?}")))
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        match self.journal().is_nested() {
            true => self.shared.effects.to_stored(),
            false => self.shared.shared_effects.known_with(self.shared.effects.to_stored()),
        }
    }

    /// Waits for `duration`. If the wait cannot be stored, the next step returns the error, because this method cannot
    /// return one.
    async fn sleep(&self, duration: Duration) {
        if let Err(error) = self.sleep_as_step(duration).await {
            self.journal().fail_later(error);
        }
    }

    /// Returns the time at which the last step ended. Before the first step, returns the time at which the execution
    /// began. A replay returns the same time.
    fn now(&self) -> DateTime<Utc> {
        self.journal().now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request, options, None).await
    }

    /// Calls the model, sends each delta to `sink` as it arrives, and stores the complete response. A replay sends no
    /// deltas.
    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request, options, Some(sink)).await
    }

    /// Runs all calls concurrently. A failed call does not stop the other calls.
    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        if let Err(error) = self.shared.effects.check(&batch, self).await {
            return batch.iter().map(|_| Err(error.again())).collect();
        }
        self.shared.effects.run(batch, |batch| self.call_tools(batch, options)).await
    }

    /// Waits for a signal with the decisions about the pending tool calls. Returns `None` if no decisions arrived
    /// before the timeout. During the wait, [`SqliteRuns::inspect`] returns the pending calls.
    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout, Some(pending)).await?)
    }

    /// Stores the outcome of the run when a loop has ended.
    ///
    /// Stores no outcome if [`drive`](SqliteDurableContext::drive) drives the run, because the agent may then run
    /// further loops. `drive` stores the outcome when the agent returns.
    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        if self.journal().is_nested() {
            // The result of the loop becomes the result of the tool call. An error of the journal is not a result, and
            // must fail the step of the call.
            if let Err(LoopError::Durable(error)) = result {
                self.journal().fail_later(error.again());
            }
        } else if self.journal().is_driven() {
            self.journal().loop_ended();
        } else {
            // The loop has already returned its result, so an error cannot be reported here. `store_end` logs it.
            let _ = self.store_end(result).await;
        }
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.record_as_step(name, value).await
    }

    fn is_replaying(&self) -> bool {
        self.journal().is_replaying()
    }

    /// Returns the id of the run.
    ///
    /// Returns `None` for an agent that runs inside a tool call. The idempotency keys of such an agent's calls are
    /// based on the key of that tool call.
    fn run_id(&self) -> Option<&str> {
        (!self.journal().is_nested()).then(|| &*self.journal().place().id)
    }
}

/// Clones share the run.
impl<P> Clone for SqliteDurableContext<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<P> fmt::Debug for SqliteDurableContext<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteDurableContext")
            .field("run", &self.shared.journal.place().id)
            .field("tools", &self.shared.tools)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
