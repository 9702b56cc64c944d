//! A durable context without a journal, [`LocalDurableContext`].

mod attempts;
mod signals;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DeltaSink, DurableContext,
    DurableError, Progress, Provider, ProviderError, RequestRef, ResponseEnd, StreamEvent,
    ToolCall, ToolContext, ToolEffect, ToolError, ToolInvocation, ToolOutput, ToolSet,
    WasmCompatSend, parse_signal,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use attempts::{Attempts, TimeLimit, sleep};
pub use signals::LocalSignals;

/// A [`DurableContext`] for development and tests. It calls the provider and the tools directly and keeps no
/// journal, so a run does not survive its process.
///
/// An agent with it behaves as one without, so that code for a durable engine can be written and
/// tried on one machine: deltas stream through, the calls of a parallel batch run at the same time,
/// and cancelling the run drops what it does. As with every durable context, hooks hear of the results of
/// a parallel batch once all are there.
///
/// # What of the options holds
///
/// - [`start_to_close_timeout`](ActivityOptions::start_to_close_timeout) holds for each attempt. A
///   call of the model fails with [`ProviderError::Timeout`]; while the reader of a stream is waited
///   for, its time stands still. A tool fails with [`ToolError::ExecutionFailed`], and its
///   [`cancellation_token`](ToolContext::cancellation_token) is cancelled.
/// - [`retry_policy`](ActivityOptions::retry_policy) holds as far as a repetition makes sense. A call
///   of the model is made again after an error that [may pass](ProviderError::is_retryable) or a
///   broken stream; the reader gets [`StreamEvent::Reset`]. A wait that the provider asks for is kept,
///   unless it is longer than `maximum_interval`: then the error stands. A tool is run again after
///   [`ToolError::ExecutionFailed`] if it declares [`ToolEffect::Pure`] or
///   [`ToolEffect::Idempotent`]. Without a policy nothing is tried again.
/// - [`heartbeat_timeout`](ActivityOptions::heartbeat_timeout) does not hold: nothing here beats.
///
/// What a failed attempt at a call of the model took does not count in the run's usage: a durable context
/// gives back an answer or an error, and no tokens beside it.
///
/// Time is tokio's. Outside of a tokio runtime no limit holds, and retries come without a wait.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use neuron_runtime::LocalDurableContext;
/// use neuron_testing::ScriptedProvider;
/// use neuron_tool::ToolRegistry;
/// use neuron_types::{DurableContext, DurableError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let my_provider = ScriptedProvider::new(["Hi!"]);
/// let durable = LocalDurableContext::new(Arc::new(my_provider), Arc::new(ToolRegistry::new()));
///
/// // What a person or another service sends while the run waits.
/// let signals = durable.signals();
/// signals.send("approved", true)?;
///
/// let approved: Option<bool> = durable.wait_for_signal("approved", Duration::from_secs(60)).await?;
/// assert_eq!(approved, Some(true));
/// # Ok(())
/// # }
/// ```
pub struct LocalDurableContext<P> {
    provider: Arc<P>,
    tools: Arc<dyn ToolSet>,
    signals: LocalSignals,
}

impl<P: Provider> LocalDurableContext<P> {
    /// Calls this provider and these tools.
    #[must_use]
    pub fn new(provider: Arc<P>, tools: Arc<dyn ToolSet>) -> Self {
        Self { provider, tools, signals: LocalSignals::default() }
    }

    /// Returns the handle that sends signals to this context.
    #[must_use]
    pub fn signals(&self) -> LocalSignals {
        self.signals.clone()
    }

