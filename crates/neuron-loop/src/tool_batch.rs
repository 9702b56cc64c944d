//! Running the tool calls of one answer: hooks, scopes, cancellation, one after another or
//! together, here or in a durable engine.

use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_tool::ToolRegistry;
use neuron_types::{
    DurableContext, DurableError, HookEvent, LoopError, OperationKind, Outcome, PendingCall,
    ResumedApproval, StreamEvent, ToolCall, ToolContext, ToolError, ToolInvocation, ToolOutput,
};
use tokio_util::sync::CancellationToken;

use crate::cancel::{self, or_cancelled};
use crate::hooks::Hooks;
use crate::permits::{self, Permit};
use crate::sink::Sink;
use crate::tool_results::ToolResults;
use crate::{LoopConfig, ToolErrorPolicy};

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
    pub(crate) sink: &'a S,
    /// Which of the agent's runs this is.
    pub(crate) run_number: usize,
    /// What is to happen with each call.
    pub(crate) permits: &'a [Permit],
}

type Ran = Result<ToolOutput, LoopError>;

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
        for group in self.groups(results) {
            cancel::check(self.ctx)?;
            match (group.as_slice(), self.durability) {
                (&[index], None) => self.run_alone(index, results, started).await?,
                _ => self.run_together(group, results, started).await?,
            }
        }
        Ok(())
    }

    /// The calls to run, in order, in groups that may run at the same time.
    fn groups(&self, results: &ToolResults<'_>) -> Vec<Vec<usize>> {
        // An engine runs all that it is given at once.
        let most = self.durability.and_then(|_| self.most_at_once()).unwrap_or(usize::MAX);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut open = false;
        for (index, call) in results.calls().iter().enumerate() {
            if !results.is_open(index) {
                continue;
            }
            let tool = self.tools.get(&call.name);
            let alone =
                !self.config.parallel_tool_execution || tool.is_some_and(|tool| tool.runs_alone());
            match groups.last_mut() {
                Some(group) if open && !alone && group.len() < most => group.push(index),
                _ => groups.push(vec![index]),
            }
            open = !alone;
        }
        groups
    }

    /// How many calls may run at the same time; zero is as one.
    fn most_at_once(&self) -> Option<usize> {
        self.config.max_parallel_tools.map(|most| most.max(1))
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
        let ran = self.execute(call, ctx).await;
        self.record(index, ran, results).await
    }

    /// Counts a call as started; one that goes on was before.
    fn start(&self, index: usize, results: &mut ToolResults<'_>, started: &mut usize) {
        if !matches!(self.permits.get(index), Some(Permit::Resume(_))) {
            *started = started.saturating_add(1);
        }
        results.start(index);
    }

    /// Runs calls at the same time: here, or in the durable engine.
    async fn run_together(
        &self,
        group: Vec<usize>,
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        let (run, skip) = self.ask_before_all(&group, results).await?;
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
        let event = HookEvent::PreToolExecution { tool_name: &call.name, input: &call.input };
        let skip = self.hooks.in_call(&call.id).ask(event).await?;
        Ok(match (skip, self.permits.get(index)) {
            (Some(reason), _) => Some(ToolOutput::text(reason)),
            (None, Some(Permit::Answer(output))) => Some(output.clone()),
            (None, _) => None,
        })
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
        let most = self.most_at_once().unwrap_or(usize::MAX);
        let mut running = FuturesUnordered::new();
        let mut first_error = None;
        while first_error.is_none() {
            for (index, call) in waiting.by_ref().take(most - running.len()) {
                self.start(index, results, started);
                let ctx = self.call_context(index, call, &cancellation);
                running.push(async move { (index, self.execute(call, ctx).await) });
            }
            let (index, ran) = running.next().await?;
            first_error = self.record(index, ran, results).await.err();
        }
        cancellation.cancel();
        let mut grace = pin!(grace(self.config.tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                Either::Left((Some((index, ran)), _)) => {
                    self.record(index, ran, results).await.ok();
                }
                _ => break,
            }
        }
        first_error
    }

    /// Runs calls in a durable engine: all handed over at once, so that it can run them in the
    /// order that is safe for its replay.
    async fn run_durably(
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
        let mut scopes = Vec::with_capacity(chosen.len());
        // A tool that the model was not offered is none, whatever the engine has.
        let is_known =
            |call: &ToolCall| !self.is_restricted || self.tools.definition(&call.name).is_some();
        for &(index, call) in &chosen {
            if is_known(call) {
                let ctx = self.call_context(index, call, &token);
                batch.push(ToolInvocation::new(call.clone(), ctx));
            }
            scopes.push(self.hooks.in_call(&call.id).open(OperationKind::ToolCall { call }));
        }
        let work = async {
            match batch.is_empty() {
                true => Ok(Vec::new()),
                false => {
                    Ok(durability.execute_tools(batch, self.config.tool_activity.clone()).await)
                }
            }
        };
        let work = or_cancelled(self.ctx, work);
        let ran = match &mut scopes[..] {
            // One call: what runs is inside its scope. Of several, none can be told apart.
            [scope] => scope.run(work).await,
            _ => work.await,
        };
        guard.disarm();
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
        for ((index, call), scope) in chosen.into_iter().zip(scopes) {
            let ran = match is_known(call).then(|| ran.next()) {
                Some(Some(Ok(output))) => Ok(output),
                Some(Some(Err(error))) => self.settle(error.into()),
                Some(None) => Err(missing()),
                None => self.settle(ToolError::NotFound(call.name.clone()).into()),
            };
            scope.end(outcome(&ran));
            let recorded = self.record(index, ran, results).await;
            first_error = first_error.or(recorded.err());
        }
        first_error
    }

    /// Runs one call in this process.
    async fn execute(&self, call: &ToolCall, ctx: ToolContext) -> Ran {
        // Dropped while the call runs, it tells whatever the tool started elsewhere.
        let guard = ctx.cancellation_token.clone().drop_guard();
        let mut scopes = self.hooks.in_call(&call.id).open(OperationKind::ToolCall { call });
        let work = async { Ok(self.tools.execute_call(call, &ctx).await?) };
        let ran = scopes.run(or_cancelled(self.ctx, work)).await;
        let ran = ran.or_else(|error| self.settle(error));
        scopes.end(outcome(&ran));
        guard.disarm();
        ran
    }

    /// Decides what a call's error means: a hint for the model is a result, and so is every failure
    /// if the configuration says so; a tool that stops because the run was cancelled is not what ends
    /// the run.
    fn settle(&self, error: LoopError) -> Ran {
        match error {
            LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
            LoopError::Tool(ToolError::Cancelled) if self.ctx.cancellation_token.is_cancelled() => {
                Err(LoopError::Cancelled)
            }
            LoopError::Tool(ToolError::ApprovalRequired(_)) if !self.config.pause_for_approval => {
                Ok(permits::denial("an agent inside the call needs an approval"))
            }
            LoopError::Tool(error) => match self.config.tool_errors {
                ToolErrorPolicy::ReturnToModel => returned(error, self.tools),
                ToolErrorPolicy::EndRun => Err(error.into()),
            },
            error => Err(error),
        }
    }

    fn call_context(
        &self,
        index: usize,
        call: &ToolCall,
        cancellation: &CancellationToken,
    ) -> ToolContext {
        let (run_id, turn) = (self.hooks.scope.run_id, self.hooks.scope.turn);
        let mut idempotency_key = String::with_capacity(run_id.len() + call.id.len() + 24);
        // The position makes it unique in the agent's runs, the model's id between agents that were
        // given the same run id. Writing to a string cannot fail.
        write!(idempotency_key, "{run_id}/{}/{turn}/{index}/{}", self.run_number, call.id).ok();
        let outer = self.ctx;
        let mut extensions = outer.extensions.clone();
        // It is for one call alone, and not for those of the agent that found it.
        extensions.remove::<ResumedApproval>();
        if let Some(Permit::Resume(resumed)) = self.permits.get(index) {
            extensions.insert(resumed.clone());
        }
        // Field by field: cloning the whole would clone what is replaced too.
        ToolContext {
            cwd: outer.cwd.clone(),
            session_id: outer.session_id.clone(),
            environment: outer.environment.clone(),
            cancellation_token: cancellation.child_token(),
            progress_reporter: outer.progress_reporter.clone(),
            call_id: call.id.clone(),
            run_id: run_id.to_owned(),
            idempotency_key,
            turn: Some(turn),
            extensions,
        }
    }

    /// Records how a call ended, and tells the hooks and the reader. A call in which an agent waits
    /// for an approval waits too.
    async fn record(
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

/// Waits, if there is a clock to wait by.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn grace(duration: Duration) -> impl Future<Output = ()> {
    async move {
        if !duration.is_zero() && tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(target_family = "wasm")]
pub(crate) fn grace(_duration: Duration) -> impl Future<Output = ()> {
    std::future::ready(())
}
