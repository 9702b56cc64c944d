//! Running the tool calls of one answer: in which order and beside which others, and what hooks and readers are told.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_types::{
    CallScope, Durability, DurableContext, DurableError, HookEvent, LoopError, PendingApproval,
    PendingCall, Reservation, ToolCall, ToolContext, ToolError, ToolInvocation, ToolOutput,
};
use tokio_util::sync::CancellationToken;

use super::Prefetch;
use super::context::{CallPlace, call_context};
use super::decide::{Verdict, decide, invalid_arguments};
use super::execute::{Ran, execute, outcome, settle};
use super::metered::{CallMeter, count_tool_usage};
use crate::ledger::{Call, CallState, Ledger, is_invalid_json};
use crate::parts::{Env, Hooks, Offered, check, or_cancelled, wait};
use crate::settings::ToolErrorPolicy;

/// Runs the calls of the ledger's batch that can begin.
///
/// # Errors
///
/// The first error of a call or a hook. Calls after it do not begin, calls beside it are cancelled, and the batch is
/// closed. If the run lacks room for calls on which a person decided, or was cancelled before, they wait on.
pub(crate) async fn run_batch<'a>(
    env: Env<'a>,
    ledger: &mut Ledger,
    prefetch: &mut Prefetch<'a>,
) -> Result<(), LoopError> {
    let hidden = ledger.batch().map_or(&[][..], |batch| &batch.hidden);
    let hidden = if hidden.is_empty() { Arc::default() } else { hidden.into() };
    let turn = ledger.tally.run.turn;
    let mut run = BatchRun {
        env,
        hooks: env.hooks(turn),
        tools: env.offered(hidden),
        turn,
        attempt: prefetch.attempt().unwrap_or_else(|| ledger.tally.run.attempt()),
        reservation: None,
        ledger,
        told: Vec::new(),
        prefetch,
    };
    let open = run.ledger.open_calls();
    if !open.is_empty()
        && let Err(error) = run.reserve(&open)
    {
        if !run.ledger.undecide() {
            run.ledger.close_batch_because_of(&error);
        }
        return Err(error);
    }
    let mut ran = run.run_all(&open).await;
    count_tool_usage(&env, run.ledger);
    if ran.is_ok() && run.ledger.batch().is_some_and(|batch| !batch.waits()) {
        let is_known = |name: &str| run.tools.definition(name).is_some();
        ran = run.ledger.count_failing(env.config().tool_retry_limit, is_known);
    }
    if let Err(error) = &ran {
        run.ledger.close_batch_because_of(error);
    }
    ran
}

struct BatchRun<'l, 'a> {
    env: Env<'a>,
    hooks: Hooks<'a>,
    tools: Offered<'a>,
    turn: usize,
    attempt: usize,
    /// Room in the budget for all calls.
    reservation: Option<Reservation>,
    ledger: &'l mut Ledger,
    /// The calls of which the hooks know that they ended.
    told: Vec<usize>,
    prefetch: &'l mut Prefetch<'a>,
}

/// A call on which hooks and policy decided.
struct Asked {
    index: usize,
    call: ToolCall,
    verdict: Verdict,
}

