//! A durable context with a journal in a SQLite database ([`SqliteDurableContext`]).

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_runtime::{
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

use crate::error::is_lost;
use crate::journal::{Journal, other};
use crate::run_builder::RunOptions;
use crate::run_info::RunOutcome;
use crate::{JournalError, SqliteRuns};

/// Number of steps after which a run that is driven continues as new.
const DEFAULT_CONTINUE_AFTER: usize = 1000;

/// A [`DurableContext`] that journals a run's steps in a SQLite database, so that the run continues if the process
/// is killed and started again.
///
/// While it lives it holds the run: nobody else can open it, in this process or another one. Clones share the
/// run. The run is free again when [`drive`](Self::drive) has stored its end, the last of them is dropped, or the process
/// has ended, however it ended.
///
/// The hold is a [lease](crate::RunBuilder::lease). The context renews it while it does a step, and all the time while
/// [`drive`](Self::drive) runs. If it does not renew the lease in time, because its process is stopped or hangs, or its
/// program does something else for longer between two steps, another context may take the run over. This one then fails
/// with [`JournalError::Superseded`] and begins nothing any more. Within a tokio runtime the renewal needs the runtime's
/// timer, which `enable_time` enables.
///
/// # What is stored
///
/// - The answer of each call of the model, once it is whole. A call that was under way when the process ended
///   is made again.
/// - Before any call of a batch of tools runs, that all of them begin; of each the result, as it comes, with the
///   tokens that it took itself. A call that has ended does not run again.
/// - What came of each wait, and until when it lasts, so that a restart does not wait anew.
/// - The steps of an [agent](neuron_types::AgentTool) that is called as a tool, in a journal of their own. Such a call has
///   begun and not ended like any other, but it always runs again: its journal says what is done. A crash costs at
///   most one call of the agent's model. Time limits hold for its steps, and not for the call.
///
/// Failures that the model or the loop see are stored as what they are: replay gives them again. What the loop
/// sees of a step is always what replay gives: a boxed error is its text.
///
/// # What becomes of a tool call that began and did not end
///
/// | the tool declares | on recovery |
/// |---|---|
/// | [`Pure`](neuron_types::ToolEffect::Pure), [`Idempotent`](neuron_types::ToolEffect::Idempotent) | it runs again, with the same idempotency key |
/// | [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce), the default | it does not run; the model is told that nobody knows what happened, or the run ends with an error: [`unknown_outcome`](crate::RunBuilder::unknown_outcome) |
///
/// What it declared when it began counts as well as what it declares now: the more careful of both. The same
/// holds for a call that was dropped or cancelled with the run, also in this process: whatever it did, nobody
/// stored how it ended.
///
/// # What must not change
///
/// On replay the agent asks for the same steps in the same order, with the same inputs. If it does not, because
/// its code or configuration changed, the run stops with [`DurableError::NonDeterminism`], which names what
/// changed, and is listed as [stalled](crate::RunStatus::Stalled). The journal stays as it is. The run goes on once
/// the agent is as it was, or if it is opened with [`ChangedAgent::GoOn`](neuron_runtime::ChangedAgent::GoOn). Steps are done one at a time; those of a batch of tools run at the same time.
///
/// # Cancel safety
///
/// A run that is dropped or cancelled halfway goes on when its steps are asked for again:
/// [`start`](Self::start) begins the replay.
///
/// # What of the options holds
///
/// As with [`LocalDurableContext`], which does the work.
pub struct SqliteDurableContext<P> {
    shared: Arc<Shared<P>>,
}

struct Shared<P> {
    journal: Journal,
    work: LocalDurableContext<P>,
    tools: Arc<dyn ToolSet>,
    options: RunOptions,
    requests: RequestLog,
    effects: EffectKeys,
}

impl<P: Provider> SqliteDurableContext<P> {
    /// Opens a run, or creates it, in a database that is made if there is none. The model and the tools are
    /// those that its steps call.
    ///
    /// For several runs in one process, and for options, open the database once: [`SqliteRuns::run`].
    ///
    /// # Errors
    ///
    /// [`JournalError::Held`] if somebody drives the run, [`JournalError::InvalidId`],
    /// [`JournalError::Corrupt`], [`JournalError::Lock`], and what [`SqliteRuns::open`] fails with. What is
    /// there is left as it is.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it opens nothing; an empty run may have been created.
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
    ) -> Self {
        let work = LocalDurableContext::new(provider, tools.clone());
        let requests = RequestLog::new(options.changed_agent);
        let effects = EffectKeys::default();
        Self { shared: Arc::new(Shared { journal, work, tools, options, requests, effects }) }
    }

    /// Returns the start for a run of an agent. The steps that follow are replayed from there.
    ///
    /// That is `start` for a run that has none yet, which is stored; else what the run began with; else, if it
    /// was continued as new, the state that it left.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] with a [`JournalError`] in it.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stores `start` or does not, and is to be called again.
    pub async fn start(&self, start: impl Into<Start>) -> Result<Start, DurableError> {
        let start = self.shared.journal.start(start.into()).await?;
        self.shared.requests.restart();
        self.shared.effects.restart(&start);
        Ok(start)
    }

    /// Lets an agent run to the end of the run, through all its executions. `start` is what a new run begins
    /// with: the user's message.
    ///
    /// The run is held all the time, also between its steps, until its end is stored. From then on the run is free, so that
    /// whoever sees the end can retry, revive, open or delete the run at once. The context takes the run back if it goes
    /// on. The agent may run several loops: only the end of the agent is the end of the run.
    ///
    /// By default the run [continues as new](crate::RunBuilder::continue_after) after 1,000 steps of its first loop.
    ///
    /// # Errors
    ///
    /// The run's own, and those of [`start`](Self::start). [`DurableError::Cancelled`] if the run was cancelled, and
    /// [`JournalError::Superseded`] if another context has taken it over, also if the agent has just returned a result.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops where it is. Called again, here or by another process, it goes on.
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

    /// Stores how the run ended, if that is news. A run that was cancelled, or that the journal ended, has not ended: it
    /// goes on when it is opened.
    ///
    /// # Errors
    ///
    /// The reason for which the end does not count: the run was cancelled, deleted or taken over.
    async fn store_end(
        &self,
        result: Result<&AgentResult, &LoopError>,
    ) -> Result<(), DurableError> {
        let Some((status, outcome)) = RunOutcome::of(result) else {
            return Ok(());
        };
        match self.journal().end(status, outcome).await {
            Ok(true) => {
                // What fails here is space.
                let _ = self.journal().database().checkpoint().await;
            }
            Ok(false) => {}
            Err(error) => {
                let run = &*self.journal().place().id;
                tracing::warn!(run, %error, "how the run ended could not be stored");
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

    /// Returns an error in the journal of an agent inside a tool call, because the run around it waits.
    fn check_may_wait(&self) -> Result<(), DurableError> {
        match self.journal().is_nested() {
            true => Err(other("an agent inside a tool call cannot wait for a signal".into())),
            false => Ok(()),
        }
    }

    pub(crate) fn record_limit(&self) -> usize {
        self.shared.options.record_limit
    }

    pub(crate) fn unknown_outcome(&self) -> UnknownOutcome {
        self.shared.options.unknown_outcome
    }
}

/// The type's documentation lists the stored parts of each step.
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

    /// Waits for a signal of [`SqliteRuns::signal`], from any process. One that came before counts. Each goes
    /// to one waiter, the oldest first; one that is not a `T` is used up. That it came is stored as it is
    /// taken from the queue.
    ///
    /// A signal of this process, from the [`SqliteRuns`] that opened the run or a clone, is noticed at once; one
    /// of another process within a second.
    ///
    /// Cancel safe: a signal is not lost when the future is dropped.
    async fn wait_for_signal<T: DeserializeOwned + neuron_types::WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout, None).await?)
    }

    /// Returns `true` if this execution has as many steps as [`continue_after`](crate::RunBuilder::continue_after) allows.
    fn should_continue_as_new(&self) -> bool {
        // The new execution would do the loops before this one again.
        let is_first_loop = self.journal().is_driven() && !self.journal().has_ended_loops();
        let default = is_first_loop.then_some(DEFAULT_CONTINUE_AFTER);
        let most = self.shared.options.continue_after.or(default);
        let Some(most) = most.filter(|_| !self.journal().is_nested()) else {
            return false;
        };
        // Not while there are steps in the journal: they would have to be paid again.
        let steps = usize::try_from(self.journal().position()).unwrap_or(usize::MAX);
        steps >= most && self.journal().is_at_end()
    }

    /// Stores the state and removes the steps, at once, and ends this execution with
    /// [`DurableError::ContinueAsNew`]. [`start`](SqliteDurableContext::start), here or when the run is opened
    /// again, goes on from the state.
    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        let snapshot: RunSnapshot =
            serde_json::from_value(state).map_err(|error| DurableError::Other(Box::new(error)))?;
        snapshot.check_version()?;
        let execution = self.journal().continue_as_new(snapshot.into()).await?;
        let id = &self.journal().place().id;
        Err(DurableError::ContinueAsNew(format!("execution {execution} of the run {id:?}")))
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.shared.effects.to_stored()
    }

    /// Waits. If the wait cannot be stored, the next step returns the error, because this method has none.
    async fn sleep(&self, duration: Duration) {
        if let Err(error) = self.sleep_as_step(duration).await {
            self.journal().fail_later(error);
        }
    }

    /// Returns the time at which the last step ended or the execution began, which is the same on replay.
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

    /// Sends the deltas as they come, and stores the whole answer. On replay there are no deltas.
    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request, options, Some(sink)).await
    }

    /// Runs all calls at the same time. One that fails does not stop the others.
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

    /// Waits for the signal. [`SqliteRuns::inspect`] shows the calls meanwhile.
    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout, Some(pending)).await?)
    }

    /// Stores the end of a run that [`drive`](SqliteDurableContext::drive) does not drive. A driven agent may go on after
    /// its loop has ended, and `drive` stores the end.
    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        if self.journal().is_nested() {
            // The call gives what came of it. What the journal ended is no result.
            if let Err(LoopError::Durable(error)) = result {
                self.journal().fail_later(error.again());
            }
        } else if self.journal().is_driven() {
            self.journal().loop_ended();
        } else {
            // The loop has its result already.
            let _ = self.store_end(result).await;
        }
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.record_as_step(name, value).await
    }

    fn is_replaying(&self) -> bool {
        self.journal().is_replaying()
    }

    /// An agent inside a tool call has the key of the call.
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
