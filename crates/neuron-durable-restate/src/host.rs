//! The handlers of an agent and the state that they share ([`Host`]).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use neuron_durable::{EffectScope, LocalDurableContext, RunOutcome, StepRecord, ToolRequest};
use neuron_tool::ToolRegistry;
use neuron_types::{
    Durability, DurableAgent, DurableContext, DurableError, Provider, Start, ToolContext, ToolDyn,
    ToolEffect, ToolError, ToolInvocation, ToolOutput, ToolSet, UsageMeter,
};
use restate_sdk::context::Context;
use restate_sdk::errors::{HandlerResult, TerminalError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::context::Beginning;
use crate::continuation::Resume;
use crate::inbox::{self, Signal};
use crate::journal::Journal;
use crate::outcome::outcome;
use crate::payload::{Stored, Written};
use crate::register::{Ended, Register};
use crate::running::RunningTools;
use crate::{RestateDurableContext, RestateOptions, failure, invocation_id};

/// The state that the handlers of an agent share.
pub(crate) struct Host<P> {
    /// Name of the service.
    pub(crate) name: String,
    pub(crate) provider: Arc<P>,
    pub(crate) tools: Arc<ToolRegistry>,
    pub(crate) agent: Box<dyn DurableAgent>,
    pub(crate) options: Arc<RestateOptions>,
    /// The tool calls that run in this process.
    pub(crate) running: RunningTools,
}

/// The input of the handler `run`, which is the user's text or a [`Start`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Asked {
    Text(String),
    Start(Start),
}

/// A signal with the id of the run that receives it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Addressed {
    run_id: String,
    #[serde(flatten)]
    signal: Signal,
}

impl<P: Provider> Host<P> {
    /// Handles `run`. Starts a run and returns its outcome.
    pub(crate) async fn run(
        &self,
        ctx: Context<'_>,
        asked: Asked,
    ) -> HandlerResult<Stored<RunOutcome>> {
        let start = match asked {
            Asked::Text(text) => text.into(),
            Asked::Start(start) => start,
        };
        self.drive(&ctx, Beginning::Run, start).await
    }

    /// Handles `resume`. Continues a run in this invocation and returns the run's outcome.
    pub(crate) async fn resume(
        &self,
        ctx: Context<'_>,
        resume: Resume,
    ) -> HandlerResult<Stored<RunOutcome>> {
        let Resume { run_id, start, signals, agent_version } = resume;
        self.drive(&ctx, Beginning::Resume { run_id, signals, agent_version }, start).await
    }

    /// Drives a run until this invocation ends. If the run continues as new, waits for the outcome of the next
    /// invocation.
    async fn drive(
        &self,
        ctx: &Context<'_>,
        beginning: Beginning,
        start: Start,
    ) -> HandlerResult<Stored<RunOutcome>> {
        let mut context = match RestateDurableContext::open(ctx, self, beginning).await {
            Ok(context) => context,
            Err(DurableError::Cancelled) => return Err(failure::cancelled().into()),
            Err(error) => return Err(error.to_string().into()),
        };
        context.effects.restart(&start);
        context.scope = EffectScope::starting(&start, &context.run_id);
        let run_id = context.run_id.clone();
        let (fate, continuation) = (context.journal.fate(), context.continuation());
        let (register, clock) = (context.journal.register().cloned(), context.journal.clock());
        let run = self.agent.run(start, Durability::new(context));
        // The panic becomes an error. Otherwise Restate would only see a closed connection.
        let Ok(result) = AssertUnwindSafe(run).catch_unwind().await else {
            return Err("the agent panicked".into());
        };
        if let Some(outcome) = continuation.outcome(ctx).await {
            return Ok(outcome?);
        }
        // A retryable error: Restate shows the text and retries until the code fits the journal.
        if let Some(text) = fate.differs() {
            return Err(text.into());
        }
        let result = match result {
            Err(_) if fate.is_cancelled() => Err(failure::cancelled()),
            result => Ok(outcome(run_id, result)),
        };
        if let Some(register) = register {
            register.end(ctx, Ended::new(clock.now(), result.as_ref().ok())).await;
        }
        result.map(Stored).map_err(Into::into)
    }

    /// Sends a signal to a run.
    ///
    /// # Errors
    ///
    /// Status 410 if the run has ended. Status 400 if `run_id` is not the id of an invocation.
    pub(crate) async fn signal(
        &self,
        ctx: &Context<'_>,
        Addressed { run_id, signal }: Addressed,
    ) -> HandlerResult<()> {
        if !invocation_id::is_one(&run_id, ctx.invocation_id()) {
            let text = format!("`{run_id}` is not the id of a run");
            return Err(TerminalError::new_with_code(failure::INVALID, text).into());
        }
        let register = Register::new(&self.name, &run_id);
        if let Some(reason) = register.refusal(ctx, &signal.name).await? {
            return Err(TerminalError::new_with_code(failure::ENDED, reason).into());
        }
        inbox::send(ctx, &run_id, signal);
        Ok(())
    }