impl<'a> BatchRun<'_, 'a> {
    /// Checks whether the calls may run, and reserves room for them.
    fn reserve(&mut self, open: &[usize]) -> Result<(), LoopError> {
        check(self.env.token)?;
        let starts = self.ledger.count_of_starts().saturating_sub(self.prefetch.started());
        self.ledger.tally.run.check_before_tools(self.env.config(), starts)?;
        if self.env.config().tool_errors == ToolErrorPolicy::EndRun {
            self.check_arguments(open)?;
        }
        if let Some(budget) = &self.env.run.budget {
            self.reservation = Some(budget.reserve_tool_calls(starts)?);
        }
        Ok(())
    }

    /// Fails with the first call whose arguments are not JSON.
    fn check_arguments(&mut self, open: &[usize]) -> Result<(), LoopError> {
        let invalid = open.iter().find_map(|&index| {
            let call = self.ledger.call(index)?;
            let definition = self.tools.definition(call.made.name);
            let is_invalid = is_invalid_json(call.made.input, definition)
                && matches!(call.state, CallState::Open);
            is_invalid.then(|| (index, call.to_call()))
        });
        let Some((index, call)) = invalid else {
            return Ok(());
        };
        let error = LoopError::Tool(invalid_arguments(&call));
        self.ledger.fail_call(index, &error);
        Err(error)
    }

    /// Runs the calls in order, in groups of which all run at the same time.
    async fn run_all(&mut self, open: &[usize]) -> Result<(), LoopError> {
        let config = self.env.config();
        // An engine runs all calls of a group at once.
        let most = match (config.parallel_tool_execution, self.env.parts.durability) {
            (false, _) => 1,
            (true, Some(_)) => config.most_tools_at_once(),
            (true, None) => usize::MAX,
        };
        let mut rest = open;
        while let Some((first, _)) = rest.split_first() {
            let together = match self.runs_alone(*first) {
                true => 1,
                false => {
                    rest.iter().take(most).take_while(|index| !self.runs_alone(**index)).count()
                }
            };
            let (group, others) = rest.split_at(together);
            rest = others;
            Box::pin(self.run_group(group)).await?;
        }
        Ok(())
    }

    fn runs_alone(&self, index: usize) -> bool {
        let call = self.ledger.call(index);
        call.and_then(|call| self.tools.get(call.made.name)).is_some_and(|tool| tool.runs_alone())
    }

    /// Runs a group. The hooks hear of the end of each call about which they were asked.
    async fn run_group(&mut self, group: &[usize]) -> Result<(), LoopError> {
        let mut asked = Vec::with_capacity(group.len());
        let ran = self.ask_and_run(group, &mut asked).await;
        if let Err(error) = &ran {
            for item in asked.iter().filter(|item| !self.told.contains(&item.index)) {
                self.hooks.tell_failed(&item.call, error).await;
            }
        }
        ran
    }

    /// Asks about the calls of a group, in order, and then runs them: here, or in the durable engine.
    async fn ask_and_run(
        &mut self,
        group: &[usize],
        asked: &mut Vec<Asked>,
    ) -> Result<(), LoopError> {
        check(self.env.token)?;
        for &index in group {
            let Some(call) = self.ledger.call(index).map(Call::to_call) else {
                continue;
            };
            // The hooks are asked about it in any case.
            asked.push(Asked { index, call, verdict: Verdict::Run });
            if let Some(item) = asked.last_mut() {
                item.verdict = self.decide(index, &item.call).await?;
            }
        }
        let runs = |item: &Asked| matches!(item.verdict, Verdict::Run | Verdict::Resume(_));
        let answered: Vec<Asked> = asked.extract_if(.., |item| !runs(item)).collect();
        let mut first_error = None;
        for item in answered {
            if let Verdict::Refuse(_) = item.verdict {
                self.start(&item);
            }
            let told = match item.verdict {
                Verdict::Answer(output) => self.finish(item.index, &item.call, output).await,
                Verdict::Refuse(error) => {
                    let ran = settle(&self.env, &self.tools, error.into());
                    self.record(item.index, &item.call, ran).await
                }
                Verdict::Wait(pending) => self.hold(item.index, &item.call, *pending).await,
                Verdict::Run | Verdict::Resume(_) => Ok(()),
            };
            first_error = first_error.or(told.err());
        }
        match (first_error, self.env.parts.durability, &asked[..]) {
            (Some(error), ..) => Err(error),
            (None, _, []) => Ok(()),
            (None, Some(engine), run) => Box::pin(self.run_durably(engine, run)).await,
            (None, None, [one]) => Box::pin(self.run_one(one)).await,
            (None, None, run) => Box::pin(self.run_together(run)).await,
        }
    }

    /// Asks hooks and policy about a call, unless a prefetch did.
    async fn decide(&mut self, index: usize, call: &ToolCall) -> Result<Verdict, LoopError> {
        if let Some(verdict) = self.prefetch.take_over(index, call) {
            return Ok(verdict);
        }
        let asked = self.ledger.call(index).and_then(|call| match call.state {
            CallState::Asked(asked) => Some((**asked).clone()),
            _ => None,
        });
        decide(&self.env, self.hooks, &self.tools, call, asked).await
    }

    /// Counts a call as started. A prefetched call, or one that goes on, was counted before.
    fn start(&mut self, item: &Asked) {
        let is_counted = matches!(item.verdict, Verdict::Resume(_));
        if !is_counted && !self.prefetch.has_started(item.index) {
            self.ledger.tally.count_tool_call();
            if let Some(reservation) = &mut self.reservation {
                reservation.spend_tool_call();
            }
        }
        self.ledger.begin_call(item.index);
    }

    fn context_of(&self, item: &Asked, token: &CancellationToken) -> ToolContext {
        let place = CallPlace { turn: self.turn, attempt: self.attempt, index: item.index };
        let mut ctx = call_context(&self.env, place, &item.call, token);
        if let Verdict::Resume(resumed) = &item.verdict {
            ctx.extensions.insert((**resumed).clone());
        }
        ctx
    }

    /// The work of a call in this process.
    fn work<'w>(
        &mut self,
        item: &'w Asked,
        token: &CancellationToken,
    ) -> impl Future<Output = Ran> + use<'w, 'a>
    where
        'a: 'w,
    {
        let early = self.prefetch.work_of(item.index);
        let ctx = early.is_none().then(|| self.context_of(item, token));
        let (env, hooks, tools) = (self.env, self.hooks, self.tools.clone());
        async move {
            match (early, ctx) {
                (Some(work), _) => work.await,
                (None, ctx) => {
                    let scopes = hooks.open_call(&item.call);
                    execute(env, tools, &item.call, ctx.unwrap_or_default(), scopes).await
                }
            }
        }
    }

    async fn run_one(&mut self, item: &Asked) -> Result<(), LoopError> {
        check(self.env.token)?;
        self.start(item);
        let ran = self.work(item, self.env.token).await;
        self.record(item.index, &item.call, ran).await
    }

    /// Runs calls at the same time, and records each as it ends. After an error no other begins, and calls that run have
    /// until the grace period ends.
    async fn run_together(&mut self, run: &[Asked]) -> Result<(), LoopError> {
        check(self.env.token)?;
        let token = self.env.token.child_token();
        let mut waiting = run.iter();
        let most = self.env.config().most_tools_at_once();
        let mut running = FuturesUnordered::new();
        let mut ended = Ok(());
        while ended.is_ok() {
            for item in waiting.by_ref().take(most - running.len()) {
                self.start(item);
                let (work, token) = (self.work(item, &token), token.clone());
                running.push(async move {
                    // Nothing begins once a call beside it has failed.
                    let begins = !token.is_cancelled();
                    (item, if begins { Some(work.await) } else { None })
                });
            }
            let Some((item, ran)) = running.next().await else {
                return Ok(());
            };
            ended = self.end(item, ran).await;
        }
        token.cancel();
        let mut grace = pin!(wait(self.env.config().tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                Either::Left((Some((item, ran)), _)) => self.end(item, ran).await.ok(),
                _ => break,
            };
        }
        ended
    }

    /// Records the end of a call, if it began.
    async fn end(&mut self, item: &Asked, ran: Option<Ran>) -> Result<(), LoopError> {
        match ran {
            Some(ran) => self.record(item.index, &item.call, ran).await,
            None => {
                self.ledger.never_began(item.index);
                Err(LoopError::Cancelled)
            }
        }
    }

    /// Runs calls in a durable engine: all handed over at once, so that it can run them in the order that is safe for
    /// its replay.
    async fn run_durably(
        &mut self,
        engine: &Durability<'_>,
        run: &[Asked],
    ) -> Result<(), LoopError> {
        check(self.env.token)?;
        let token = self.env.token.child_token();
        // Dropped while the engine runs them, it tells work that the tools started elsewhere.
        let guard = token.clone().drop_guard();
        let mut batch = Vec::with_capacity(run.len());
        let mut calls = Vec::with_capacity(run.len());
        for item in run {
            self.start(item);
            let scope = CallScope::new(self.hooks.open_call(&item.call));
            let ctx = self.context_of(item, &token);
            let meter = CallMeter { call: ctx.usage.clone(), run: &self.env.run.tool_meter };
            let tool = self.tools.get(&item.call.name);
            let effect = tool.map(|tool| tool.effect()).unwrap_or_default();
            let invocation = ToolInvocation::new(item.call.clone(), ctx).with_effect(effect);
            batch.push(invocation.with_scope(scope.clone()));
            calls.push((item, scope, meter));
        }
        let options = self.env.config().tool_activity.clone();
        let work = async { Ok(engine.execute_tools(batch, options).await) };
        let ran = or_cancelled(self.env.token, work).await;
        guard.disarm();
        let mut ran = ran.unwrap_or_default().into_iter();
        let mut first_error = None;
        for (item, scope, meter) in calls {
            drop(meter);
            let ran = match ran.next() {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => settle(&self.env, &self.tools, error.into()),
                None => Err(self.missing_result()),
            };
            scope.end(outcome(&ran));
            let recorded = self.record(item.index, &item.call, ran).await;
            first_error = first_error.or(recorded.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    fn missing_result(&self) -> LoopError {
        let text = "the durable context returned fewer results than there were calls";
        let missing = LoopError::Durable(DurableError::ActivityFailed(text.into()));
        check(self.env.token).err().unwrap_or(missing)
    }

    /// Records the end of a call. A call in which an agent waits for an approval waits too.
    async fn record(&mut self, index: usize, call: &ToolCall, ran: Ran) -> Result<(), LoopError> {
        let error = match ran {
            Ok(output) => return self.finish(index, call, output).await,
            Err(error) => error,
        };
        if let LoopError::Tool(ToolError::ApprovalRequired(nested)) = error {
            let mut pending = PendingCall::new(call.clone(), "an agent inside the call waits");
            pending.nested = Some(nested);
            return self.hold(index, call, pending).await;
        }
        self.told.push(index);
        self.ledger.fail_call(index, &error);
        self.hooks.tell_failed(call, &error).await;
        Err(error)
    }

    /// Takes the result of a call, and tells reader and hooks.
    async fn finish(
        &mut self,
        index: usize,
        call: &ToolCall,
        output: ToolOutput,
    ) -> Result<(), LoopError> {
        self.told.push(index);
        if self.hooks.hooks.is_empty() && self.env.reader.is_nobody() {
            self.ledger.finish_call(index, output);
            return Ok(());
        }
        self.ledger.finish_call(index, output.clone());
        self.env.reader.tell_result(&call.id, &call.name, &output).await;
        let event = HookEvent::PostToolExecution { tool_name: &call.name, output: &output };
        self.hooks.in_call(&call.id).ask(event).await.map(drop)
    }

    /// Lets a call wait for a person. For the hooks it has ended, and begins again once it is decided.
    async fn hold(
        &mut self,
        index: usize,
        call: &ToolCall,
        pending: PendingCall,
    ) -> Result<(), LoopError> {
        self.told.push(index);
        let error = match &pending.nested {
            Some(nested) => ToolError::ApprovalRequired(nested.clone()).into(),
            None => {
                let state = PendingApproval::new(&*self.env.run.run_id, vec![pending.clone()]);
                LoopError::ApprovalRequired(Box::new(state))
            }
        };
        self.ledger.hold_call(index, pending);
        self.hooks.tell_failed(call, &error).await;
        Ok(())
    }
}
