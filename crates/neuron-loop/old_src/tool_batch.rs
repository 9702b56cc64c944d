//! The tool calls of one answer: which run, in what order and beside which others, and what the hooks
//! and the reader are told.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_tool::ToolRegistry;
use neuron_types::{
    DurableContext, HookEvent, LoopError, PendingCall, StreamEvent, ToolCall, ToolContext,
    ToolError, ToolOutput, UsageMeter,
};

use crate::LoopConfig;
use crate::call_context::CallContexts;
use crate::cancel;
use crate::early_tools::EarlyTools;
use crate::hooks::Hooks;
use crate::permits::Permit;
use crate::sink::Sink;
use crate::tool_results::ToolResults;
use crate::wait::wait;

/// What running the tool calls of one answer needs.
pub(crate) struct ToolBatch<'a, D, S> {
    /// The tools that the model was offered.
    pub(crate) tools: &'a ToolRegistry,
    /// Whether these were not all.
    pub(crate) is_restricted: bool,
    pub(crate) hooks: Hooks<'a>,
    pub(crate) durability: Option<&'a D>,
    pub(crate) config: &'a LoopConfig,
    pub(crate) ctx: &'a ToolContext,
    /// What the tools see of the run.
    pub(crate) contexts: CallContexts<'a>,
    /// Counts what the tools take.
    pub(crate) meter: &'a UsageMeter,
    pub(crate) sink: &'a S,
    /// What is to happen with each call.
    pub(crate) permits: &'a [Permit],
    /// The calls that were started before the answer was whole.
    pub(crate) early: &'a Mutex<EarlyTools>,
}

/// How a call ended.
pub(crate) type Ran = Result<ToolOutput, LoopError>;

