//! A durable context that turns a run's side effects into commands of a workflow ([`TemporalDurableContext`]).

mod boundary;
mod model;
mod signals;
mod tools;
mod values;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_runtime::{EffectKeys, RequestLog};
use neuron_types::{
    ActivityOptions, AgentResult, ApprovalDecisions, CompletionRequest, CompletionResponse,
    DurableContext, DurableError, KnownEffect, LoopError, PendingApproval, RequestRef, Start,
    ToolCall, ToolContext, ToolInvocation, ToolOutput, parse_signal,
};
use send_wrapper::SendWrapper;
use serde::de::DeserializeOwned;
use serde_json::Value;
use temporalio_common::error::IncomingError;
use temporalio_sdk::{ActivityExecutionError, WorkflowContext};

use crate::activities::MARGIN;
use crate::agent_version::AgentVersion;
use crate::json::Json;
use crate::{HasMailbox, TemporalOptions};

pub(crate) use boundary::keep_answers;

/// The patch of the SDK that marks executions whose records contain the request.
const KEEPS_WHAT_WAS_ASKED: &str = "neuron_asked";

/// Number of replayed steps after which a log line reports the progress.
const REPLAY_LOG_INTERVAL: usize = 250;

/// The longest timer of the server, a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A [`DurableContext`] inside a workflow of Temporal.
///
/// [`AgentWorkflow`](crate::AgentWorkflow) makes one for each execution. A workflow of your own does the
/// same: it has a [`Mailbox`](crate::Mailbox), takes the signal `neuron_signal`, and its worker has the
/// [`AgentActivities`](crate::AgentActivities) made with the same options.
///
/// # What becomes of what
///
/// - A call of the model is a local activity, or an activity: see [`ModelCalls`](crate::ModelCalls).
///   Without a policy in the loop's options
///   [`TemporalOptions::model_retry`] holds.
///   A local call that follows another one directly, and the run's end after one, wait for the shortest
///   timer of the server, a second or so: with it the answer is in the history, and nothing later repeats
///   the call.
/// - Each call of a batch of tools is an activity with heartbeats; they run at the same time on the
///   workers of the queue. A tool that fails is run again if the loop's options have a policy and the tool
///   declares that it may; when its worker is lost, it is run again on another one, with the same
///   idempotency key, if it may, and else
///   [`TemporalOptions::unknown_outcome`] decides.
/// - The record of a call of the model has what was asked, and the id of a tool's activity has its name and a digest of
///   its arguments. An agent that asks for something else on replay fails the workflow's task, with a text that names
///   what changed: the run stands still until a worker with the old agent takes it, or
///   [`TemporalOptions::changed_agent`] lets it go on. Nothing is lost. Steps in another order are found by the
///   server's SDK (`[TMPRL1100]`).
/// - The call of an [agent](neuron_types::AgentTool) is a child workflow, `neuron_sub_agent`, which does the same with the
///   steps of that agent. A crash costs at most one call of its model. Time limits hold for its steps, and not for the call.
///   Its child does not continue as new.
/// - `run_id` is the id of the workflow's first execution, the same after it continues as new.
/// - Deltas of a stream come when the answer is whole, one for each block.
///
/// # Threads
///
/// The workflow's context belongs to the thread on which the SDK drives it, and so does this one: used on
/// another thread it panics. What the loop does inside a workflow stays on that thread.
pub struct TemporalDurableContext<W> {
    ctx: SendWrapper<WorkflowContext<W>>,
    options: TemporalOptions,
    /// The version to which the run is pinned.
    agent_version: AgentVersion,
    run_id: String,
    requests: RequestLog,
    effects: EffectKeys,
    /// The agents around the run, if it belongs to an agent inside a tool call.
    agents: Vec<String>,
    /// False for an execution of a release that put the digest of a request into the id of its activity, and
    /// ran an agent inside a tool call as one activity.
    keeps_what_was_asked: bool,
    /// Numbers of calls of the model and of batches of tools in the execution, for the keys.
    model_calls: AtomicUsize,
    batches: AtomicUsize,
    /// All that put something into the history.
    steps: AtomicUsize,
}

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Makes the context of the execution that this workflow's context belongs to.
    #[must_use]
    pub fn new(ctx: &WorkflowContext<W>, options: TemporalOptions) -> Self {
        let info = ctx.info();
        let run_id = match info.first_execution_run_id() {
            "" => info.workflow_id().to_owned(),
            first => first.to_owned(),
        };
        Self {
            ctx: SendWrapper::new(ctx.clone()),
            requests: RequestLog::new(options.changed_agent),
            effects: EffectKeys::default(),
            agent_version: AgentVersion::default(),
            agents: Vec::new(),
            keeps_what_was_asked: ctx.patched(KEEPS_WHAT_WAS_ASKED),
            options,
            run_id,
            model_calls: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
        }
    }

    /// Takes over the [effects](neuron_types::Tool::effect_key) that an earlier execution had.
    #[must_use]
    pub fn starting_from(self, start: &Start) -> Self {
        self.effects.restart(start);
        self
    }

    /// Sets the version to which the run is pinned, for the agents inside its tool calls.
    pub(crate) fn pinned_to(self, agent_version: AgentVersion) -> Self {
        Self { agent_version, ..self }
    }

    /// The same for the run of an agent inside a tool call.
    pub(crate) fn nested(self, agents: Vec<String>, call: &ToolContext) -> Self {
        self.effects.restart_call(call);
        Self { agents, ..self }
    }

    fn is_nested(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Returns an error in the run of an agent inside a tool call, because the run around it waits.
    fn check_may_wait(&self) -> Result<(), DurableError> {
        match self.is_nested() {
            true => {
                let text = "an agent inside a tool call cannot wait for a signal";
                Err(DurableError::Other(text.into()))
            }
            false => Ok(()),
        }
    }

    /// Counts a step. Returns an error once the workflow is cancelled, which a step after a [`sleep`] or a
    /// compaction would not notice.
    ///
    /// [`sleep`]: DurableContext::sleep
    fn begin_step(&self) -> Result<(), DurableError> {
        if self.ctx.cancellation_token().is_cancelled() {
            return Err(DurableError::Cancelled);
        }
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if steps > 0 && steps.is_multiple_of(REPLAY_LOG_INTERVAL) && self.ctx.is_replaying() {
            tracing::info!(run = %self.run_id, steps, "the replay of a long history goes on");
        }
        Ok(())
    }
}

