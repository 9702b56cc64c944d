//! A durable context that maps the steps of a run to commands of a workflow ([`TemporalDurableContext`]).

mod boundary;
mod effects;
mod model;
mod signals;
mod tools;
mod values;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_durable::{EffectKeys, EffectScope, RequestLog};
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

/// Name of an SDK patch that histories may contain. Only the marker is left of it: without the call of
/// `deprecate_patch`, the SDK refuses to replay such a history.
const PATCH: &str = "neuron_asked";

/// Number of replayed steps after which a log line reports the progress of the replay.
const REPLAY_LOG_INTERVAL: usize = 250;

/// The longest timer that the server accepts, 100 years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A [`DurableContext`] inside a Temporal workflow.
///
/// [`AgentWorkflow`](crate::AgentWorkflow) creates a context for each execution. A custom workflow can do the same. It
/// needs a [`Mailbox`](crate::Mailbox) and a handler for the signal `neuron_signal`. Its worker needs
/// [`AgentActivities`](crate::AgentActivities) with the same options.
///
/// # Steps on Temporal
///
/// - A model call is a local activity or an activity, see [`ModelCalls`](crate::ModelCalls). If the loop's options have
///   no retry policy, [`TemporalOptions::model_retry`] applies.
/// - Between two consecutive local model calls, and between the last call and the end of the run, the context waits for
///   a timer of about a second. The timer makes the worker send the response to the server, so that a crash does not
///   repeat the call.
/// - Each call of a tool batch is an activity with heartbeats. The activities of a batch run concurrently on the
///   workers of the queue.
/// - A failed tool call is retried if the loop's options have a retry policy and the tool's effect allows it. If the
///   worker of a tool is lost, a call that may run twice runs again on another worker, with the same idempotency key.
///   For any other call, [`DurableOptions::unknown_outcome`](crate::DurableOptions::unknown_outcome) decides the result.
/// - The call of an [agent](neuron_types::AgentTool) is a child workflow, `neuron_sub_agent`, with the agent's steps. A
///   crash repeats at most one model call of that agent. Timeouts apply to each step of the agent, and not to the whole
///   call. The child workflow does not continue as new.
/// - `run_id` is the id of the workflow's first execution. It stays the same when the run continues as new.
/// - The deltas of a stream are sent when the response is complete, one delta for each content block.
///
/// # Changes to the agent
///
/// The history has a summary of each request to the model, and the name and a digest of the arguments of each tool
/// call. If the agent sends another request or calls another tool on replay, the workflow task fails with an error that
/// names the change. The run stalls and loses nothing. It continues when a worker with the old agent takes it, or when
/// [`DurableOptions::changed_agent`](crate::DurableOptions::changed_agent) allows the change. The SDK detects a different order of steps (`[TMPRL1100]`).
///
/// # Threads
///
/// Use this context only on the thread on which the SDK drives the workflow, where the loop does its work. On another
/// thread the context panics.
pub struct TemporalDurableContext<W> {
    ctx: SendWrapper<WorkflowContext<W>>,
    options: TemporalOptions,
    /// Version of the agent to which the run is pinned.
    agent_version: AgentVersion,
    run_id: String,
    requests: RequestLog,
    effects: EffectKeys,
    /// The scope of the effect keys, whose `run` is the id of the outermost workflow.
    scope: EffectScope,
    /// Names of the nested agents, from the outermost nested agent to the agent of this run. Empty if this run is not
    /// inside a tool call.
    agents: Vec<String>,
    /// Number of model calls in this execution, for the ids of their activities.
    model_calls: AtomicUsize,
    /// Number of tool batches in this execution, for the ids of their activities.
    batches: AtomicUsize,
    /// Number of steps in this execution that added events to the history.
    steps: AtomicUsize,
}

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Creates the durable context of the current execution of a workflow.
    #[must_use]
    pub fn new(ctx: &WorkflowContext<W>, options: TemporalOptions) -> Self {
        let info = ctx.info();
        ctx.deprecate_patch(PATCH);
        let run_id = match info.first_execution_run_id() {
            "" => info.workflow_id().to_owned(),
            first => first.to_owned(),
        };
        Self {
            ctx: SendWrapper::new(ctx.clone()),
            requests: RequestLog::new(options.durable.changed_agent),
            effects: EffectKeys::default(),
            scope: EffectScope::new(info.workflow_id()),
            agent_version: AgentVersion::default(),
            agents: Vec::new(),
            options,
            run_id,
            model_calls: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
        }
    }

    /// Restores the tool results that earlier executions of the run stored under [effect
    /// keys](neuron_types::Tool::effect_key). `start` is the input of this execution, which contains these results.
    #[must_use]
    pub fn starting_from(self, start: &Start) -> Self {
        self.effects.restart(start);
        let known = self.effects.to_stored();
        self.ctx.state_mut(|state| state.mailbox_mut().effects_mut().restart(&known));
        self
    }

    /// Sets the agent version to which the run is pinned. Agents inside tool calls get the same version.
    pub(crate) fn pinned_to(self, agent_version: AgentVersion) -> Self {
        Self { agent_version, ..self }
    }

    /// Converts this context to the context of an agent that runs inside a tool call, whose context is `call` and whose
    /// request has this scope. `agents` are the names of the nested agents, from the outermost nested agent to this
    /// agent.
    pub(crate) fn nested(
        self,
        agents: Vec<String>,
        scope: EffectScope,
        call: &ToolContext,
    ) -> Self {
        self.effects.restart_call(call);
        Self { agents, scope, ..self }
    }

    /// Returns `true` if the context belongs to an agent inside a tool call.
    fn is_nested(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Returns an error if this is the run of an agent inside a tool call. Such a run cannot wait for signals, because
    /// only the parent run receives them.
    fn check_may_wait(&self) -> Result<(), DurableError> {
        match self.is_nested() {
            true => {
                let text = "an agent inside a tool call cannot wait for a signal";
                Err(DurableError::Other(text.into()))
            }
            false => Ok(()),
        }
    }

    /// Counts a step, or returns [`DurableError::Cancelled`] if the workflow was cancelled.
    ///
    /// The check is needed after a [`sleep`] or a compaction, which do not report the cancellation themselves.
    ///
    /// [`sleep`]: DurableContext::sleep
    fn begin_step(&self) -> Result<(), DurableError> {
        if self.ctx.cancellation_token().is_cancelled() {
            return Err(DurableError::Cancelled);
        }
        let steps = self.steps.fetch_add(1, Ordering::Relaxed);
        if steps > 0 && steps.is_multiple_of(REPLAY_LOG_INTERVAL) && self.ctx.is_replaying() {
            tracing::info!(run = %self.run_id, steps, "a long history is still being replayed");
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

    /// Runs a batch with this call. The call runs at most once, because the effect of the tool is not known here.
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
        ran.unwrap_or_else(|| {
            Err(DurableError::Other("a batch of one call returned no result".into()))
        })
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

    /// Waits for a signal to the workflow. Returns `None` if no signal arrives before the timeout.
    ///
    /// A signal that arrived before the wait is received too. The oldest signal with the name is received first, and
    /// each signal only once. A signal whose value is not a `T` is consumed, and an error is returned.
    async fn wait_for_signal<T: DeserializeOwned + Send>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.check_may_wait()?;
        parse_signal(self.receive(signal_name, timeout.min(LONGEST), None).await?)
    }

    /// Waits for a signal with the decisions. Returns `None` if no decisions arrive before the timeout. During the
    /// wait, the queries `neuron_pending` and `neuron_waits_for` return `pending` without the conversation.
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
        match self.is_nested() {
            true => self.effects.to_stored(),
            false => self.ctx.state(|state| state.mailbox().effects().known()),
        }
    }

    fn should_continue_as_new(&self) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        // Without any step, an execution that begins with a long state would continue as new again and again.
        let is_long = self.ctx.continue_as_new_suggested()
            || self.options.durable.continue_after.is_some_and(|most| steps >= most);
        is_long && steps > 0 && !self.is_nested()
    }

    /// Puts the state into the mailbox and returns [`DurableError::ContinueAsNew`]. The workflow then continues as new
    /// with this state.
    ///
    /// Returns `Ok` if the state fits into a payload, but not together with the queued signals. The run then continues
    /// in this execution.
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
            tracing::warn!(run = %self.run_id, signals, "queued signals leave no room for a new execution");
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
            // If the timer was cancelled, the next step returns the error.
            let _ = timer.await;
            self.ctx.state_mut(|state| state.mailbox_mut().end_wait(None));
            self.answers_are_kept();
        }
    }

    /// Waits until the server has received the last model response. A custom workflow may therefore end directly after
    /// the loop. [`AgentWorkflow`](crate::AgentWorkflow) waits by itself too.
    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        if let (true, Err(LoopError::Durable(error))) = (self.is_nested(), result) {
            // An error of the engine must not become the result of the tool call, even if middleware converts it. It is
            // kept for `SubAgentWorkflow`.
            self.ctx.state_mut(|state| state.mailbox_mut().set_failure(error.to_string()));
        }
        // An error means that the run was cancelled, so its responses are not needed.
        let _ = self.keep_answers().await;
    }

    /// Returns the time at which the current workflow task began. It does not advance between two commands.
    fn now(&self) -> DateTime<Utc> {
        self.ctx.workflow_time().map(Into::into).unwrap_or_default()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        self.record_here(name, value).await
    }

    fn is_replaying(&self) -> bool {
        self.ctx.is_replaying()
    }

    /// Returns the id of the run. Returns `None` for an agent inside a tool call, because the idempotency keys of its
    /// calls begin with the key of that tool call.
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

/// Fails the current workflow task with the error, so the run starts no further step. The server retries the task until
/// a worker whose agent fits the history takes it.
pub(crate) fn stall<W: HasMailbox>(ctx: &WorkflowContext<W>, error: &DurableError) -> ! {
    let text = error.to_string();
    tracing::error!(workflow = ctx.info().workflow_id(), "{text}");
    ctx.state_mut(|workflow| workflow.mailbox_mut().set_stalled(text.clone()));
    // Only a panic makes the SDK fail a workflow task. `resume_unwind` does not call the program's panic hook.
    resume_unwind(Box::new(text))
}

/// Converts the loop's options to the options of an activity with this id and retry policy.
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

/// Returns the text of the innermost cause of an activity's error.
fn innermost(error: &ActivityExecutionError) -> String {
    let Some(mut failure) = error.failure() else {
        return error.to_string();
    };
    while let Some(cause) = &failure.cause {
        failure = cause;
    }
    failure.message.clone()
}

/// Returns the type of an activity's application failure. Returns `None` for another error.
fn type_name(error: &ActivityExecutionError) -> Option<&str> {
    match error.reason()? {
        IncomingError::Application(failure) => failure.type_name(),
        _ => None,
    }
}
