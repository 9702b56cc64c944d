//! Runs the tool calls of one response in groups. Hooks and the permission policy decide on each call first.

use std::mem;
use std::pin::pin;
use std::sync::Arc;

use neuron_types::{LoopError, Reservation, ToolErrorPolicy, ToolUseRef};
use serde_json::Value;
use smallvec::SmallVec;

use super::Prefetch;
use super::decide::{Verdict, decide, invalid_arguments};
use super::execute::{Work, settle};
use crate::ledger::{Batch, CallState, Calls, Counters, Ledger};
use crate::parts::{CallableTools, Env, Turn, check};

/// Runs all tool calls of the last response that can begin. These calls are a batch.
///
/// # Errors
///
/// Returns the first error of a call or a hook. No further call begins then, and concurrent calls are cancelled. Each
/// call without a result gets a result with the reason.
///
/// If a limit, the budget or a cancellation prevents all calls, returns the error before any call begins. Calls with an
/// approval decision then lose it and wait again.
pub(crate) async fn run_batch<'a>(
    env: &'a Env<'a>,
    ledger: &mut Ledger,
    prefetch: &mut Prefetch<'a>,
) -> Result<(), LoopError> {
    let turn = env.turn(ledger);
    let Some((mut calls, tally)) = ledger.open_batch() else {
        return Ok(());
    };
    let attempt = prefetch.attempt(&calls).unwrap_or_else(|| tally.run.attempt());
    let attempt = calls.keep_attempt(attempt);
    let excluded = &calls.batch().excluded[..];
    let tools = env.callable(if excluded.is_empty() { Arc::default() } else { excluded.into() });
    let (reservation, told) = (None, Vec::new());
    let mut run = BatchRun { turn, tools, attempt, reservation, calls, tally, told, prefetch };
    let open = run.calls.batch().open_calls();
    let room = if open.is_empty() { Ok(()) } else { run.reserve(&open) };
    let mut ran = match room {
        Ok(()) => pin!(run.run_all(&open)).await,
        Err(error) => {
            // FAULT decisions are lost with a run that is cancelled before: `!ledger.undecide()` -> `!ledger.undecide()
            //     || matches!(error, LoopError::Cancelled)`
            if !ledger.undecide() {
                ledger.close_batch_because_of(&error);
            }
            return Err(error);
        }
    };
    let tools = run.tools;
    env.count_tool_usage(ledger);
    // FAULT a turn that pauses counts twice for the retries: `ledger.batch().is_some_and(Batch::waits)` -> `{
    //     ledger.explain_missing(None); false }`
    if ledger.batch().is_some_and(Batch::waits) {
        // FAULT a run that waits has results without a reason: without the line
        ledger.explain_missing(None);
    } else if ran.is_ok() && ledger.batch().is_some() {
        // If tools are deferred, unknown names are counted singly, because a model that searches may call several tools
        // too early.
        ran = ledger.count_failing(env.config().tool_retry_limit, |name| tools.may_know(name));
    }
    // FAULT calls wait for an approval after the run has failed: `&ran` -> `&ran && ledger.batch().is_none_or(|batch|
    //     !batch.waits())`
    if let Err(error) = &ran {
        ledger.close_batch_because_of(error);
    }
    ran
}

/// The state while the tool calls of one response run.
pub(super) struct BatchRun<'l, 'a> {
    pub(super) turn: Turn<'a>,
    pub(super) tools: CallableTools<'a>,
    /// Number of earlier, discarded responses of the turn that had started tool calls while streaming. It is part of
    /// the idempotency keys.
    pub(super) attempt: usize,
    /// Reserved budget for the tool calls of the batch.
    pub(super) reservation: Option<Reservation>,
    pub(super) calls: Calls<'l>,
    pub(super) tally: Counters<'l>,
    /// Positions of the calls whose end was reported to the hooks.
    pub(super) told: Vec<usize>,
    /// The calls that started before the response was complete.
    prefetch: &'l mut Prefetch<'a>,
}

/// A tool call on which hooks and policy have decided.
pub(super) struct DecidedCall<'l, 'a> {
    pub(super) index: usize,
    made: ToolUseRef<'l>,
    /// The arguments to run if an approval may have changed them. `None` if the arguments of the model are used.
    edited: Option<Box<Value>>,
    pub(super) verdict: Verdict,
    /// The call's future or result, if the call started before the response was complete.
    pub(super) early: Option<Work<'a>>,
}

impl DecidedCall<'_, '_> {
    /// Returns the call with the arguments to run, which an approval may have changed.
    pub(super) fn call(&self) -> ToolUseRef<'_> {
        ToolUseRef { input: self.edited.as_deref().unwrap_or(self.made.input), ..self.made }
    }
}

impl<'l, 'a> BatchRun<'l, 'a> {
    /// Checks that the limits and the budget allow the calls at these positions, and reserves budget for them.
    fn reserve(&mut self, open: &[usize]) -> Result<(), LoopError> {
        check(self.turn.token)?;
        let early = self.prefetch.taken_by(&self.calls);
        // FAULT early calls need room once more: without `.saturating_sub(early)`
        let starts = self.calls.batch().count_of_starts().saturating_sub(early);
        self.tally.run.check_before_tools(self.turn.config(), starts)?;
        // With this setting, invalid arguments end the run, so no other call of the response may begin.
        // FAULT arguments that are not JSON do not end a run that must end: `EndRun` -> `ReturnToModel`
        if self.turn.config().tool_errors == ToolErrorPolicy::EndRun {
            for &index in open {
                let Some(made) = self.calls.made(index) else { continue };
                let is_open = matches!(self.calls.state(index), Some(CallState::Open));
                if is_open && self.tools.is_invalid(made) {
                    let error = LoopError::Tool(invalid_arguments(made));
                    self.calls.fail(index, &error);
                    return Err(error);
                }
            }
        }
        if let Some(budget) = &self.turn.run.budget {
            // FAULT a batch of tools needs no budget: `Some(budget.reserve_tool_calls(starts)?)` ->
            //     `budget.reserve_tool_calls(starts).ok()`
            self.reservation = Some(budget.reserve_tool_calls(starts)?);
        }
        Ok(())
    }

