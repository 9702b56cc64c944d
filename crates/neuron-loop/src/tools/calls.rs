//! Runs a group of tool calls singly, concurrently, or in a durable engine, and records their results.

use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_types::clock::sleep;
use neuron_types::{
    CallScope, Durability, DurableContext, DurableError, HookEvent, LoopError, PendingApproval,
    PendingCall, ToolContext, ToolError, ToolInvocation, ToolOutput, ToolUseRef,
};
use tokio_util::sync::CancellationToken;

use super::batch::{BatchRun, DecidedCall};
use super::decide::Verdict;
use super::execute::{CallOutcome, Work, call_context, settle};
use crate::parts::{Reader, check, or_cancelled};

impl<'l, 'a> BatchRun<'l, 'a> {
    /// Marks a call as begun, and counts it for the limits and the budget. Some calls were counted before and are not
    /// counted again. These calls started while their response was streaming, or contain an agent that resumes after an
    /// approval.
    pub(super) fn start(&mut self, item: &DecidedCall<'_, '_>) {
        let is_counted = matches!(item.verdict, Verdict::Resume(_));
        // FAULT an early call is counted in the batch too: without `&& item.early.is_none()`
        if !is_counted && item.early.is_none() {
            self.tally.count_tool_call();
            if let Some(reservation) = &mut self.reservation {
                // FAULT a tool call costs no budget: without the line
                reservation.spend_tool_call();
            }
        }
        self.calls.begin(item.index);
    }

    /// Returns the context for a tool call. If an agent inside the call resumes after an approval, the context contains
    /// the approval decisions.
    fn context_of(
        &self,
        item: &DecidedCall<'_, '_>,
        token: &CancellationToken,
    ) -> Box<ToolContext> {
        let place = (self.attempt, item.index);
        let mut ctx = call_context(self.turn, place, item.call(), token);
        // FAULT an agent inside a call does not hear of the decision: without the statement
        if let Verdict::Resume(resumed) = &item.verdict {
            ctx.extensions.insert((**resumed).clone());
        }
        ctx
    }

