//! Running the tool calls of one answer: hooks, scopes, cancellation, one after another or
//! together, here or in a durable engine.

use std::fmt::Write;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuron_tool::ToolRegistry;
use neuron_types::{
    DurableContext, DurableError, HookEvent, LoopError, OperationKind, Outcome, StreamEvent,
    ToolCall, ToolContext, ToolError, ToolInvocation, ToolOutput,
};
use tokio_util::sync::CancellationToken;

use crate::LoopConfig;
use crate::cancel::{self, or_cancelled};
use crate::hooks::Hooks;
use crate::sink::Sink;
use crate::tool_results::ToolResults;

/// What running the tool calls of one answer needs.
pub(crate) struct ToolBatch<'a, D, S> {
    pub(crate) tools: &'a ToolRegistry,
    pub(crate) hooks: Hooks<'a>,
    pub(crate) durability: Option<&'a D>,
    pub(crate) config: &'a LoopConfig,
    pub(crate) ctx: &'a ToolContext,
    pub(crate) sink: &'a S,
    /// Which of the agent's runs this is.
    pub(crate) run_number: usize,
}

type Ran = Result<ToolOutput, LoopError>;

impl<D: DurableContext, S: Sink> ToolBatch<'_, D, S> {
    /// Runs the calls and records what became of them; `started` counts those that were started.
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
        let count = results.calls().len();
        if self.config.parallel_tool_execution && count > 1 {
            return self.run_together(0..count, results, started).await;
        }
        for index in 0..count {
            cancel::check(self.ctx)?;
            match self.durability {
                Some(_) => self.run_together(index..index + 1, results, started).await?,
                None => self.run_alone(index, results, started).await?,
            }
        }
        Ok(())
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
        match self.ask_before(call).await {
            Ok(None) => {}
            Ok(Some(reason)) => {
                results.finish(index, ToolOutput::text(reason));
                return self.tell_after(index, results).await;
            }
            Err(error) => {
                self.tell_failed(call, &error).await;
                return Err(error);
            }
        }
        *started += 1;
        results.start(index);
        let ctx = self.call_context(index, call, &self.ctx.cancellation_token);
        let ran = self.execute(call, ctx).await;
        self.record(index, ran, results).await
    }

    /// Runs calls at the same time: here, or in the durable engine.
    async fn run_together(
        &self,
        group: Range<usize>,
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        let (run, skip) = self.ask_before_all(group, results).await?;
        let mut first_error = None;
        for (index, reason) in skip {
            results.finish(index, ToolOutput::text(reason));
            let told = self.tell_after(index, results).await;
            first_error = first_error.or(told.err());
        }
        if first_error.is_none() && !run.is_empty() {
            *started += run.len();
            for &index in &run {
                results.start(index);
            }
            first_error = match self.durability {
                Some(durability) => self.run_durably(durability, &run, results).await,
                None => self.run_here(&run, results).await,
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

    /// Asks the hooks about every call, in order: which to run, and which to skip with what reason.
    async fn ask_before_all(
        &self,
        group: Range<usize>,
        results: &ToolResults<'_>,
    ) -> Result<(Vec<usize>, Vec<(usize, String)>), LoopError> {
        let (mut run, mut skip) = (Vec::with_capacity(group.len()), Vec::new());
        let calls = results.calls().get(group.clone()).unwrap_or_default();
        for (index, call) in group.zip(calls) {
            match self.ask_before(call).await {
                Ok(None) => run.push(index),
                Ok(Some(reason)) => skip.push((index, reason)),
                Err(error) => {
                    // All that were asked about have begun for the hooks, and none will run.
                    for asked in calls.iter().take(run.len() + skip.len() + 1) {
                        self.tell_failed(asked, &error).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok((run, skip))
    }

    async fn ask_before(&self, call: &ToolCall) -> Result<Option<String>, LoopError> {
        let event = HookEvent::PreToolExecution { tool_name: &call.name, input: &call.input };
        self.hooks.in_call(&call.id).ask(event).await
    }

    /// Runs calls in this process, and records each as it ends. After an error the others have
    /// until the grace period ends.
    async fn run_here(&self, run: &[usize], results: &mut ToolResults<'_>) -> Option<LoopError> {
        let calls = results.calls();
        let cancellation = self.ctx.cancellation_token.child_token();
        let mut running = FuturesUnordered::new();
        for &index in run {
            if let Some(call) = calls.get(index) {
                let ctx = self.call_context(index, call, &cancellation);
                running.push(async move { (index, self.execute(call, ctx).await) });
            }
        }
        let mut first_error = None;
        while first_error.is_none() {
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
    ) -> Option<LoopError> {
        let calls = results.calls();
        let chosen: Vec<(usize, &ToolCall)> =
            run.iter().filter_map(|&index| Some((index, calls.get(index)?))).collect();
        let token = self.ctx.cancellation_token.child_token();
        // Dropped while the engine runs them, it tells whatever the tools started elsewhere.
        let guard = token.clone().drop_guard();
        let mut batch = Vec::with_capacity(chosen.len());
        let mut scopes = Vec::with_capacity(chosen.len());
        for &(index, call) in &chosen {
            batch.push(ToolInvocation::new(call.clone(), self.call_context(index, call, &token)));
            scopes.push(self.hooks.in_call(&call.id).open(OperationKind::ToolCall { call }));
        }
        let work =
            async { Ok(durability.execute_tools(batch, self.config.tool_activity.clone()).await) };
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
        for ((index, _), scope) in chosen.into_iter().zip(scopes) {
            let ran = match ran.next() {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => self.settle(error.into()),
                None => Err(missing()),
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

    /// Decides what a call's error means: a hint for the model is a result, and a tool that stops
    /// because the run was cancelled is not what ends the run.
    fn settle(&self, error: LoopError) -> Ran {
        match error {
            LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),
            LoopError::Tool(ToolError::Cancelled) if self.ctx.cancellation_token.is_cancelled() => {
                Err(LoopError::Cancelled)
            }
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
            extensions: outer.extensions.clone(),
        }
    }

    /// Records how a call ended, and tells the hooks and the reader.
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
                if let Some(call) = results.calls().get(index) {
                    self.tell_failed(call, &error).await;
                }
                Err(error)
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

fn outcome(ran: &Ran) -> Outcome<'_> {
    match ran {
        Ok(output) => Outcome::ToolOutput(output),
        Err(error) => Outcome::Error(error),
    }
}

/// Waits, if there is a clock to wait by.
#[cfg(not(target_family = "wasm"))]
fn grace(duration: Duration) -> impl Future<Output = ()> {
    async move {
        if !duration.is_zero() && tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(target_family = "wasm")]
fn grace(_duration: Duration) -> impl Future<Output = ()> {
    std::future::ready(())
}