impl<W: HasMailbox> DurableContext for TemporalDurableContext<W> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request.view(), options).await
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request, options).await
    }

    /// Runs a batch of one call, whose tool must not run twice.
    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let call = ToolCall { id: ctx.call_id.clone(), name: tool_name.to_owned(), input };
        let batch = vec![ToolInvocation::new(call, ctx.clone())];
        let ran = self.run_tools(batch, options).await.pop();
        ran.unwrap_or_else(|| Err(DurableError::Other("a batch of one gave nothing".into())))
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        match self.effects.check(&batch, self).await {
            Ok(()) => self.effects.run(batch, |batch| self.run_tools(batch, options)).await,
            Err(error @ DurableError::NonDeterminism { .. }) => stall(&self.ctx, &error),
            Err(error) => batch.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// Waits for a signal that the workflow got. One that came before counts. Each goes to one waiter,
    /// the oldest first; one that is not a `T` is used up.
    async fn wait_for_signal<T: DeserializeOwned + Send>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout.min(LONGEST), None).await?)
    }

    /// Waits for the signal, and meanwhile gives `pending` without its conversation to the queries
    /// `neuron_pending` and `neuron_waits_for`.
    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.check_may_wait()?;
        let shown = Some(pending.without_messages());
        parse_signal(self.receive(signal_name, timeout.min(LONGEST), shown).await?)
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        self.effects.to_stored()
    }

    fn should_continue_as_new(&self) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        // An execution that began with a long state must have got somewhere, or it would begin for ever.
        let is_long = self.ctx.continue_as_new_suggested()
            || self.options.continue_as_new_after.is_some_and(|most| steps >= most);
        is_long && steps > 0 && !self.is_nested()
    }

    /// Leaves the state to the workflow, which continues as new with it. If the signals that wait leave no room, the run
    /// goes on in this execution.
    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        let (length, limit) = (Json::new(&state)?.len(), self.options.state_limit());
        if length > limit {
            let text = format!(
                "the state with which the run would continue as a new execution takes {length} bytes, \
                 where a payload may have {limit}: set `TemporalOptions::payload_store`, or let the \
                 agent's context strategy shorten the conversation"
            );
            return Err(DurableError::Other(text.into()));
        }
        let signals = self.ctx.state(|workflow| workflow.mailbox().length_of_signals())?;
        if signals > 0 && length.saturating_add(signals) > limit {
            tracing::warn!(run = %self.run_id, signals, "signals that wait leave no room for a new execution");
            return Ok(());
        }
        self.keep_answers().await?;
        self.ctx.state_mut(|workflow| workflow.mailbox_mut().set_next_state(state));
        Err(DurableError::ContinueAsNew(self.run_id.clone()))
    }

    async fn sleep(&self, duration: Duration) {
        if self.begin_step().is_ok() {
            let duration = duration.min(LONGEST);
            let timer = SendWrapper::new(self.ctx.timer(duration));
            self.begin_wait(None, duration, None);
            // A cancelled one shows at the next step.
            let _ = timer.await;
            self.ctx.state_mut(|state| state.mailbox_mut().end_wait(None));
            self.answers_are_kept();
        }
    }

    /// Waits until the server has the last answer of the model. A workflow of your own needs no more, if
    /// it ends after a loop has run; [`AgentWorkflow`](crate::AgentWorkflow) waits in any case.
    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        if let (true, Err(LoopError::Durable(error))) = (self.is_nested(), result) {
            // It is no result of the call, whatever becomes of it on the way.
            self.ctx.state_mut(|state| state.mailbox_mut().set_failure(error.to_string()));
        }
        // A cancelled run keeps nothing.
        let _ = self.keep_answers().await;
    }

    /// Returns the time of the workflow's last task, which does not advance between two commands.
    fn now(&self) -> DateTime<Utc> {
        self.ctx.workflow_time().map(Into::into).unwrap_or_default()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.record_here(name, value).await
    }

    fn is_replaying(&self) -> bool {
        self.ctx.is_replaying()
    }

    /// An agent inside a tool call has the key of the call.
    fn run_id(&self) -> Option<&str> {
        (!self.is_nested()).then_some(&self.run_id)
    }
}