    /// Marks a call as begun in this process. Returns its work, which may already be running.
    fn begin(&mut self, item: &mut DecidedCall<'l, 'a>, token: &CancellationToken) -> Work<'a> {
        self.start(item);
        item.early.take().unwrap_or_else(|| Work::Ready(self.context_of(item, token)))
    }

    /// Runs one tool call on its own, and records its result.
    pub(super) async fn run_one(
        &mut self,
        item: &mut DecidedCall<'l, 'a>,
    ) -> Result<(), LoopError> {
        check(self.turn.token)?;
        let work = self.begin(item, self.turn.token);
        let ran = pin!(work.end(self.turn, &self.tools, item.call())).await;
        self.record(item, ran).await
    }

    /// Runs calls concurrently, and records the result of each call when it ends. After an error no further call
    /// begins. The running calls are then cancelled, and have the time
    /// [`LoopConfig::tool_grace`](neuron_types::LoopConfig::tool_grace) to end.
    pub(super) async fn run_together(
        &mut self,
        run: &mut [DecidedCall<'l, 'a>],
    ) -> Result<(), LoopError> {
        check(self.turn.token)?;
        let token = self.turn.token.child_token();
        let mut waiting = run.iter_mut();
        // FAULT more tools at once than may be: `most_tools_at_once()` -> `most_tools_at_once().saturating_add(1)`
        let most = self.turn.config().most_tools_at_once();
        let mut running = FuturesUnordered::new();
        let mut ended = Ok(());
        while ended.is_ok() {
            for item in waiting.by_ref().take(most - running.len()) {
                let (work, token) = (self.begin(item, &token), token.clone());
                let (turn, tools) = (self.turn, self.tools.clone());
                running.push(async move {
                    // No call begins once a concurrent call has failed.
                    // FAULT a call begins beside one that failed: `!token.is_cancelled()` -> `true`
                    let begins = !token.is_cancelled();
                    let work = work.end(turn, &tools, item.call());
                    let ran = if begins { Some(work.await) } else { None };
                    (&*item, ran)
                });
            }
            let Some((item, ran)) = running.next().await else {
                return Ok(());
            };
            ended = self.end(item, ran).await;
        }
        // FAULT the tools beside a failed one are not told: without the line
        token.cancel();
        // FAULT no grace beside a failed call: `self.turn.config().tool_grace` -> `std::time::Duration::ZERO`
        let mut grace = pin!(sleep(self.turn.config().tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                // FAULT what ends within the grace period is forgotten: `self.end(item, ran).await.ok()` -> `{}`
                Either::Left((Some((item, ran)), _)) => self.end(item, ran).await.ok(),
                _ => break,
            };
        }
        ended
    }

    /// Records the end of a call. `ran` is `None` if the call was cancelled before it began.
    async fn end(
        &mut self,
        item: &DecidedCall<'_, '_>,
        ran: Option<CallOutcome>,
    ) -> Result<(), LoopError> {
        match ran {
            Some(ran) => self.record(item, ran).await,
            None => {
                // A call that resumes a paused agent began in an earlier run.
                // FAULT a paused agent whose turn did not come begins anew: `!matches!(item.verdict,
                //     Verdict::Resume(_))` -> `true`
                //     (approval::waiting_nested_agent_beside_a_failed_call_ends_once_and_is_interrupted)
                if !matches!(item.verdict, Verdict::Resume(_)) {
                    self.calls.never_began(item.index);
                }
                Err(LoopError::Cancelled)
            }
        }
    }

    /// Runs calls in a durable engine. The engine receives all calls together, so that it can choose an order that a
    /// replay can repeat.
    pub(super) async fn run_durably(
        &mut self,
        engine: &Durability<'_>,
        run: &[DecidedCall<'_, '_>],
    ) -> Result<(), LoopError> {
        check(self.turn.token)?;
        let token = self.turn.token.child_token();
        // If this future is dropped, the guard cancels work that the tools started elsewhere.
        let guard = token.clone().drop_guard();
        let mut batch = Vec::with_capacity(run.len());
        let mut calls = Vec::with_capacity(run.len());
        for item in run {
            // FAULT calls of an engine do not count: without the line
            self.start(item);
            let scope = CallScope::new(self.turn.open_call(item.call()));
            let ctx = self.context_of(item, &token);
            // FAULT what tools took is lost when calls are handed to an engine: `ctx.usage.clone()` ->
            //     `neuron_types::UsageMeter::default()`
            let meter = self.turn.metered(ctx.usage.clone());
            let tool = self.tools.get(item.call().name);
            let invocation = ToolInvocation::new(item.call().to_call(), *ctx);
            batch.push(invocation.of_tool(tool.as_deref()).with_scope(scope.clone()));
            calls.push((item, scope, meter));
        }
        let options = self.turn.config().tool_activity.clone();
        let work = async { Ok(engine.execute_tools(batch, options).await) };
        let ran = or_cancelled(self.turn.token, work).await;
        guard.disarm();
        let mut ran = ran.unwrap_or_default().into_iter();
        let mut first_error = None;
        for (item, scope, meter) in calls {
            drop(meter);
            let ran = match ran.next() {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => settle(&self.turn, &self.tools, error.into()),
                // FAULT a result that an engine lacks is an empty one: `Err(self.missing_result())` ->
                //     `Ok(ToolOutput::default())`
                None => Err(self.missing_result()),
            };
            scope.end((&ran).into());
            let recorded = self.record(item, ran).await;
            // FAULT a batch of an engine goes on after a failure: `or(` -> `and(`
            first_error = first_error.or(recorded.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Returns the error of a call for which the engine returned no result.
    fn missing_result(&self) -> LoopError {
        let text = "the durable context returned fewer results than there were calls";
        let missing = LoopError::Durable(DurableError::ActivityFailed(text.into()));
        check(self.turn.token).err().unwrap_or(missing)
    }

    /// Records the end of a call. If an agent inside the call waits for an approval, the call waits too.
    pub(super) async fn record(
        &mut self,
        item: &DecidedCall<'_, '_>,
        ran: CallOutcome,
    ) -> Result<(), LoopError> {
        match ran {
            Ok(output) => self.finish(item, output).await,
            Err(error) => Box::pin(self.fail(item, error)).await,
        }
    }

    /// Records the error of a tool call, or makes the call wait if an agent inside it needs an approval.
    async fn fail(
        &mut self,
        item: &DecidedCall<'_, '_>,
        error: LoopError,
    ) -> Result<(), LoopError> {
        if let LoopError::Tool(ToolError::ApprovalRequired(nested)) = error {
            let call = item.call().to_call();
            let mut pending = PendingCall::new(call, "an agent inside the call waits");
            pending.nested = Some(nested);
            return self.hold(item, pending).await;
        }
        self.told.push(item.index);
        self.calls.fail(item.index, &error);
        self.turn.notify_failed(item.call(), &error).await;
        Err(error)
    }

    /// Records the result of a call, and reports it to the reader and the hooks.
    pub(super) async fn finish(
        &mut self,
        item: &DecidedCall<'_, '_>,
        output: ToolOutput,
    ) -> Result<(), LoopError> {
        if self.turn.hooks().is_empty() && matches!(self.turn.reader, Reader::Nobody) {
            self.calls.finish(item.index, output);
            return Ok(());
        }
        self.told.push(item.index);
        // FAULT a finished result is lost when the run is dropped: without the line, `self.turn.in_call(id)` -> `let told
        //     = self.turn.in_call(id)`, `.map(drop)` -> `.map(drop); self.calls.finish(item.index, output); told`
        self.calls.finish(item.index, output.clone());
        let ToolUseRef { id, name, .. } = item.call();
        self.turn.reader.send_result(id, name, &output).await;
        let event = HookEvent::PostToolExecution { tool_name: name, output: &output };
        // FAULT a tool runs after a hook ended the run: `.map(drop)` -> `.ok(); Ok(())`
        // FAULT a lost event after a tool: the line -> `Ok(drop(event))`
        self.turn.in_call(id).dispatch(event).await.map(drop)
    }

    /// Makes a call wait for an approval. For the hooks, the call ends with an `ApprovalRequired` error. After the
    /// decision, the hooks are asked about the call again.
    pub(super) async fn hold(
        &mut self,
        item: &DecidedCall<'_, '_>,
        pending: PendingCall,
    ) -> Result<(), LoopError> {
        // FAULT the end of a call that waits is told twice: without the line
        //     (approval::waiting_nested_agent_beside_a_failed_call_ends_once_and_is_interrupted)
        self.told.push(item.index);
        let run = &self.tally.run;
        let error = match &pending.nested {
            Some(nested) => ToolError::ApprovalRequired(nested.clone()).into(),
            None => {
                let calls = vec![pending.clone().at(&run.id, run.number, run.turn, item.index)];
                let mut state = PendingApproval::new(&*self.turn.run.run_id, calls);
                (state.run_number, state.turn) = (run.number, run.turn);
                LoopError::ApprovalRequired(Box::new(state))
            }
        };
        self.calls.hold(item.index, pending);
        // FAULT a call that waits has no end for the hooks: without the line
        self.turn.notify_failed(item.call(), &error).await;
        Ok(())
    }
}