    /// Runs the tool calls at the positions `open` in order, in groups of concurrent calls.
    async fn run_all(&mut self, open: &[usize]) -> Result<(), LoopError> {
        let config = self.turn.config();
        // An engine runs all calls of a group concurrently, so the group itself must respect the maximum.
        // FAULT parallel although one after another was asked for: `config.parallel_tool_execution` -> `true`
        let most = match (config.parallel_tool_execution, self.turn.parts.durability) {
            (false, _) => 1,
            // FAULT an engine gets more calls at once than may run: `config.most_tools_at_once()` -> `usize::MAX`
            (true, Some(_)) => config.most_tools_at_once(),
            (true, None) => usize::MAX,
        };
        let mut rest = open;
        while !rest.is_empty() {
            // FAULT a tool that runs alone joins the calls before it: without `.take_while(|index|
            //     !self.runs_alone(**index))`
            let beside = rest.iter().take(most).take_while(|index| !self.runs_alone(**index));
            let (group, others) = rest.split_at(beside.count().max(1));
            rest = others;
            pin!(self.run_group(group)).await?;
        }
        Ok(())
    }

    /// Returns `true` if the call's tool must not run concurrently with other calls.
    fn runs_alone(&self, index: usize) -> bool {
        let made = self.calls.made(index);
        // FAULT a tool that must run alone does not: `tool.runs_alone()` -> `false`
        made.and_then(|made| self.tools.get(made.name)).is_some_and(|tool| tool.runs_alone())
    }

    /// Runs a group of calls concurrently. Each call that was announced to the hooks also has its end reported to them.
    async fn run_group(&mut self, group: &[usize]) -> Result<(), LoopError> {
        let mut asked = SmallVec::with_capacity(group.len());
        let ran = pin!(self.ask_and_run(group, &mut asked)).await;
        if let Err(error) = &ran {
            // FAULT a lost event of a failed tool: `!self.told.contains(&item.index)` -> `false`
            // FAULT the end of a call is told twice: without `.filter(|item| !self.told.contains(&item.index))`
            for item in asked.iter().filter(|item| !self.told.contains(&item.index)) {
                self.turn.notify_failed(item.call(), error).await;
            }
        }
        ran
    }

    /// Decides on the calls of a group in order, and then runs the allowed calls here or in the durable engine. `asked`
    /// receives each call whose start was reported to the hooks.
    async fn ask_and_run(
        &mut self,
        group: &[usize],
        asked: &mut SmallVec<[DecidedCall<'l, 'a>; 1]>,
    ) -> Result<(), LoopError> {
        check(self.turn.token)?;
        for &index in group {
            let Some(made) = self.calls.made(index) else {
                continue;
            };
            let edited = self.calls.state(index).and_then(CallState::edited);
            let edited = edited.cloned().map(Box::new);
            // Handed over even if it does not run, because the hooks were notified of its start.
            let early = self.prefetch.hand_over(index, made);
            let (verdict, early) =
                early.map_or((None, None), |early| (Some(early.verdict), early.work));
            asked.push(DecidedCall { index, made, edited, verdict: Verdict::Run, early });
            if let Some(item) = asked.last_mut() {
                item.verdict = match verdict {
                    Some(verdict) => verdict,
                    // FAULT a call has no end when a hook ends the run before it: `self.decide(index,
                    //     item.call()).await?` -> `match self.decide(index, item.call()).await { Ok(verdict) =>
                    //     verdict, Err(error) => { asked.pop(); return Err(error); } }`
                    None => self.decide(index, item.call()).await?,
                };
            }
        }
        let runs =
            |item: &DecidedCall<'_, '_>| matches!(item.verdict, Verdict::Run | Verdict::Resume(_));
        let mut answered = SmallVec::new();
        if !asked.iter().all(runs) {
            (*asked, answered) = asked.drain(..).partition(runs);
        }
        let mut first_error = None;
        for mut item in answered {
            // FAULT a call that its tool refuses is not counted: without the statement
            if let Verdict::Refuse(_) = item.verdict {
                self.start(&item);
            }
            let verdict = mem::replace(&mut item.verdict, Verdict::Run);
            let told = match verdict {
                Verdict::Answer(output) => self.finish(&item, *output).await,
                Verdict::Refuse(error) => {
                    let ran = settle(&self.turn, &self.tools, error.into());
                    self.record(&item, ran).await
                }
                Verdict::Wait(pending) => self.hold(&item, *pending).await,
                Verdict::Run | Verdict::Resume(_) => Ok(()),
            };
            // FAULT a hook cannot end the run at a call that does not run: the line -> `drop(told);`
            first_error = first_error.or(told.err());
        }
        match (first_error, self.turn.parts.durability, &mut asked[..]) {
            (Some(error), ..) => Err(error),
            (None, _, []) => Ok(()),
            (None, Some(engine), run) => Box::pin(self.run_durably(engine, run)).await,
            (None, None, [one]) => pin!(self.run_one(one)).await,
            (None, None, run) => Box::pin(self.run_together(run)).await,
        }
    }

    /// Returns the decision of hooks and policy on a tool call.
    async fn decide(&self, index: usize, call: ToolUseRef<'_>) -> Result<Verdict, LoopError> {
        let asked = self.calls.state(index).and_then(CallState::asked);
        decide(self.turn, &self.tools, call, asked).await
    }
}
