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
    let (turn, attempt) = (ledger.tally.run.turn, prefetch.attempt());
    let mut run = BatchRun {
        env,
        hooks: env.hooks(turn),
        tools: env.offered(hidden),
        turn,
        attempt: attempt.unwrap_or_else(|| ledger.tally.run.attempt()),
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
    let ran = run.run_all(open).await;
    count_tool_usage(&env, run.ledger);
    let is_whole = run.ledger.batch().is_some_and(|batch| !batch.waits());
    let ran = ran.and_then(|()| if is_whole { run.count_failing() } else { Ok(()) });
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

/// A call that is about to run.
struct Runnable {
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
        for &index in open {
            let invalid = self.ledger.call(index).filter(|call| {
                let definition = self.tools.definition(call.made.name);
                is_invalid_json(call.made.input, definition)
                    && matches!(call.state, CallState::Open)
            });
            if let Some(call) = invalid.map(Call::to_call) {
                let error = LoopError::Tool(invalid_arguments(&call));
                self.ledger.fail_call(index, &error);
                return Err(error);
            }
        }
        Ok(())
    }

    fn count_failing(&mut self) -> Result<(), LoopError> {
        let retries = self.env.config().tool_retry_limit;
        let tools = &self.tools;
        self.ledger.count_failing(retries, |name| tools.definition(name).is_some())
    }

    async fn run_all(&mut self, open: Vec<usize>) -> Result<(), LoopError> {
        if !self.env.config().parallel_tool_execution {
            for index in open {
                Box::pin(self.run_group(&[index])).await?;
            }
            return Ok(());
        }
        for group in self.groups(&open) {
            Box::pin(self.run_group(&group)).await?;
        }
        Ok(())
    }

    /// The calls in order, in groups that run at the same time.
    fn groups(&self, open: &[usize]) -> Vec<Vec<usize>> {
        // An engine runs all calls of a group at once.
        let most = match self.env.parts.durability {
            Some(_) => self.env.config().most_tools_at_once(),
            None => usize::MAX,
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut is_open = false;
        for &index in open {
            let tool = self.ledger.call(index).and_then(|call| self.tools.get(call.made.name));
            let alone = tool.is_some_and(|tool| tool.runs_alone());
            match groups.last_mut() {
                Some(group) if is_open && !alone && group.len() < most => group.push(index),
                _ => groups.push(vec![index]),
            }
            is_open = !alone;
        }
        groups
    }

    /// Asks about the calls of a group, in order, and then runs them: here, or in the durable engine.
    async fn run_group(&mut self, group: &[usize]) -> Result<(), LoopError> {
        check(self.env.token)?;
        let mut asked = Vec::with_capacity(group.len());
        for &index in group {
            let Some(call) = self.ledger.call(index).map(Call::to_call) else {
                continue;
            };
            match self.decide(index, &call).await {
                Ok(verdict) => asked.push(Runnable { index, call, verdict }),
                Err(error) => {
                    // The hooks were asked about all of these, and none will run.
                    for Runnable { call, .. } in &asked {
                        self.hooks.tell_failed(call, &error).await;
                    }
                    self.hooks.tell_failed(&call, &error).await;
                    return Err(error);
                }
            }
        }
        let mut run = Vec::with_capacity(asked.len());
        let mut first_error = None;
        for item in asked {
            match item.verdict {
                Verdict::Answer(output) => {
                    let told = self.finish(item.index, &item.call, output).await;
                    first_error = first_error.or(told.err());
                }
                Verdict::Refuse(error) => {
                    let ran = settle(&self.env, &self.tools, error.into());
                    let told = self.record(item.index, &item.call, ran).await;
                    first_error = first_error.or(told.err());
                }
                Verdict::Wait(pending) => self.hold(item.index, &item.call, *pending).await,
                _ => run.push(item),
            }
        }
        if first_error.is_none() && !run.is_empty() {
            first_error = match (check(self.env.token), self.env.parts.durability, &run[..]) {
                (Err(cancelled), ..) => Some(cancelled),
                (_, Some(durability), _) => Box::pin(self.run_durably(durability, &run)).await,
                (_, None, [one]) => Box::pin(self.run_one(one)).await,
                (_, None, _) => Box::pin(self.run_together(&run)).await,
            };
        }
        let Some(error) = first_error else {
            return Ok(());
        };
        for item in &run {
            if !self.told.contains(&item.index) {
                self.hooks.tell_failed(&item.call, &error).await;
            }
        }
        Err(error)
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
    fn start(&mut self, item: &Runnable) {
        let is_counted = matches!(item.verdict, Verdict::Resume(_));
        if !is_counted && !self.prefetch.has_started(item.index) {
            self.ledger.tally.count_tool_call();
            if let Some(reservation) = &mut self.reservation {
                reservation.spend_tool_call();
            }
        }
        self.ledger.begin_call(item.index);
    }

    fn context_of(&self, item: &Runnable, token: &CancellationToken) -> ToolContext {
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
        item: &'w Runnable,
        token: &CancellationToken,
    ) -> impl Future<Output = Ran> + use<'w, 'a>
    where
        'a: 'w,
    {
        let early = self.prefetch.work_of(item.index);
        let ctx = early.is_none().then(|| self.context_of(item, token));
        let (env, hooks, tools) = (self.env, self.hooks, self.tools.clone());
        async move {
            let ctx = match (early, ctx) {
                (Some(work), _) => return work.await,
                (None, ctx) => ctx.unwrap_or_default(),
            };
            let scopes = hooks.open_call(&item.call);
            execute(env, tools, &item.call, ctx, scopes).await
        }
    }

    async fn run_one(&mut self, item: &Runnable) -> Option<LoopError> {
        self.start(item);
        let token = self.env.token;
        let ran = self.work(item, token).await;
        self.record(item.index, &item.call, ran).await.err()
    }

    /// Runs calls at the same time, and records each as it ends. After an error no other begins, and calls that run have
    /// until the grace period ends.
    async fn run_together(&mut self, run: &[Runnable]) -> Option<LoopError> {
        let token = self.env.token.child_token();
        let mut waiting = run.iter();
        let most = self.env.config().most_tools_at_once();
        let mut running = FuturesUnordered::new();
        let mut first_error = None;
        while first_error.is_none() {
            for item in waiting.by_ref().take(most - running.len()) {
                self.start(item);
                let (work, token) = (self.work(item, &token), token.clone());
                running.push(async move {
                    // Nothing begins once a call beside it has failed.
                    let begins = !token.is_cancelled();
                    (item, if begins { Some(work.await) } else { None })
                });
            }
            let (item, ran) = running.next().await?;
            first_error = match ran {
                Some(ran) => self.record(item.index, &item.call, ran).await.err(),
                None => {
                    self.ledger.never_began(item.index);
                    Some(LoopError::Cancelled)
                }
            };
        }
        token.cancel();
        let mut grace = pin!(wait(self.env.config().tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                Either::Left((Some((item, Some(ran))), _)) => {
                    self.record(item.index, &item.call, ran).await.ok();
                }
                Either::Left((Some((item, None)), _)) => self.ledger.never_began(item.index),
                _ => break,
            }
        }
        first_error
    }

    /// Runs calls in a durable engine: all handed over at once, so that it can run them in the order that is safe for
    /// its replay.
    async fn run_durably(
        &mut self,
        durability: &Durability<'_>,
        run: &[Runnable],
    ) -> Option<LoopError> {
        for item in run {
            self.start(item);
        }
        let token = self.env.token.child_token();
        // Dropped while the engine runs them, it tells work that the tools started elsewhere.
        let guard = token.clone().drop_guard();
        let mut batch = Vec::with_capacity(run.len());
        let mut meters = Vec::with_capacity(run.len());
        let mut scopes = Vec::with_capacity(run.len());
        let mut errors = Vec::with_capacity(run.len());
        for item in run {
            let scope = CallScope::new(self.hooks.open_call(&item.call));
            let error = self.error_of_hidden(&item.call.name);
            if error.is_none() {
                let ctx = self.context_of(item, &token);
                meters.push(CallMeter { call: ctx.usage.clone(), run: &self.env.run.tool_meter });
                let tool = self.tools.get(&item.call.name);
                let effect = tool.map(|tool| tool.effect()).unwrap_or_default();
                let invocation = ToolInvocation::new(item.call.clone(), ctx).with_effect(effect);
                batch.push(invocation.with_scope(scope.clone()));
            }
            errors.push(error);
            scopes.push(scope);
        }
        let options = || self.env.config().tool_activity.clone();
        let work = async {
            match batch.is_empty() {
                true => Ok(Vec::new()),
                false => Ok(durability.execute_tools(batch, options()).await),
            }
        };
        let ran = or_cancelled(self.env.token, work).await;
        guard.disarm();
        drop(meters);
        let mut ran = ran.unwrap_or_default().into_iter();
        let mut first_error = None;
        for ((item, scope), error) in run.iter().zip(scopes).zip(errors) {
            let ran = match error {
                Some(error) => settle(&self.env, &self.tools, error.into()),
                None => match ran.next() {
                    Some(Ok(output)) => Ok(output),
                    Some(Err(error)) => settle(&self.env, &self.tools, error.into()),
                    None => Err(self.missing_result()),
                },
            };
            scope.end(outcome(&ran));
            let recorded = self.record(item.index, &item.call, ran).await;
            first_error = first_error.or(recorded.err());
        }
        first_error
    }

    /// The error of a tool that the model was not offered: it does not exist, whatever the engine has.
    fn error_of_hidden(&self, name: &String) -> Option<ToolError> {
        self.tools.hidden.contains(name).then(|| ToolError::NotFound(name.clone()))
    }

    fn missing_result(&self) -> LoopError {
        match check(self.env.token) {
            Err(cancelled) => cancelled,
            Ok(()) => LoopError::Durable(DurableError::ActivityFailed(
                "the durable context returned fewer results than there were calls".into(),
            )),
        }
    }

    /// Records the end of a call. A call in which an agent waits for an approval waits too.
    async fn record(&mut self, index: usize, call: &ToolCall, ran: Ran) -> Result<(), LoopError> {
        let error = match ran {
            Ok(output) => return self.finish(index, call, output).await,
            Err(error) => error,
        };
        self.told.push(index);
        if let LoopError::Tool(ToolError::ApprovalRequired(nested)) = &error {
            let mut pending = PendingCall::new(call.clone(), "an agent inside the call waits");
            pending.nested = Some(nested.clone());
            self.ledger.hold_call(index, pending);
            self.hooks.tell_failed(call, &error).await;
            return Ok(());
        }
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
    async fn hold(&mut self, index: usize, call: &ToolCall, pending: PendingCall) {
        let state = PendingApproval::new(&*self.env.run.run_id, vec![pending.clone()]);
        self.ledger.hold_call(index, pending);
        self.hooks.tell_failed(call, &LoopError::ApprovalRequired(Box::new(state))).await;
    }
}
