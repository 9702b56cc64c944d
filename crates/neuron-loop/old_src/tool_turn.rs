//! The tool calls of an answer within a run: what is to happen with each, running them, and the pause
//! until a person has decided on some.

use std::sync::{Mutex, PoisonError};

use neuron_types::{
    ApprovalDecisions, ApprovalError, ContextStrategy, DurableContext, LoopError, PendingApproval,
    PendingCall, Provider, StopReason, ToolCall, ToolContext,
};

use crate::AgentLoop;
use crate::approval::{self, Decided};
use crate::budget::{Reservation, StartedCalls};
use crate::call_context::CallContexts;
use crate::cancel;
use crate::engine::Step;
use crate::hooks::Hooks;
use crate::limits;
use crate::permits::Permits;
use crate::sink::Sink;
use crate::tool_batch::ToolBatch;
use crate::tool_results::ToolResults;
use crate::usage::ToolUsage;

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Runs the tool calls of an answer, or those of them on which a person decided and for which there
    /// is room.
    pub(crate) async fn run_tools<S: Sink>(
        &mut self,
        calls: Vec<ToolCall>,
        decided: Option<(Decided, Option<Reservation>)>,
        stop_reason: StopReason,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<Step, LoopError> {
        let hooks = Hooks::new(
            &self.hooks,
            &self.run.id,
            self.run.turn,
            self.provider.info(),
            &self.request.model,
            &self.request.tools,
            self.durability.as_ref(),
        )
        .of_agent(&self.config.name, self.run.within.as_ref());
        let tools = self.run.offered.as_ref().unwrap_or(&self.tools);
        let pauses = self.config.pauses(self.durability.is_some());
        let rules = Permits::new(self.policy.as_ref(), tools, &self.config, pauses);
        let messages = &mut self.request.messages;
        let mut results = match &decided {
            None => ToolResults::open(messages, &calls),
            Some((decided, _)) => ToolResults::reopen(messages, &calls, &decided.calls),
        };
        let others_run = match (&decided, &mut self.run.output) {
            (None, Some(output)) => output.take_calls(&calls, &stop_reason, &mut results),
            _ => Ok(true),
        };
        let permits = others_run.and_then(|others_run| {
            let open = if others_run { results.open_calls() } else { Vec::new() };
            if open.is_empty() {
                return Ok((Vec::new(), None));
            }
            if let Some((decided, reservation)) = decided {
                return Ok((decided.permits(&calls, &rules, &mut results), reservation));
            }
            cancel::check(ctx)?;
            limits::before_tools(&self.config, &self.run, open.len())?;
            let permits = rules.of_answer(&calls, &open).map_err(|(index, error)| {
                let error = LoopError::Tool(error);
                results.fail(index, &error);
                error
            })?;
            let reservation = self.run.reserve_tool_calls(open.len())?;
            Ok((permits, reservation))
        });
        let attempt = self.run.attempt();
        let ran = match permits {
            Ok((permits, _)) if permits.is_empty() => Ok(()),
            Ok((permits, reservation)) => {
                let started = StartedCalls::new(&mut self.run.tool_calls, reservation);
                let (meter, outer) = (&self.run.tool_meter, &self.run.meter);
                let (usage, tool_usage) = (&mut self.run.usage, &mut self.run.tool_usage);
                let _used =
                    ToolUsage::new(meter, outer, [usage, tool_usage, &mut self.total_usage]);
                let early = Mutex::new(std::mem::take(&mut self.run.early));
                let batch = ToolBatch {
                    tools,
                    is_restricted: self.run.offered.is_some(),
                    hooks,
                    durability: self.durability.as_ref(),
                    config: &self.config,
                    ctx,
                    contexts: CallContexts {
                        outer: ctx,
                        extensions: &self.run.extensions,
                        run_id: &self.run.id,
                        run_number: self.run.number,
                        turn: self.run.turn,
                        attempt,
                    },
                    meter,
                    sink,
                    permits: &permits,
                    early: &early,
                };
                let ran = batch.run(&mut results, started.count).await;
                self.run.early = early.into_inner().unwrap_or_else(PoisonError::into_inner);
                ran
            }
            Err(error) => Err(error),
        };
        let held = results.held();
        let (turn, retries) = (self.run.turn, self.config.tool_retry_limit);
        let ran = ran.and_then(|()| self.run.failing.count(turn, results.ran(), tools, retries));
        if let Err(error) = ran {
            results.because_of(&error);
            return Err(error);
        }
        let is_final = held.is_empty()
            && self.run.output.as_mut().is_some_and(|output| output.settle(&mut results));
        drop(results);
        if !held.is_empty() {
            return Err(self.pause(held));
        }
        Ok(match is_final {
            true => Step::Final(self.result(stop_reason)),
            false => Step::Tools { calls },
        })
    }

    /// Stops the run until a person has decided on the calls.
    fn pause(&mut self, calls: Vec<PendingCall>) -> LoopError {
        #[cfg(feature = "signed-approvals")]
        let calls = self.signed(calls);
        self.pending = Some(approval::waiting(&self.run, calls));
        match self.pending_state() {
            Ok(pending) => LoopError::ApprovalRequired(Box::new(pending)),
            Err(error) => error.into(),
        }
    }

    /// The state of the run that waits, with its conversation.
    pub(crate) fn pending_state(&self) -> Result<PendingApproval, ApprovalError> {
        let mut pending = self.pending.clone().ok_or(ApprovalError::NothingPending)?;
        pending.messages.clone_from(&self.request.messages);
        Ok(pending)
    }

    /// Runs the calls on which a person decided. If there is no room for them they wait on, unless the
    /// run lands softly.
    pub(crate) async fn run_decided<S: Sink>(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<Step, LoopError> {
        let starts = approval::count_of_starts(self.pending_calls(), &decisions);
        let room = limits::before_tools(&self.config, &self.run, starts)
            .and_then(|()| self.run.reserve_tool_calls(starts));
        let reservation = match room {
            Ok(reservation) => reservation,
            Err(error) => {
                if self.limit_to_land_on(&error).is_some() {
                    self.give_up_pending(&error);
                }
                return Err(error);
            }
        };
        let Some(PendingApproval { calls, .. }) = self.pending.take() else {
            return Err(ApprovalError::NothingPending.into());
        };
        let made = approval::last_calls(&self.request.messages);
        let decided = Decided { calls, decisions, made };
        let (calls, decided) = (decided.edited(), Some((decided, reservation)));
        let step = self.run_tools(calls, decided, StopReason::ToolUse, ctx, sink).await?;
        self.stop_if_asked(&step, StopReason::ToolUse);
        Ok(step)
    }

    /// Closes the calls that wait: they do not run any more.
    fn give_up_pending(&mut self, error: &LoopError) {
        if let Some(pending) = self.pending.take() {
            let made = approval::last_calls(&self.request.messages);
            ToolResults::reopen(&mut self.request.messages, &made, &pending.calls)
                .because_of(error);
        }
    }
}
