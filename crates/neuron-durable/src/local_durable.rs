//! A durable context without an engine and a journal ([`LocalDurableContext`]).

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
    ToolCall, ToolContext, ToolError, ToolInvocation, ToolOutput, ToolSet, WasmCompatSend,
    parse_signal,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use attempts::{Attempts, TimeLimit, sleep};
pub use signals::LocalSignals;

/// A [`DurableContext`] for development and tests. It calls the provider and the tools directly. It keeps no journal,
/// so a run does not survive its process.
///
/// An agent behaves the same with this context as without a durable context. Code for a durable engine can therefore be
/// written and tested on one machine. Deltas are streamed, the calls of a parallel batch run concurrently, and
/// cancelling the run drops its pending work. There is one difference, as with every durable context: hooks receive the
/// results of a parallel batch only after all of its calls have ended.
///
/// # Supported options
///
/// - [`start_to_close_timeout`](ActivityOptions::start_to_close_timeout) limits each attempt. A model call fails with
///   [`ProviderError::Timeout`]. The time in which a stream waits for its reader does not count. A tool fails with
///   [`ToolError::ExecutionFailed`], and its [`cancellation_token`](ToolContext::cancellation_token) is cancelled.
/// - [`retry_policy`](ActivityOptions::retry_policy) sets the retries. Without a policy there are no retries. A model
///   call is retried after a [retryable](ProviderError::is_retryable) error or a broken stream. The reader of the
///   stream receives [`StreamEvent::Reset`]. A delay that the provider requests is respected. If it exceeds
///   `maximum_interval`, the call is not retried. A tool is retried after [`ToolError::ExecutionFailed`] if it declares
///   [`Pure`](neuron_types::ToolEffect::Pure) or [`Idempotent`](neuron_types::ToolEffect::Idempotent).
/// - [`heartbeat_timeout`](ActivityOptions::heartbeat_timeout) is ignored, because there are no heartbeats.
///
/// The run's usage does not contain the tokens of failed attempts. A durable context returns either a response or an
/// error, and an error has no token counts.
///
/// All timers are tokio's. Outside of a tokio runtime there are no timeouts, and retries follow without a delay.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use neuron_durable::LocalDurableContext;
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
    /// Creates a context that calls this provider and these tools directly.
    #[must_use]
    pub fn new(provider: Arc<P>, tools: Arc<dyn ToolSet>) -> Self {
        Self { provider, tools, signals: LocalSignals::default() }
    }

    /// Returns the handle that sends signals to this context.
    #[must_use]
    pub fn signals(&self) -> LocalSignals {
        self.signals.clone()
    }

    /// Calls the model until an attempt succeeds, or no further attempt may be made. Deltas are sent to `sink`, if
    /// there is one.
    async fn call_model(
        &self,
        request: RequestRef<'_>,
        options: &ActivityOptions,
        sink: Option<&dyn DeltaSink>,
    ) -> Result<CompletionResponse, DurableError> {
        let mut attempts = Attempts::new(options);
        loop {
            let limit = TimeLimit::new(options.start_to_close_timeout);
            let answer = match sink {
                Some(sink) => self.stream_once(request, limit, sink).await,
                None => self.complete_once(request, limit).await,
            };
            let error = match answer {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let wait = match error.is_retryable_from_start() {
                true => attempts.next(error.kind(), error.retry_after()),
                false => None,
            };
            let Some(wait) = wait else {
                return Err(DurableError::Provider(error));
            };
            tracing::debug!(%error, ?wait, "a call of the model failed; it is made again");
            if let Some(sink) = sink {
                // The reader must discard the deltas of the broken attempt.
                let (attempt, error) = (attempts.begun(), error.into());
                sink.send(StreamEvent::Reset { attempt, error }).await;
            }
            sleep(wait).await;
        }
    }

    async fn complete_once(
        &self,
        request: RequestRef<'_>,
        mut limit: TimeLimit,
    ) -> Result<CompletionResponse, ProviderError> {
        let answer = limit.hold(self.provider.complete_ref(request)).await;
        answer.ok_or_else(|| ProviderError::Timeout(limit.whole()))?
    }

    /// Makes one attempt to stream a response. Deltas are sent to `sink`.
    async fn stream_once(
        &self,
        request: RequestRef<'_>,
        mut limit: TimeLimit,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, ProviderError> {
        let timed_out = |limit: &TimeLimit| ProviderError::Timeout(limit.whole());
        let opened = limit.hold(self.provider.complete_stream_ref(request)).await;
        let mut events = opened.ok_or_else(|| timed_out(&limit))??.receiver;
        let mut end = ResponseEnd::default();
        loop {
            let event = limit.hold(events.recv()).await.ok_or_else(|| timed_out(&limit))?;
            let Some(event) = event else {
                return end.finish();
            };
            match end.take(event)? {
                Progress::Done(response) => return Ok(*response),
                Progress::Event(Some(delta)) => sink.send(delta).await,
                _ => {}
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
        // Another attempt of any other tool could repeat its effect.
        let may_repeat = effect.unwrap_or_default().may_repeat();
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
        // The guard cancels the token after a timeout, and if the call is dropped. This also stops work that the tool
        // started on other tasks.
        let guard = token.clone().drop_guard();
        let ctx = ToolContext { cancellation_token: token, ..ctx.clone() };
        let mut limit = TimeLimit::new(options.start_to_close_timeout);
        let Some(ran) = limit.hold(self.tools.call(call, &ctx, None)).await else {
            let text = format!("`{}` exceeded its time limit of {:?}", call.name, limit.whole());
            // The kind `TimedOut` marks the outcome as uncertain, because the tool may have had its effect.
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

    /// Waits for a signal that was sent with [`LocalSignals`], before or after this call. Returns `None` at the
    /// timeout. Each signal is received once, in the order in which they were sent. If a signal cannot be parsed as
    /// `T`, it is lost and the error is returned.
    ///
    /// Cancel safe. No signal is lost if the future is dropped.
    async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
        &self,
        signal_name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        parse_signal(self.signals.receive(signal_name, timeout).await?)
    }

    /// Returns `false`, because there is no journal that could grow too long.
    fn should_continue_as_new(&self) -> bool {
        false
    }

    /// Returns an error, because there is no engine that could start a new execution of the run.
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
        self.call_model(request, &options, None).await
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        self.call_model(request, &options, Some(sink)).await
    }

    /// Runs all calls of the batch concurrently. A failed call does not stop the other calls.
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

/// A clone shares the provider, the tools and the signals of the original.
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