impl<D: DurableContext, S: Sink> ToolBatch<'_, D, S> {
    /// Runs the calls that have no result and records what became of them; `started` counts those
    /// that were started.
    ///
    /// # Errors
    ///
    /// The first error that a call or a hook ended with. The calls after it are not started, and
    /// those beside it are cancelled.
    pub(crate) async fn run(
        &self,
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        for (index, permit) in self.permits.iter().enumerate() {
            if let Permit::Hold(pending) = permit {
                results.hold(index, pending.clone());
            }
        }
        if self.config.parallel_tool_execution {
            for group in self.groups(results) {
                self.run_group(&group, results, started).await?;
            }
            return Ok(());
        }
        for index in 0..results.calls().len() {
            if results.is_open(index) {
                self.run_group(&[index], results, started).await?;
            }
        }
        Ok(())
    }

    async fn run_group(
        &self,
        group: &[usize],
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        cancel::check(self.ctx)?;
        match (group, self.durability) {
            (&[index], None) => self.run_alone(index, results, started).await,
            _ => self.run_together(group, results, started).await,
        }
    }

    /// The calls to run, in order, in groups that run at the same time.
    fn groups(&self, results: &ToolResults<'_>) -> Vec<Vec<usize>> {
        // An engine runs all that it is given at once.
        let most = self.durability.map_or(usize::MAX, |_| self.config.most_tools_at_once());
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut open = false;
        for (index, call) in results.calls().iter().enumerate() {
            if !results.is_open(index) {
                continue;
            }
            let alone = self.tools.get(&call.name).is_some_and(|tool| tool.runs_alone());
            match groups.last_mut() {
                Some(group) if open && !alone && group.len() < most => group.push(index),
                _ => groups.push(vec![index]),
            }
            open = !alone;
        }
        groups
    }

    /// Runs one call in this process: `run_together` without what several calls need.
    async fn run_alone(
        &self,
        index: usize,
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        let Some(call) = results.calls().get(index) else {
            return Ok(());
        };
        match self.ask_before(index, call).await {
            Ok(None) => {}
            Ok(Some(output)) => {
                results.finish(index, output);
                return self.tell_after(index, results).await;
            }
            Err(error) => {
                self.tell_failed(call, &error).await;
                return Err(error);
            }
        }
        self.start(index, results, started);
        let ctx = self.call_context(index, call, &self.ctx.cancellation_token);
        let ran = self.execute(index, call, ctx).await;
        self.record(index, ran, results).await
    }

    /// Counts a call as started; one that goes on was before.
    pub(crate) fn start(&self, index: usize, results: &mut ToolResults<'_>, started: &mut usize) {
        if !matches!(self.permits.get(index), Some(Permit::Resume(_))) {
            *started = started.saturating_add(1);
        }
        results.start(index);
    }

    /// Runs calls at the same time: here, or in the durable engine.
    async fn run_together(
        &self,
        group: &[usize],
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        let (run, skip) = self.ask_before_all(group, results).await?;
        let mut first_error = None;
        for (index, output) in skip {
            results.finish(index, output);
            let told = self.tell_after(index, results).await;
            first_error = first_error.or(told.err());
        }
        if first_error.is_none() && !run.is_empty() {
            first_error = match self.durability {
                Some(durability) => self.run_durably(durability, &run, results, started).await,
                None => self.run_here(&run, results, started).await,
            };
        }
        let Some(error) = first_error else {
            return Ok(());
        };
        for index in run.into_iter().filter(|&index| results.is_open(index)) {
            if let Some(call) = results.calls().get(index) {
                self.tell_failed(call, &error).await;
            }
        }
        Err(error)
    }

    /// Asks the hooks about every call, in order: which to run, and which to answer with what.
    async fn ask_before_all(
        &self,
        group: &[usize],
        results: &ToolResults<'_>,
    ) -> Result<(Vec<usize>, Vec<(usize, ToolOutput)>), LoopError> {
        let (mut run, mut skip) = (Vec::with_capacity(group.len()), Vec::new());
        let calls = |index: &usize| Some((*index, results.calls().get(*index)?));
        for (asked, (index, call)) in group.iter().filter_map(calls).enumerate() {
            match self.ask_before(index, call).await {
                Ok(None) => run.push(index),
                Ok(Some(output)) => skip.push((index, output)),
                Err(error) => {
                    // All that were asked about have begun for the hooks, and none will run.
                    for (_, call) in group.iter().filter_map(calls).take(asked + 1) {
                        self.tell_failed(call, &error).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok((run, skip))
    }

    /// Asks the hooks about a call. Returns its result if it is not to run: a hook's reason, or what
    /// was decided before.
    async fn ask_before(
        &self,
        index: usize,
        call: &ToolCall,
    ) -> Result<Option<ToolOutput>, LoopError> {
        let asked_early = self.early().take_over(index, call);
        let skip = match asked_early {
            Some(skip) => skip,
            None => {
                let event =
                    HookEvent::PreToolExecution { tool_name: &call.name, input: &call.input };
                self.hooks.in_call(&call.id).ask(event).await?.map(ToolOutput::text)
            }
        };
        Ok(match (skip, self.permits.get(index)) {
            (Some(output), _) => Some(output),
            (None, Some(Permit::Answer(output))) => Some(output.clone()),
            (None, _) => None,
        })
    }

    pub(crate) fn early(&self) -> MutexGuard<'_, EarlyTools> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs calls in this process, and records each as it ends. After an error none is started, and
    /// the others have until the grace period ends.
    async fn run_here(
        &self,
        run: &[usize],
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Option<LoopError> {
        let calls = results.calls();
        let cancellation = self.ctx.cancellation_token.child_token();
        let mut waiting = run.iter().filter_map(|&index| Some((index, calls.get(index)?)));
        let most = self.config.most_tools_at_once();
        let mut running = FuturesUnordered::new();
        let mut first_error = None;
        while first_error.is_none() {
            for (index, call) in waiting.by_ref().take(most - running.len()) {
                self.start(index, results, started);
                let ctx = self.call_context(index, call, &cancellation);
                running.push(async move {
                    // Nothing begins once a call beside it has failed.
                    let begins = !ctx.cancellation_token.is_cancelled();
                    (index, if begins { Some(self.execute(index, call, ctx).await) } else { None })
                });
            }
            let (index, ran) = running.next().await?;
            first_error = match ran {
                Some(ran) => self.record(index, ran, results).await.err(),
                None => {
                    results.never_began(index);
                    Some(LoopError::Cancelled)
                }
            };
        }
        cancellation.cancel();
        let mut grace = pin!(wait(self.config.tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                Either::Left((Some((index, Some(ran))), _)) => {
                    self.record(index, ran, results).await.ok();
                }
                Either::Left((Some((index, None)), _)) => results.never_began(index),
                _ => break,
            }
        }
        first_error
    }

    /// Records how a call ended, and tells the hooks and the reader. A call in which an agent waits
    /// for an approval waits too.
    pub(crate) async fn record(
        &self,
        index: usize,
        ran: Ran,
        results: &mut ToolResults<'_>,
    ) -> Result<(), LoopError> {
        match ran {
            Ok(output) => {
                results.finish(index, output);
                self.tell_after(index, results).await
            }
            Err(error) => {
                results.fail(index, &error);
                let Some(call) = results.calls().get(index) else {
                    return Err(error);
                };
                self.tell_failed(call, &error).await;
                let LoopError::Tool(ToolError::ApprovalRequired(nested)) = error else {
                    return Err(error);
                };
                let mut pending = PendingCall::new(call.clone(), "an agent inside the call waits");
                pending.nested = Some(nested);
                results.hold(index, pending);
                Ok(())
            }
        }
    }

    async fn tell_after(&self, index: usize, results: &ToolResults<'_>) -> Result<(), LoopError> {
        let (Some(call), Some(output)) = (results.calls().get(index), results.output(index)) else {
            return Ok(());
        };
        if S::RESULTS {
            let (id, name) = (call.id.clone(), call.name.clone());
            self.sink.emit(StreamEvent::ToolResult { id, name, output: output.clone() }).await;
        }
        let event = HookEvent::PostToolExecution { tool_name: &call.name, output };
        self.hooks.in_call(&call.id).ask(event).await.map(drop)
    }

    async fn tell_failed(&self, call: &ToolCall, error: &LoopError) {
        let event = HookEvent::ToolError { tool_name: &call.name, error };
        self.hooks.in_call(&call.id).tell(event).await;
    }
}