impl<W> fmt::Debug for TemporalDurableContext<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalDurableContext")
            .field("run_id", &self.run_id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Fails the workflow's task, which the server then tries again, until the agent is as it was. Nothing is lost, and nothing
/// new is begun.
pub(crate) fn stall<W: HasMailbox>(ctx: &WorkflowContext<W>, error: &DurableError) -> ! {
    let text = error.to_string();
    tracing::error!(workflow = ctx.info().workflow_id(), "{text}");
    ctx.state_mut(|workflow| workflow.mailbox_mut().set_stalled(text.clone()));
    // The SDK fails a task by a panic alone. This one is none that the program's hook for panics hears of.
    resume_unwind(Box::new(text))
}

/// Returns the options of an activity.
fn activity_options(
    options: &ActivityOptions,
    id: String,
    policy: temporalio_common::RetryPolicy,
) -> temporalio_sdk::ActivityOptions {
    let limit = options.start_to_close_timeout.saturating_add(MARGIN).min(LONGEST);
    temporalio_sdk::ActivityOptions::with_start_to_close_timeout(limit)
        .maybe_heartbeat_timeout(options.heartbeat_timeout)
        .retry_policy(policy)
        .activity_id(id)
        .build()
}

/// The text of what went wrong first.
fn innermost(error: &ActivityExecutionError) -> String {
    let Some(mut failure) = error.failure() else {
        return error.to_string();
    };
    while let Some(cause) = &failure.cause {
        failure = cause;
    }
    failure.message.clone()
}

/// The type by which an activity's failure goes.
fn type_name(error: &ActivityExecutionError) -> Option<&str> {
    match error.reason()? {
        IncomingError::Application(failure) => failure.type_name(),
        _ => None,
    }
}
