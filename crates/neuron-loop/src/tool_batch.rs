//! Running the tool calls of one answer: hooks, scopes, cancellation, one after another or
//! together, here or in a durable engine.

use std::future::Future;
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
        let together = if self.config.parallel_tool_execution {
            count
        } else {
            1
        };
        for first in (0..count).step_by(together.max(1)) {
            let group = first..count.min(first + together);
            self.run_group(group.collect(), results, started).await?;
        }
        Ok(())
    }

    /// Runs some of the calls together.
    async fn run_group(
        &self,
        group: Vec<usize>,
        results: &mut ToolResults<'_>,
        started: &mut usize,
    ) -> Result<(), LoopError> {
        let (run, skip) = self.ask_before(&group, results).await?;
        *started += run.len();
        for &index in &run {
            results.start(index);
        }
        let cancellation = self.ctx.cancellation_token.child_token();
        let mut first_error = None;
        for (index, reason) in skip {
            results.finish(index, ToolOutput::text(reason));
            if let Err(error) = self.tell_after(index, results).await {
                first_error.get_or_insert(error);
            }
        }
        if first_error.is_none() {
            match self.durability {
                Some(durability) => {
                    for (index, ran) in self.run_durably(durability, &run, results).await {
                        self.record(index, ran, results, &mut first_error).await;
                    }
                }
                None => {
                    self.run_here(&run, results, &cancellation, &mut first_error)
                        .await
                }
            }
        }
        let Some(error) = first_error else {
            return Ok(());
        };
        cancellation.cancel();
        for index in run.into_iter().filter(|&index| results.is_running(index)) {
            self.tell_failed(index, results, &error).await;
        }
        Err(error)
    }

    /// Asks the hooks about every call of a group, in order: which to run, and which to skip with
    /// what reason.
    async fn ask_before(
        &self,
        group: &[usize],
        results: &ToolResults<'_>,
    ) -> Result<(Vec<usize>, Vec<(usize, String)>), LoopError> {
        let (mut run, mut skip) = (Vec::with_capacity(group.len()), Vec::new());
        for (position, &index) in group.iter().enumerate() {
            let Some(call) = results.calls().get(index) else {
                continue;
            };
            let event = HookEvent::PreToolExecution {
                tool_name: &call.name,
                input: &call.input,
            };
            match self.hooks.in_call(&call.id).ask(event).await {
                Ok(None) => run.push(index),
                Ok(Some(reason)) => skip.push((index, reason)),
                Err(error) => {
                    for &asked in group.iter().take(position + 1) {
                        self.tell_failed(asked, results, &error).await;
                    }
                    return Err(error);
                }
            }
        }
        Ok((run, skip))
    }

    /// Runs calls in this process, and records each as it ends. After an error the others have
    /// until the grace period ends.
    async fn run_here(
        &self,
        run: &[usize],
        results: &mut ToolResults<'_>,
        cancellation: &CancellationToken,
        first_error: &mut Option<LoopError>,
    ) {
        let calls = results.calls();
        let mut running = FuturesUnordered::new();
        for &index in run {
            if let Some(call) = calls.get(index) {
                let ctx = self.call_context(index, call, cancellation);
                running.push(async move { (index, self.execute(call, ctx).await) });
            }
        }
        while let Some((index, ran)) = running.next().await {
            self.record(index, ran, results, first_error).await;
            if first_error.is_some() {
                cancellation.cancel();
                break;
            }
        }
        let mut grace = pin!(grace(self.config.tool_grace));
        while !running.is_empty() {
            match select(running.next(), grace.as_mut()).await {
                Either::Left((Some((index, ran)), _)) => {
                    self.record(index, ran, results, first_error).await;
                }
                _ => break,
            }
        }
    }

    /// Runs calls in a durable engine: all handed over at once, so that it can run them in the
    /// order that is safe for its replay.
    async fn run_durably(
        &self,
        durability: &D,
        run: &[usize],
        results: &ToolResults<'_>,
    ) -> Vec<(usize, Ran)> {
        let calls = results.calls();
        let chosen: Vec<(usize, &ToolCall)> = run
            .iter()
            .filter_map(|&index| Some((index, calls.get(index)?)))
            .collect();
        let token = &self.ctx.cancellation_token;
        let mut batch = Vec::with_capacity(chosen.len());
        let mut scopes = Vec::with_capacity(chosen.len());
        for &(index, call) in &chosen {
            batch.push(ToolInvocation::new(
                call.clone(),
                self.call_context(index, call, token),
            ));
            scopes.push(
                self.hooks
                    .in_call(&call.id)
                    .open(OperationKind::ToolCall { call }),
            );
        }
        let work = async {
            Ok(durability
                .execute_tools(batch, self.config.tool_activity.clone())
                .await)
        };
        let work = or_cancelled(self.ctx, work);
        let ran = match &mut scopes[..] {
            // One call: what runs is inside its scope. Of several, none can be told apart.
            [scope] => scope.run(work).await,
            _ => work.await,
        };
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
        let mut outcomes = Vec::with_capacity(run.len());
        for ((index, _), scope) in chosen.into_iter().zip(scopes) {
            let ran = match ran.next() {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => self.settle(error.into()),
                None => Err(missing()),
            };
            scope.end(outcome(&ran));
            outcomes.push((index, ran));
        }
        outcomes
    }

    /// Runs one call in this process.
    async fn execute(&self, call: &ToolCall, ctx: ToolContext) -> Ran {
        // Dropped while the call runs, it tells whatever the tool started elsewhere.
        let guard = ctx.cancellation_token.clone().drop_guard();
        let mut scopes = self
            .hooks
            .in_call(&call.id)
            .open(OperationKind::ToolCall { call });
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
        ToolContext {
            cancellation_token: cancellation.child_token(),
            call_id: call.id.clone(),
            run_id: run_id.to_owned(),
            // The position makes it unique in the run, the model's id between runs of one name.
            idempotency_key: format!("{run_id}/{turn}/{index}/{}", call.id),
            ..self.ctx.clone()
        }
    }

    /// Records how a call ended, and tells the hooks and the reader.
    async fn record(
        &self,
        index: usize,
        ran: Ran,
        results: &mut ToolResults<'_>,
        first_error: &mut Option<LoopError>,
    ) {
        let error = match ran {
            Ok(output) => {
                results.finish(index, output);
                self.tell_after(index, results).await.err()
            }
            Err(error) => {
                self.tell_failed(index, results, &error).await;
                results.fail(index, &error);
                Some(error)
            }
        };
        if let Some(error) = error {
            first_error.get_or_insert(error);
        }
    }

    async fn tell_after(&self, index: usize, results: &ToolResults<'_>) -> Result<(), LoopError> {
        let (Some(call), Some(output)) = (results.calls().get(index), results.output(index)) else {
            return Ok(());
        };
        if S::RESULTS {
            let (id, name) = (call.id.clone(), call.name.clone());
            self.sink
                .emit(StreamEvent::ToolResult {
                    id,
                    name,
                    output: output.clone(),
                })
                .await;
        }
        let event = HookEvent::PostToolExecution {
            tool_name: &call.name,
            output,
        };
        self.hooks.in_call(&call.id).ask(event).await.map(drop)
    }

    async fn tell_failed(&self, index: usize, results: &ToolResults<'_>, error: &LoopError) {
        if let Some(call) = results.calls().get(index) {
            let event = HookEvent::ToolError {
                tool_name: &call.name,
                error,
            };
            self.hooks.in_call(&call.id).tell(event).await;
        }
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
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(duration).await;
        }
    }
}

#[cfg(target_family = "wasm")]
fn grace(_duration: Duration) -> impl Future<Output = ()> {
    std::future::ready(())
}
