//! Early tool calls, which start while their response is still streaming. Only tools with [`ToolEffect::Pure`] start
//! early.
//!
//! Hooks and policy decide on an early call, and limits count it, as for any other call. When the response is complete,
//! its batch of calls reuses the decision and the result of the early call.

use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use neuron_types::{LoopError, StreamEvent, ToolCall, ToolEffect, ToolError, ToolUseRef};

use super::decide::{Calling, Verdict};
use super::execute::Work;
use crate::ledger::{Calls, Counters};
use crate::lock::lock;
use crate::parts::{CallableTools, Turn, check};

/// The first calls of one response, if hooks and policy decided on them while the response was still streaming.
#[derive(Default)]
pub(crate) struct Prefetch<'a> {
    /// The calls in the order of the response. `None` if the call was handed over to the batch, which runs all calls of
    /// the complete response. The batch then notifies the hooks of the end of the call.
    calls: Vec<Option<Prefetched<'a>>>,
    /// Number of calls whose first event has arrived.
    begun: usize,
    /// Set if no further call may start while the response is streaming, because an earlier call must wait for the
    /// complete response.
    is_closed: bool,
    /// Number of earlier responses of the turn that were discarded after tool calls had started. This number is part of
    /// the idempotency keys.
    attempt: usize,
}

/// A tool call on which hooks and policy decided while its response was still streaming.
pub(super) struct Prefetched<'a> {
    call: ToolCall,
    pub(super) verdict: Verdict,
    /// The work of the call. `None` if the call was not started, and so was not counted.
    pub(super) work: Option<Work<'a>>,
}

impl<'a> Prefetch<'a> {
    /// Creates an empty set of calls. If `is_closed` is set, no call starts before the response is complete.
    pub(crate) fn new(is_closed: bool) -> Self {
        Self { is_closed, ..Self::default() }
    }

    /// Polls `work` to its end, and polls the calls that started early at the same time.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // FAULT early calls stand still while the answer arrives: without the line
            //     (early_tools::pure_tools_start_during_the_stream_with_unchanged_results)
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Polls the running calls, and keeps the results of finished calls.
    fn poll(&mut self, cx: &mut Context<'_>) {
        for work in self.calls.iter_mut().flatten().filter_map(|call| call.work.as_mut()) {
            if let Work::Running(running) = work
                && let running = running.get_mut().unwrap_or_else(PoisonError::into_inner)
                && let Poll::Ready(ran) = running.as_mut().poll(cx)
            {
                *work = Work::Ended(Box::new(ran));
            }
        }
    }

    /// Starts the tool call that this stream event completes, if the call may start while its response is streaming.
    /// Ignores other events.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`] if a hook ends the run.
    pub(crate) async fn take_event(
        &mut self,
        turn: Turn<'a>,
        tools: &CallableTools<'a>,
        event: &StreamEvent,
        tally: &Mutex<Counters<'_>>,
    ) -> Result<(), LoopError> {
        let call = match event {
            StreamEvent::ToolUseStart { .. } => {
                self.begun = self.begun.saturating_add(1);
                return Ok(());
            }
            StreamEvent::ToolUse { id, name, input } => {
                ToolCall { id: id.clone(), name: name.clone(), input: input.clone() }
            }
            _ => return Ok(()),
        };
        let budget = turn.run.budget.as_ref();
        let room = budget.map(|budget| budget.reserve_tool_calls(1)).transpose();
        let has_room = lock(tally).run.check_before_tools(turn.config(), 1).is_ok();
        let (true, Ok(room)) = (has_room && self.may_start(turn, tools, &call), room) else {
            // FAULT an early call overtakes another: the line -> `self.begun = 0;`
            self.is_closed = true;
            return Ok(());
        };
        let calling = Calling { turn, tools, call: call.view() };
        let decided = calling.decide(None).await;
        // A hook may have waited until the run was cancelled.
        // FAULT an early call of a cancelled run counts: `check(turn.token)` -> `Ok(())`
        //     (early_tools::early_call_of_a_run_that_its_hook_cancels_does_not_count)
        let verdict = match decided.and_then(|verdict| check(turn.token).map(|()| verdict)) {
            Ok(verdict) => verdict,
            Err(error) => {
                // FAULT an early call has no end when a hook ends the run at it: without the line
                turn.notify_failed(call.view(), &error).await;
                return Err(error);
            }
        };
        let work = match &verdict {
            // FAULT a call starts early that the policy forbids: `Verdict::Run` -> `Verdict::Run | Verdict::Answer(_)`
            Verdict::Run => {
                // FAULT an early call takes no room in the budget: the line -> `drop(room);`
                //     (early_tools::exhausted_budget_starts_nothing_early)
                room.into_iter().for_each(|mut room| room.spend_tool_call());
                // The call counts even if the response is discarded later.
                let tally = &mut *lock(tally);
                if self.started() == 0 {
                    self.attempt = tally.run.attempt();
                    tally.begin_attempt();
                }
                // FAULT an early call is not counted: without the line
                tally.count_tool_call();
                let ctx = calling.context((self.attempt, self.calls.len()), turn.token);
                let (tools, call) = (tools.clone(), call.clone());
                let work = async move {
                    Calling { turn, tools: &tools, call: call.view() }.execute(ctx).await
                };
                Some(Work::Running(Mutex::new(Box::pin(work))))
            }
            Verdict::Answer(_) => None,
            Verdict::Resume(_) | Verdict::Wait(_) | Verdict::Refuse(_) => {
                self.is_closed = true;
                None
            }
        };
        self.calls.push(Some(Prefetched { call, verdict, work }));
        // A call that counts must run, also if the response is discarded before the next poll.
        // FAULT an early call counts that never runs: without the statement
        //     (early_tools::early_calls_that_count_have_started)
        self.beside(ready(())).await;
        Ok(())
    }

