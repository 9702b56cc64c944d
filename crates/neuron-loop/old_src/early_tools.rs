//! Tools that only read, started while the answer that calls them still streams.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use neuron_tool::ToolRegistry;
use neuron_types::{
    ContextStrategy, DurableContext, HookEvent, LoopError, Provider, StreamEvent, ToolCall,
    ToolContext, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};

use crate::call_context::CallContexts;
use crate::limits;
use crate::permits::{Permit, Permits, has_invalid_arguments};
use crate::tool_batch::Ran;
use crate::tool_execution::{Failures, in_scope};
use crate::{AgentLoop, Budget};

/// The calls of one answer that were started before it was whole. They are the first of it.
#[derive(Default)]
pub(crate) struct EarlyTools {
    calls: Vec<EarlyCall>,
    /// How many calls the answer has begun.
    begun: usize,
    /// Whether a call has come that must wait for the whole answer, so that all after it do.
    closed: bool,
    /// What counts the calls that were started for nothing, when this is dropped.
    budget: Option<Budget>,
}

struct EarlyCall {
    call: ToolCall,
    outcome: Outcomes,
    /// Whether the batch has it, which tells the hooks of its end.
    taken: bool,
}

enum Outcomes {
    /// A hook does not want it to run.
    Skipped(ToolOutput),
    /// Never locked: the mutex only makes it `Sync`.
    Running(Mutex<WasmBoxedFuture<'static, Ran>>),
    Ended(Ran),
    /// The batch waits for it.
    Gone,
}

impl EarlyTools {
    /// Waits for `work` while the calls run.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        for early in &mut self.calls {
            if let Outcomes::Running(work) = &mut early.outcome {
                let work = work.get_mut().unwrap_or_else(PoisonError::into_inner);
                if let Poll::Ready(ran) = work.as_mut().poll(cx) {
                    early.outcome = Outcomes::Ended(ran);
                }
            }
        }
    }

    /// How many of the calls that no batch took over were started.
    pub(crate) fn count_given_up(&self) -> usize {
        let is_given_up =
            |early: &&EarlyCall| !early.taken && !matches!(early.outcome, Outcomes::Skipped(_));
        self.calls.iter().filter(is_given_up).count()
    }

    fn running(&self) -> usize {
        self.calls.iter().filter(|early| matches!(early.outcome, Outcomes::Running(_))).count()
    }

    /// Takes a call over into the batch: what the hooks said of it, if it is one of these. A call that
    /// came otherwise in the whole answer than in the stream is none.
    pub(crate) fn take_over(
        &mut self,
        index: usize,
        call: &ToolCall,
    ) -> Option<Option<ToolOutput>> {
        let early = self.calls.get_mut(index).filter(|early| early.call == *call)?;
        early.taken = true;
        match &early.outcome {
            Outcomes::Skipped(output) => Some(Some(output.clone())),
            _ => Some(None),
        }
    }

    /// Takes what a call that was taken over ends with.
    pub(crate) fn work_of(&mut self, index: usize) -> Option<WasmBoxedFuture<'static, Ran>> {
        let early = self.calls.get_mut(index).filter(|early| early.taken)?;
        match std::mem::replace(&mut early.outcome, Outcomes::Gone) {
            Outcomes::Running(work) => {
                Some(work.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            Outcomes::Ended(ran) => Some(Box::pin(std::future::ready(ran))),
            Outcomes::Skipped(_) | Outcomes::Gone => None,
        }
    }
}

impl Drop for EarlyTools {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.charge_tool_calls(self.count_given_up());
        }
    }
}