    /// Runs a tool that is not an agent, and returns the record of its result. If the call must not run twice and an
    /// earlier attempt began it, the outcome is unknown and the tool does not run.
    pub(crate) async fn tool(
        &self,
        ctx: Context<'_>,
        request: ToolRequest,
    ) -> HandlerResult<Written> {
        // Restate retries the call until a deployed version has all agents around it.
        let place = request.place(Some(&*self.agent), self.tools.clone())?;
        let journal = Journal::new(&ctx);
        let mut code = failure::FAILED;
        let ran = match self.may_run(&journal, &request).await {
            Ok(true) => journal.step("tool", self.run_tool(&request, place)).await,
            Ok(false) => {
                code = failure::OUTCOME_UNKNOWN;
                // If the earlier attempt has ended, the journal has its result, and `unknown` is not polled.
                journal.step("tool", self.unknown(&request)).await
            }
            Err(error) => Err(error),
        };
        match ran {
            Ok(json) => Ok(Written(json)),
            Err(DurableError::Cancelled) => Err(failure::call_cancelled().into()),
            Err(DurableError::ActivityFailed(text)) => {
                Err(TerminalError::new_with_code(code, text).into())
            }
            Err(error) => Err(TerminalError::new_with_code(code, error.to_string()).into()),
        }
    }

    /// Returns `true` if the call may run now.
    ///
    /// Returns `false` if the call must not run twice and an earlier attempt has begun the call.
    async fn may_run(
        &self,
        journal: &Journal<'_, '_>,
        request: &ToolRequest,
    ) -> Result<bool, DurableError> {
        if request.effect != ToolEffect::AtMostOnce {
            return Ok(true);
        }
        // If an earlier attempt has begun the call, the step returns the id of that attempt.
        let mine = Uuid::new_v4().simple().to_string();
        let intent = async { Ok(format!("\"{mine}\"").into_bytes()) };
        let written = journal.step("begin", intent).await?;
        Ok(written == format!("\"{mine}\""))
    }

    /// Runs a tool that is an agent. The agent's steps are steps of this invocation.
    pub(crate) async fn sub_agent(
        &self,
        ctx: Context<'_>,
        request: ToolRequest,
    ) -> HandlerResult<Written> {
        // Restate cancels this invocation directly. A cancellation token would drop the agent's steps, and the agent's
        // own tool calls would not be cancelled.
        let (tools, tool_ctx) = request.place(Some(&*self.agent), self.tools.clone())?;
        let tool = tools.get(&request.call.name);
        let Some(agent) = tool.as_deref().and_then(ToolDyn::agent) else {
            let text = format!(
                "`{}` was an agent when the call began, and is not an agent any more",
                request.call.name
            );
            return Err(text.into());
        };
        let Some(scope) = request.effect_scope.clone() else {
            return Err("the call of an agent has no scope of its effect keys".into());
        };
        let opened = RestateDurableContext::open(&ctx, self, Beginning::Nested).await;
        let mut context = match opened {
            Ok(context) => context.nested(agent),
            Err(DurableError::Cancelled) => return Err(failure::call_cancelled().into()),
            Err(error) => return Err(error.to_string().into()),
        };
        context.effects.restart_call(&tool_ctx);
        context.scope = scope;
        let fate = context.journal.fate();
        let run = tools.call(&request.call, &tool_ctx, Some(Durability::new(context)));
        let Ok(result) = AssertUnwindSafe(run).catch_unwind().await else {
            return Err("the agent panicked".into());
        };
        // Middleware may have converted these errors to a result, so they are read from `fate`.
        if let Some(text) = fate.differs() {
            return Err(text.into());
        }
        if fate.is_cancelled() {
            return Err(failure::call_cancelled().into());
        }
        if let Some(text) = fate.failed() {
            return Err(TerminalError::new_with_code(failure::FAILED, text).into());
        }
        Ok(Written(self.record(&request, result, &tool_ctx.usage)?.into()))
    }

    /// Runs a tool, and returns the record of its result as JSON.
    async fn run_tool(
        &self,
        request: &ToolRequest,
        (tools, mut ctx): (Arc<dyn ToolSet>, ToolContext),
    ) -> Result<Vec<u8>, DurableError> {
        let (token, _entered) = self.running.enter(&request.idempotency_key);
        ctx.cancellation_token = token;
        let meter = ctx.usage.clone();
        let invocation = ToolInvocation::new(request.call.clone(), ctx).with_effect(request.effect);
        let local = LocalDurableContext::new(self.provider.clone(), tools);
        let mut ran = local.execute_tools(vec![invocation], request.options.clone()).await;
        let result = match ran.pop() {
            Some(Ok(output)) => Ok(output),
            Some(Err(DurableError::Tool(error))) => Err(error),
            Some(Err(error)) => Err(ToolError::ExecutionFailed(error.to_string().into())),
            None => Err(ToolError::ExecutionFailed("the tool gave no result".into())),
        };
        self.record(request, result, &meter)
    }

    /// Returns the record for a tool call whose outcome is unknown, or the error that ends the run.
    async fn unknown(&self, request: &ToolRequest) -> Result<Vec<u8>, DurableError> {
        let output = self.options.durable.unknown_outcome.of_call(&request.call.name)?;
        self.record(request, Ok(output), &UsageMeter::default())
    }

    /// Serialises the record of a tool call.
    fn record(
        &self,
        request: &ToolRequest,
        result: Result<ToolOutput, ToolError>,
        meter: &UsageMeter,
    ) -> Result<Vec<u8>, DurableError> {
        let (tool, limit) = (&request.call.name, self.options.record_limit());
        let now = chrono::Utc::now();
        let mut record = StepRecord::of_tool(result, meter.total(), now);
        record.call = request.effect_scope.as_ref().map(|_| request.call_id());
        record.to_json_within(tool, limit)
    }
}
