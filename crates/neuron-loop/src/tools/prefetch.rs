//! Tools that only read, started while the answer that calls them still streams.
//!
//! A prefetched call is asked about, decided on and counted like any other. The batch reuses the verdict and the
//! result.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use neuron_types::{
    LoopError, StreamEvent, ToolCall, ToolContext, ToolEffect, ToolError, ToolUseRef,
    WasmBoxedFuture,
};

use super::decide::{Verdict, decide};
use super::execute::{Ran, call_context, execute};
use crate::ledger::{Calls, RunRecord, Tally, is_invalid_json};
use crate::lock::lock;
use crate::parts::{Env, Hooks, Offered};

/// The calls of one answer that were decided on before it was whole. They are the first of the answer.
#[derive(Default)]
pub(crate) struct Prefetch<'a> {
    /// `None` for a call that the batch has taken over. The batch tells the hooks of its end.
    calls: Vec<Option<Prefetched<'a>>>,
    /// Number of calls that the answer has begun.
    begun: usize,
    /// True if a call has come that must wait for the whole answer, so that all calls after it wait too.
    is_closed: bool,
    /// Number of times that prefetched calls of the turn were given up before this answer.
    attempt: usize,
}

/// A call that was decided on.
pub(super) struct Prefetched<'a> {
    call: ToolCall,
    pub(super) verdict: Verdict,
    /// `None` if it was not started, and not counted.
    pub(super) work: Option<Work<'a>>,
}

/// The work of a call that was started.
pub(super) enum Work<'a> {
    /// It begins when its end is waited for.
    Ready(Box<ToolContext>),
    /// Never locked. The mutex makes it `Sync`.
    Running(Mutex<WasmBoxedFuture<'a, Ran>>),
    Ended(Box<Ran>),
}

impl Work<'_> {
    pub(super) async fn end(
        self,
        hooks: Hooks<'_>,
        tools: &Offered<'_>,
        call: ToolUseRef<'_>,
    ) -> Ran {
        match self {
            Self::Ready(ctx) => pin!(execute(hooks, tools, call, ctx)).await,
            Self::Running(work) => work.into_inner().unwrap_or_else(PoisonError::into_inner).await,
            Self::Ended(ran) => *ran,
        }
    }
}