    /// Makes one attempt to stream a response.
    async fn stream_once(
        &self,
        request: RequestRef<'_>,
        limit: Duration,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, Broken> {
        let mut limit = TimeLimit::new(limit);
        let timed_out = |limit: &TimeLimit| ProviderError::Timeout(limit.whole());
        let opened = limit.hold(self.provider.complete_stream_ref(request)).await;
        let mut events = opened.ok_or_else(|| timed_out(&limit))??.receiver;
        let mut end = ResponseEnd::default();
        loop {
            let event = limit.hold(events.recv()).await.ok_or_else(|| timed_out(&limit))?;
            let Some(event) = event else {
                return Ok(end.finish()?);
            };
            let is_final = matches!(&event, StreamEvent::Error(error) if error.is_final());
            match end.take(event) {
                Ok(Progress::Done(response)) => return Ok(*response),
                Ok(Progress::Event(Some(delta))) => sink.send(delta).await,
                Ok(_) => {}
                Err(error) => return Err(Broken { may_pass: !is_final, ..Broken::from(error) }),
            }
        }
    }

    async fn run_tool(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
        options: &ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let effect = self.tools.get(&call.name).map(|tool| tool.effect());
        let may_repeat = matches!(effect, Some(ToolEffect::Pure | ToolEffect::Idempotent));
        let mut attempts = Attempts::new(options);
        loop {
            let error = match self.run_tool_once(call, ctx, options).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            let wait = match error {
                ToolError::ExecutionFailed(_) if may_repeat => attempts.next(error.kind(), None),
                _ => None,
            };
            let Some(wait) = wait else {
                return Err(DurableError::Tool(error));
            };
            tracing::debug!(tool = call.name, %error, ?wait, "a tool failed; it is run again");
            if ctx.cancellation_token.run_until_cancelled(sleep(wait)).await.is_none() {
                return Err(DurableError::Tool(ToolError::Cancelled));
            }
        }
    }

    async fn run_tool_once(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
        options: &ActivityOptions,
    ) -> Result<ToolOutput, ToolError> {
        let token = ctx.cancellation_token.child_token();
        // Cancelled at the limit, and when the call is dropped halfway: that reaches what the tool
        // started elsewhere.
        let guard = token.clone().drop_guard();
        let ctx = ToolContext { cancellation_token: token, ..ctx.clone() };
        let mut limit = TimeLimit::new(options.start_to_close_timeout);
        let Some(ran) = limit.hold(self.tools.call(call, &ctx, None)).await else {
            let text = format!("`{}` exceeded its time limit of {:?}", call.name, limit.whole());
            let error = std::io::Error::new(std::io::ErrorKind::TimedOut, text);
            return Err(ToolError::ExecutionFailed(Box::new(error)));
        };
        guard.disarm();
        ran
    }
}

/// Calls the provider and the tools. The type's documentation lists the supported options.
impl<P: Provider> DurableContext for LocalDurableContext<P> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.execute_llm_call_ref(request.view(), options).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let call = ToolCall { id: ctx.call_id.clone(), name: tool_name.to_owned(), input };
        self.run_tool(&call, ctx, &options).await
    }

    /// Waits for a signal of [`LocalSignals`]. One that came before counts. Each goes to one waiter,
    /// the oldest first; one that is not a `T` is used up.
    ///
    /// Cancel safe: a signal is not lost when the future is dropped.
    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        parse_signal(self.signals.receive(signal_name, timeout).await?)
    }

    /// Returns `false`, because there is no journal that could grow.
    fn should_continue_as_new(&self) -> bool {
        false
    }

    /// Returns an error, because there is no engine that could start a new execution.
    async fn continue_as_new(&self, _state: Value) -> Result<(), DurableError> {
        let text = "a LocalDurableContext cannot continue as new: no engine would start the new \
                    execution; use a durable engine's context";
        Err(DurableError::Other(text.into()))
    }

    async fn sleep(&self, duration: Duration) {
        sleep(duration).await;
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let mut attempts = Attempts::new(&options);
        loop {
            let mut limit = TimeLimit::new(options.start_to_close_timeout);
            let error = match limit.hold(self.provider.complete_ref(request)).await {
                Some(Ok(response)) => return Ok(response),
                Some(Err(error)) => error,
                None => ProviderError::Timeout(limit.whole()),
            };
            let broken = Broken::from(error);
            let Some(wait) = broken.wait(&mut attempts) else {
                return Err(DurableError::Provider(broken.error));
            };
            tracing::debug!(error = %broken.error, ?wait, "a call of the model failed; it is made again");
            sleep(wait).await;
        }
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        let mut attempts = Attempts::new(&options);
        loop {
            let limit = options.start_to_close_timeout;
            let broken = match self.stream_once(request, limit, sink).await {
                Ok(response) => return Ok(response),
                Err(broken) => broken,
            };
            let Some(wait) = broken.wait(&mut attempts) else {
                return Err(DurableError::Provider(broken.error));
            };
            tracing::debug!(error = %broken.error, ?wait, "the model's stream broke; the call is made again");
            let (attempt, error) = (attempts.begun(), broken.error.into());
            sink.send(StreamEvent::Reset { attempt, error }).await;
            sleep(wait).await;
        }
    }

    /// Runs all calls at the same time. One that fails does not stop the others.
    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let run = |invocation: ToolInvocation| {
            let options = &options;
            async move {
                let work = self.run_tool(&invocation.call, &invocation.ctx, options);
                invocation.scope.run(work).await
            }
        };
        join_all(batch.into_iter().map(run)).await
    }
}

/// Clones share provider, tools and signals.
impl<P> Clone for LocalDurableContext<P> {
    fn clone(&self) -> Self {
        Self {
            provider: self.provider.clone(),
            tools: self.tools.clone(),
            signals: self.signals.clone(),
        }
    }
}

impl<P> fmt::Debug for LocalDurableContext<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDurableContext").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// A call of the model that failed.
struct Broken {
    error: ProviderError,
    /// True if the same call may succeed later.
    may_pass: bool,
}

impl From<ProviderError> for Broken {
    fn from(error: ProviderError) -> Self {
        let may_pass = error.is_retryable() || matches!(error, ProviderError::StreamError(_));
        Self { error, may_pass }
    }
}

impl Broken {
    /// Returns the wait before another attempt. `None` if the error is final.
    fn wait(&self, attempts: &mut Attempts) -> Option<Duration> {
        self.may_pass.then(|| attempts.next(self.error.kind(), self.error.retry_after())).flatten()
    }
}
