//! Executing a tool call, in this process or in a durable engine, and what its error means.

use neuron_tool::ToolRegistry;
use neuron_types::{
    CallScope, DurableContext, DurableError, LoopError, Outcome, Scopes, ToolCall, ToolContext,
    ToolError, ToolInvocation, ToolOutput, UsageMeter,
};
use tokio_util::sync::CancellationToken;

use crate::cancel::{self, or_cancelled};
use crate::permits::{self, Permit};
use crate::sink::Sink;
use crate::tool_batch::{Ran, ToolBatch};
use crate::tool_results::ToolResults;
use crate::usage::CallMeter;
use crate::{LoopConfig, ToolErrorPolicy};

impl<D: DurableContext, S: Sink> ToolBatch<'_, D, S> {
    /// Runs one call in this process, or waits for it if it was started early.
    pub(crate) async fn execute(&self, index: usize, call: &ToolCall, ctx: ToolContext) -> Ran {
        let early = self.early().work_of(index);
        if let Some(work) = early {
            return work.await;
        }
        let scopes = self.hooks.open_call(call);
        let failures = Failures::of(self.config, self.durability.is_some());
        let refusing = self.is_refused(index).then(|| permits::refusing(self.tools, &call.name));
        let tools = refusing.as_ref().unwrap_or(self.tools);
        in_scope(tools, call, ctx, (self.ctx, self.meter), scopes, failures).await
    }

    fn is_refused(&self, index: usize) -> bool {
        matches!(self.permits.get(index), Some(Permit::Refused))
    }

    /// Runs calls in a durable engine: all handed over at once, so that it can run them in the
    /// order that is safe for its replay.
    pub(crate) async fn run_durably(
        &self,
        durability: &D,
        run: &[usize],
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Option<LoopError> {
        let calls = results.calls();
        for &index in run {
            self.start(index, results, started);
        }
        let chosen: Vec<(usize, &ToolCall)> =
            run.iter().filter_map(|&index| Some((index, calls.get(index)?))).collect();
        let token = self.ctx.cancellation_token.child_token();
        // Dropped while the engine runs them, it tells whatever the tools started elsewhere.
        let guard = token.clone().drop_guard();
        let mut batch = Vec::with_capacity(chosen.len());
        let mut meters = Vec::with_capacity(chosen.len());
        let mut scopes = Vec::with_capacity(chosen.len());
        // A tool that the model was not offered is none, whatever the engine has. Nor is a call for the
        // engine that the tool refuses and nobody was asked about.
        let refused = |index: usize, call: &ToolCall| {
            let tool = self.tools.get(&call.name);
            match tool {
                None if self.is_restricted => Some(ToolError::NotFound(call.name.clone())),
                Some(tool) if self.is_refused(index) => {
                    let why = || ToolError::PermissionDenied(permits::NOT_ASKED.into());
                    Some(tool.check_input(&call.input).err().unwrap_or_else(why))
                }
                _ => None,
            }
        };
        let mut errors = Vec::with_capacity(chosen.len());
        for &(index, call) in &chosen {
            let scope = CallScope::new(self.hooks.open_call(call));
            let error = refused(index, call);
            if error.is_none() {
                let ctx = self.call_context(index, call, &token);
                meters.push(ctx.usage.clone());
                let tool = self.tools.get(&call.name);
                let effect = tool.map(|tool| tool.effect()).unwrap_or_default();
                let invocation = ToolInvocation::new(call.clone(), ctx).with_effect(effect);
                batch.push(invocation.with_scope(scope.clone()));
            }
            errors.push(error);
            scopes.push(scope);
        }
        let metered = meters.iter().map(|call| CallMeter { call, run: self.meter });
        let metered: Vec<_> = metered.collect();
        let work = async {
            match batch.is_empty() {
                true => Ok(Vec::new()),
                false => {
                    Ok(durability.execute_tools(batch, self.config.tool_activity.clone()).await)
                }
            }
        };
        let ran = or_cancelled(self.ctx, work).await;
        guard.disarm();
        drop(metered);
        let mut ran = match ran {
            Ok(ran) => ran.into_iter(),
            Err(_) => Vec::new().into_iter(),
        };
        let missing = || match cancel::check(self.ctx) {
            Err(cancelled) => cancelled,
            Ok(()) => LoopError::Durable(DurableError::ActivityFailed(
                "the durable context returned fewer results than there were calls".into(),
            )),
        };
        let mut first_error = None;
        for (((index, _), scope), error) in chosen.into_iter().zip(scopes).zip(errors) {
            let ran = match error {
                Some(error) => self.settle(error.into()),
                None => match ran.next() {
                    Some(Ok(output)) => Ok(output),
                    Some(Err(error)) => self.settle(error.into()),
                    None => Err(missing()),
                },
            };
            scope.end(outcome(&ran));
            let recorded = self.record(index, ran, results).await;
            first_error = first_error.or(recorded.err());
        }
        first_error
    }

    fn settle(&self, error: LoopError) -> Ran {
        Failures::of(self.config, self.durability.is_some()).settle(error, self.ctx, self.tools)
    }

    pub(crate) fn call_context(
        &self,
        index: usize,
        call: &ToolCall,
        cancellation: &CancellationToken,
    ) -> ToolContext {
        let mut ctx = self.contexts.of(index, call, cancellation);
        if let Some(Permit::Resume(resumed)) = self.permits.get(index) {
            ctx.extensions.insert(resumed.clone());
        }
        ctx
    }
}