impl fmt::Debug for EarlyTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyTools").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Starts the call that an event of the stream completes, if it may start before the answer is
    /// whole.
    pub(crate) async fn start_early(
        &self,
        event: Option<&StreamEvent>,
        early: &mut EarlyTools,
        ctx: &ToolContext,
    ) -> Result<(), LoopError> {
        let call = match event {
            _ if !self.config.early_tools => return Ok(()),
            Some(StreamEvent::ToolUseStart { .. }) => {
                early.begun = early.begun.saturating_add(1);
                return Ok(());
            }
            Some(StreamEvent::ToolUse { id, name, input }) => {
                ToolCall { id: id.clone(), name: name.clone(), input: input.clone() }
            }
            _ => return Ok(()),
        };
        if !self.may_start_early(&call, early) {
            early.closed = true;
            return Ok(());
        }
        let hooks = self.hooks().in_call(&call.id);
        let event = HookEvent::PreToolExecution { tool_name: &call.name, input: &call.input };
        let outcome = match hooks.ask(event).await {
            Ok(Some(reason)) => Outcomes::Skipped(ToolOutput::text(reason)),
            Ok(None) => Outcomes::Running(Mutex::new(self.begin_early(&call, early, ctx))),
            Err(error) => {
                let event = HookEvent::ToolError { tool_name: &call.name, error: &error };
                hooks.tell(event).await;
                return Err(error);
            }
        };
        early.budget.clone_from(&self.run.budget);
        early.calls.push(EarlyCall { call, outcome, taken: false });
        Ok(())
    }

    /// Whether a call may start before the answer is whole: it and all before it only read, and nothing
    /// forbids it.
    fn may_start_early(&self, call: &ToolCall, early: &EarlyTools) -> bool {
        let tools = self.offered_tools();
        let Some(tool) = tools.get(&call.name) else {
            return false;
        };
        let begun_before = early.begun.saturating_sub(1);
        let most = match self.config.parallel_tool_execution {
            true => self.config.most_tools_at_once(),
            false => 1,
        };
        let pauses = self.config.pauses(self.durability.is_some());
        let rules = Permits::new(self.policy.as_ref(), tools, &self.config, pauses);
        let count = early.calls.len().saturating_add(1);
        !early.closed
            && begun_before <= early.calls.len()
            && tool.effect() == ToolEffect::Pure
            && !tool.runs_alone()
            && early.running() < most
            && !early.calls.iter().any(|other| other.call.id == call.id)
            && !has_invalid_arguments(call, tools.definition(&call.name))
            && limits::before_tools(&self.config, &self.run, count).is_ok()
            && self.run.reserve_tool_calls(count).is_ok()
            && matches!(rules.permit(call), Permit::Run)
    }

    /// The call, on its own: it outlives the borrow of the agent for the stream.
    fn begin_early(
        &self,
        call: &ToolCall,
        early: &EarlyTools,
        ctx: &ToolContext,
    ) -> WasmBoxedFuture<'static, Ran> {
        let contexts = CallContexts {
            outer: ctx,
            extensions: &self.run.extensions,
            run_id: &self.run.id,
            run_number: self.run.number,
            turn: self.run.turn,
            attempt: self.run.attempt(),
        };
        let outer = ctx.clone();
        let ctx = contexts.of(early.calls.len(), call, &ctx.cancellation_token);
        let tools = self.offered_tools().clone();
        let scopes = self.hooks().open_call(call);
        let (call, failures) =
            (call.clone(), Failures::of(&self.config, self.durability.is_some()));
        let meter = self.run.tool_meter.clone();
        Box::pin(
            async move { in_scope(&tools, &call, ctx, (&outer, &meter), scopes, failures).await },
        )
    }

    /// The tools that the model was offered.
    fn offered_tools(&self) -> &ToolRegistry {
        self.run.offered.as_ref().unwrap_or(&self.tools)
    }

    /// Gives up the calls that no batch took over: the answer broke off, or its calls must not run.
    /// They count as started.
    pub(crate) async fn give_up(&mut self, mut early: EarlyTools, error: Option<&LoopError>) {
        self.run.count_given_up(&early);
        let cancelled = LoopError::Tool(ToolError::Cancelled);
        for EarlyCall { outcome, .. } in &mut early.calls {
            if let Outcomes::Running(_) = outcome {
                // It stops here.
                *outcome = Outcomes::Gone;
            }
        }
        self.count_tool_usage();
        for EarlyCall { call, taken, .. } in &early.calls {
            if !*taken {
                let error = error.unwrap_or(&cancelled);
                let event = HookEvent::ToolError { tool_name: &call.name, error };
                self.hooks().in_call(&call.id).tell(event).await;
            }
        }
    }
}