impl<'a> Prefetch<'a> {
    /// Creates an empty set of calls. If it `is_closed`, no call starts before the response is whole.
    pub(crate) fn new(is_closed: bool) -> Self {
        Self { is_closed, ..Self::default() }
    }

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
        for work in self.calls.iter_mut().flatten().filter_map(|call| call.work.as_mut()) {
            if let Work::Running(running) = work
                && let running = running.get_mut().unwrap_or_else(PoisonError::into_inner)
                && let Poll::Ready(ran) = running.as_mut().poll(cx)
            {
                *work = Work::Ended(Box::new(ran));
            }
        }
    }

    fn running(&self) -> usize {
        let is_running = |call: &&Prefetched<'_>| matches!(call.work, Some(Work::Running(_)));
        self.calls.iter().flatten().filter(is_running).count()
    }

    /// Starts the call that an event of the stream completes, if it may start before the answer is whole.
    ///
    /// # Errors
    ///
    /// [`LoopError::HookTerminated`].
    pub(crate) async fn take_event(
        &mut self,
        env: &'a Env<'a>,
        hidden: &Arc<[String]>,
        event: &StreamEvent,
        tally: &Mutex<&mut Tally>,
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
        let tools = env.offered(hidden.clone());
        let budget = env.run.budget.as_ref();
        let room = budget.map(|budget| budget.reserve_tool_calls(1)).transpose();
        let has_room = lock(tally).run.check_before_tools(env.config(), 1).is_ok();
        let (true, Ok(room)) = (has_room && self.may_start(env, &tools, &call), room) else {
            self.is_closed = true;
            return Ok(());
        };
        let turn = lock(tally).run.turn;
        let hooks = env.hooks(turn);
        let verdict = match decide(hooks, &tools, call.view(), None).await {
            Ok(verdict) => verdict,
            Err(error) => {
                hooks.tell_failed(call.view(), &error).await;
                return Err(error);
            }
        };
        let work = match &verdict {
            Verdict::Run => {
                room.into_iter().for_each(|mut room| room.spend_tool_call());
                let place = (turn, self.count(&mut lock(tally).run), self.calls.len());
                let ctx = call_context(env, place, call.view(), env.token);
                let call = call.clone();
                let work = async move { execute(hooks, &tools, call.view(), ctx).await };
                Some(Work::Running(Mutex::new(Box::pin(work))))
            }
            Verdict::Answer(_) => None,
            Verdict::Resume(_) | Verdict::Wait(_) | Verdict::Refuse(_) => {
                self.is_closed = true;
                None
            }
        };
        self.calls.push(Some(Prefetched { call, verdict, work }));
        Ok(())
    }

    /// Returns whether the call and all calls before it only read.
    fn may_start(&self, env: &Env<'_>, tools: &Offered<'_>, call: &ToolCall) -> bool {
        let Some(tool) = tools.get(&call.name) else {
            return false;
        };
        let config = env.config();
        let most = if config.parallel_tool_execution { config.most_tools_at_once() } else { 1 };
        !self.is_closed
            && self.begun.saturating_sub(1) <= self.calls.len()
            && tool.effect() == ToolEffect::Pure
            && !tool.runs_alone()
            && self.running() < most
            && !self.calls.iter().flatten().any(|other| other.call.id == call.id)
            && !is_invalid_json(&call.input, || tools.definition(&call.name))
            && env.output.is_none_or(|output| output.tool_name() != Some(&call.name))
    }

    /// Counts a call that starts, also if the answer breaks off. Returns the attempt that it belongs to.
    fn count(&mut self, run: &mut RunRecord) -> usize {
        if self.started() == 0 {
            self.attempt = run.attempt();
            run.begin_attempt();
        }
        run.count_tool_call();
        self.attempt
    }

    /// Returns the number of times that prefetched calls of the turn were given up before this answer. `None` if no
    /// call has begun, or the answer has one otherwise.
    pub(super) fn attempt(&self, calls: &Calls<'_>) -> Option<usize> {
        let started = self.started();
        (started > 0 && started == self.taken_by(calls)).then_some(self.attempt)
    }

    /// Number of calls that were counted as started.
    fn started(&self) -> usize {
        self.calls.iter().flatten().filter(|call| call.work.is_some()).count()
    }

    /// Number of calls that were counted as started, and that the answer has too.
    pub(super) fn taken_by(&self, calls: &Calls<'_>) -> usize {
        let is_made = |(index, early): &(usize, &Option<Prefetched<'_>>)| {
            let early = early.as_ref().filter(|early| early.work.is_some());
            early.is_some_and(|early| calls.made(*index) == Some(early.call.view()))
        };
        self.calls.iter().enumerate().filter(is_made).count()
    }

    /// Hands a call over to the batch. A call that came otherwise in the whole answer than in the stream was not
    /// prefetched.
    pub(super) fn hand_over(
        &mut self,
        index: usize,
        call: ToolUseRef<'_>,
    ) -> Option<Prefetched<'a>> {
        self.calls.get_mut(index)?.take_if(|prefetched| prefetched.call.view() == call)
    }

    /// Stops the calls that no batch took over, and tells the hooks. The answer broke off, or its calls must not run.
    pub(crate) async fn give_up(&mut self, env: &Env<'_>, turn: usize, error: Option<&LoopError>) {
        let calls = std::mem::take(self).calls;
        if !calls.is_empty() {
            Box::pin(tell_given_up(calls, env.hooks(turn), error)).await;
        }
    }
}

async fn tell_given_up(
    calls: Vec<Option<Prefetched<'_>>>,
    hooks: Hooks<'_>,
    error: Option<&LoopError>,
) {
    let cancelled = LoopError::Tool(ToolError::Cancelled);
    for Prefetched { call, work, .. } in calls.into_iter().flatten() {
        drop(work);
        hooks.tell_failed(call.view(), error.unwrap_or(&cancelled)).await;
    }
}