/// Runs a call inside its scopes, until it ends or the run is cancelled. `meter` counts what it takes.
pub(crate) async fn in_scope(
    tools: &ToolRegistry,
    call: &ToolCall,
    ctx: ToolContext,
    (run, meter): (&ToolContext, &UsageMeter),
    mut scopes: Scopes,
    failures: Failures,
) -> Ran {
    // Dropped while the call runs, it tells whatever the tool started elsewhere.
    let guard = ctx.cancellation_token.clone().drop_guard();
    let _metered = CallMeter { call: &ctx.usage, run: meter };
    let work = async { Ok(tools.execute_call(call, &ctx).await?) };
    let ran = scopes.run(or_cancelled(run, work)).await;
    let ran = ran.or_else(|error| failures.settle(error, run, tools));
    scopes.end(outcome(&ran));
    guard.disarm();
    ran
}

/// What a call's error means, by the configuration.
#[derive(Clone, Copy)]
pub(crate) struct Failures {
    policy: ToolErrorPolicy,
    pauses: bool,
}

impl Failures {
    pub(crate) fn of(config: &LoopConfig, is_durable: bool) -> Self {
        Self { policy: config.tool_errors, pauses: config.pauses(is_durable) }
    }

    /// A hint for the model is a result, and so is every failure if the configuration says so; a tool
    /// that stops because the run was cancelled, or because a hook ended the agent inside it, is not
    /// what ends the run.
    pub(crate) fn settle(self, error: LoopError, ctx: &ToolContext, tools: &ToolRegistry) -> Ran {
        match error {
            LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
            LoopError::Tool(ToolError::HookTerminated(reason)) => {
                Err(LoopError::HookTerminated(reason))
            }
            LoopError::Tool(ToolError::Cancelled) if ctx.cancellation_token.is_cancelled() => {
                Err(LoopError::Cancelled)
            }
            LoopError::Tool(ToolError::ApprovalRequired(_)) if !self.pauses => {
                Ok(permits::denial("an agent inside the call needs an approval"))
            }
            LoopError::Tool(error) => match self.policy {
                ToolErrorPolicy::ReturnToModel => returned(error, tools),
                ToolErrorPolicy::EndRun => Err(error.into()),
            },
            error => Err(error),
        }
    }
}

/// A failure that the model sees instead of ending the run.
fn returned(error: ToolError, tools: &ToolRegistry) -> Ran {
    match error {
        ToolError::NotFound(name) => {
            let names: Vec<&str> = tools.names().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Ok(ToolOutput::error(format!("tool not found: {name}; the tools are: {known}")))
        }
        // Others must answer for it.
        ToolError::ApprovalRequired(_) => Err(error.into()),
        error => Ok(ToolOutput::error(error.to_string())),
    }
}

fn outcome(ran: &Ran) -> Outcome<'_> {
    match ran {
        Ok(output) => Outcome::ToolOutput(output),
        Err(error) => Outcome::Error(error),
    }
}