    /// Returns `true` if the call may start while its response is still streaming. For example, its tool must be pure,
    /// and all earlier calls of the response must already be decided. The limit of concurrent calls must not be
    /// reached.
    fn may_start(&self, turn: Turn<'_>, tools: &CallableTools<'_>, call: &ToolCall) -> bool {
        let Some(tool) = tools.get(&call.name) else {
            return false;
        };
        let config = turn.config();
        let most = if config.parallel_tool_execution { config.most_tools_at_once() } else { 1 };
        let is_running = |call: &&Prefetched<'_>| matches!(call.work, Some(Work::Running(_)));
        !self.is_closed
            // FAULT an early call overtakes one that is not whole: without the line
            && self.begun.saturating_sub(1) <= self.calls.len()
            // FAULT a tool that changes something starts early: without the line
            && tool.effect() == ToolEffect::Pure
            && !tools.needs_whole_response(&call.name)
            // FAULT a tool that runs alone starts early: without the line
            && !tool.runs_alone()
            // FAULT more early calls at once than may be: `<` -> `<=`
            && self.calls.iter().flatten().filter(is_running).count() < most
            // FAULT two early calls have one id: without the line
            //     (regressions::calls_with_the_same_id_start_at_most_once_and_count)
            && !self.calls.iter().flatten().any(|other| other.call.id == call.id)
            && !tools.is_invalid(call.view())
            && turn.output.is_none_or(|output| output.tool_name() != Some(&call.name))
    }

    /// Returns the number of earlier responses of the turn that were discarded after tool calls had started. This
    /// number is part of the idempotency keys.
    ///
    /// Returns `None` if no tool call started while the current response was streaming. Also returns `None` if a
    /// started call differs from the call in the complete response.
    pub(super) fn attempt(&self, calls: &Calls<'_>) -> Option<usize> {
        let started = self.started();
        (started > 0 && started == self.taken_by(calls)).then_some(self.attempt)
    }

    /// Returns the number of calls that were started and counted.
    fn started(&self) -> usize {
        self.calls.iter().flatten().filter(|call| call.work.is_some()).count()
    }

    /// Returns the number of calls that started before the response was complete and that are also in the complete
    /// response.
    pub(super) fn taken_by(&self, calls: &Calls<'_>) -> usize {
        let is_made = |(index, early): &(usize, &Option<Prefetched<'_>>)| {
            let early = early.as_ref().filter(|early| early.work.is_some());
            early.is_some_and(|early| calls.made(*index) == Some(early.call.view()))
        };
        self.calls.iter().enumerate().filter(is_made).count()
    }

    /// Removes and returns the call at `index`, so that the batch of the complete response can reuse it. Returns `None`
    /// if nothing was decided on the call during streaming, or if it differs from `call`.
    pub(super) fn hand_over(
        &mut self,
        index: usize,
        call: ToolUseRef<'_>,
    ) -> Option<Prefetched<'a>> {
        // FAULT an early call runs again: `prefetched.call.view() == call` -> `false`
        self.calls.get_mut(index)?.take_if(|prefetched| prefetched.call.view() == call)
    }

    /// Stops all calls that started while their response was streaming. Calls that were handed over to a batch
    /// continue. Notifies the hooks that the stopped calls failed with `error`. Used if the response is discarded or
    /// its calls must not run.
    pub(crate) async fn give_up(&mut self, turn: Turn<'_>, error: Option<&LoopError>) {
        let calls = std::mem::take(self).calls;
        if !calls.is_empty() {
            Box::pin(async move {
                let cancelled = LoopError::Tool(ToolError::Cancelled);
                for Prefetched { call, work, .. } in calls.into_iter().flatten() {
                    drop(work);
                    // FAULT the end of an early call is not told: without the line
                    turn.notify_failed(call.view(), error.unwrap_or(&cancelled)).await;
                }
            })
            .await;
        }
    }
}
