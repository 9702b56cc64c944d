//! An agent whose provider, tools, strategy, hooks and durable context return `Poll::Pending` before they answer. A
//! test can therefore interrupt a run at each of these places.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt;
use futures_util::future::join_all;
use neuron_context::SlidingWindowStrategy;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, ContextError, ContextStrategy,
    DurableContext, DurableError, HookAction, HookError, HookEvent, HookScope, Message,
    ObservabilityHook, Provider, ProviderError, StopReason, StreamHandle, StreamReceiver,
    ToolContext, ToolDefinition, ToolDyn, ToolError, ToolInvocation, ToolOutput, WasmBoxedFuture,
    transcript,
};
use serde_json::{Value, json};

use crate::support::*;

/// The message of a planned panic.
pub(crate) const PLANNED: &str = "a planned panic";

/// The origin of the wake-up of a waiting task.
#[derive(Clone, Copy, Default)]
pub(crate) enum WokenBy {
    #[default]
    Itself,
    AThread,
}

/// A future that returns `Poll::Pending` the given number of times before it is ready.
pub(crate) struct Waits(u64, WokenBy);

impl Waits {
    pub(crate) fn new(times: u64) -> Self {
        Self(times, WokenBy::Itself)
    }
}

impl Future for Waits {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        match self.1 {
            WokenBy::Itself => cx.waker().wake_by_ref(),
            WokenBy::AThread => {
                let waker = cx.waker().clone();
                std::thread::spawn(move || waker.wake());
            }
        }
        Poll::Pending
    }
}

/// A counter of the uses of one part of the agent. The use with the index `at` panics.
#[derive(Clone, Default)]
struct Trap {
    at: Option<usize>,
    passed: Arc<AtomicUsize>,
}

impl Trap {
    fn pass(&self) {
        let index = self.passed.fetch_add(1, Ordering::SeqCst);
        assert!(self.at != Some(index), "{PLANNED}");
    }
}

/// A provider that waits before each response, and rejects a request with an invalid history.
#[derive(Clone)]
pub(crate) struct Strict {
    script: ScriptedProvider,
    woken_by: WokenBy,
    trap: Trap,
}

impl Strict {
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        Self::recording(replies).0
    }

    /// Returns the provider together with its scripted provider, which records the requests.
    pub(crate) fn recording(replies: Vec<Reply>) -> (Self, ScriptedProvider) {
        let script = ScriptedProvider::new(replies);
        let woken_by = WokenBy::Itself;
        (Self { script: script.clone(), woken_by, trap: Trap::default() }, script)
    }
}

impl Provider for Strict {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        transcript::validate(&request.messages).unwrap();
        Waits(2, self.woken_by).await;
        self.trap.pass();
        self.script.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        transcript::validate(&request.messages).unwrap();
        Waits(1, self.woken_by).await;
        let events = self.script.complete_stream(request).await?.receiver;
        let (woken_by, trap) = (self.woken_by, self.trap.clone());
        trap.pass();
        let slow = events.then(move |event| async move {
            Waits(1, woken_by).await;
            event
        });
        Ok(StreamReceiver::new(slow).into())
    }
}

/// A tool that waits as its arguments say, and logs the idempotency keys of its calls.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    pub(crate) keys: Log,
    woken_by: WokenBy,
    trap: Trap,
}

impl ToolDyn for Waiting {
    fn name(&self) -> &str {
        "act"
    }

    fn definition(&self) -> ToolDefinition {
        Act { name: "act", log: Log::default() }.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.keys.push(&ctx.idempotency_key);
            Waits(input["waits"].as_u64().unwrap(), self.woken_by).await;
            self.trap.pass();
            if input["retry"].is_boolean() {
                return Err(ToolError::ModelRetry("again".into()));
            }
            if input["fail"].is_boolean() {
                return Err(ToolError::InvalidInput("no".into()));
            }
            Ok(ToolOutput::text("fine"))
        })
    }
}

/// A context strategy that keeps a sliding window of messages, and waits before it compacts.
pub(crate) struct SlowWindow(SlidingWindowStrategy, Trap);

impl SlowWindow {
    pub(crate) fn new() -> Self {
        Self(SlidingWindowStrategy::new(4, 1), Trap::default())
    }
}

impl ContextStrategy for SlowWindow {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > 4
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Waits::new(2).await;
        self.1.pass();
        self.0.compact(messages).await
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.0.token_estimate(messages)
    }
}

/// A hook that logs every event, and waits at each event.
pub(crate) struct SlowRecorder(pub(crate) Recorder);

impl ObservabilityHook for SlowRecorder {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let action = self.0.on_event_in(event, scope).await;
        Waits::new(2).await;
        action
    }
}

/// A durable context that runs the given provider and tools, and waits before each operation.
struct Engine(Strict, ToolRegistry);

impl DurableContext for Engine {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.complete(request).await.map_err(DurableError::Provider)
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.1.execute(tool_name, input, ctx).await.map_err(DurableError::Tool)
    }

    no_signals_or_timers!();

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let run = |tool: &ToolInvocation| {
            let (tool, options) = (tool.clone(), options.clone());
            async move {
                let work = self.execute_tool(&tool.call.name, tool.call.input, &tool.ctx, options);
                tool.scope.run(work).await
            }
        };
        join_all(batch.iter().map(run)).await
    }
}

/// The part of the agent that panics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Provider,
    Tool,
    Strategy,
}

/// The configuration of an agent whose parts wait.
#[derive(Clone, Default)]
pub(crate) struct Case {
    /// Set if a tool call of the first response fails.
    pub(crate) fails: bool,
    pub(crate) parallel: bool,
    pub(crate) durable: bool,
    pub(crate) woken_by: WokenBy,
    /// The part that panics, and the index of the use at which it panics.
    pub(crate) panics: Option<(Place, usize)>,
}

pub(crate) struct Built {
    pub(crate) agent: Chat<'static>,
    pub(crate) keys: Log,
    pub(crate) events: Recorder,
}

/// Returns the responses of a scripted provider. If `fails` is set, the first response calls several tools, and one of
/// them fails. Otherwise the run has tool calls, a hint to the model, a paused response, and a compaction. Responses
/// for later runs follow.
pub(crate) fn replies(fails: bool) -> Vec<Reply> {
    let mut replies = if fails {
        vec![calls([json!({"waits": 3}), json!({"waits": 1, "fail": true}), json!({"waits": 2})])]
    } else {
        vec![
            calls([json!({"waits": 3}), json!({"waits": 1, "retry": true}), json!({"waits": 2})])
                .with_text("a text that comes in pieces"),
            Reply::tool_call("d0", "act", json!({"waits": 1})),
            Reply::text("part").stop_reason(StopReason::PauseTurn),
            calls([json!({"waits": 1}), json!({"waits": 5})]),
        ]
    };
    replies.extend((0..6).map(|_| Reply::text("done")));
    replies
}

pub(crate) fn build(case: &Case) -> Built {
    let trap = |place| {
        let at = case.panics.filter(|(panics, _)| *panics == place).map(|(_, at)| at);
        Trap { at, ..Trap::default() }
    };
    let (woken_by, events) = (case.woken_by, Recorder::default());
    let mut provider = Strict::new(replies(case.fails));
    (provider.woken_by, provider.trap) = (woken_by, trap(Place::Provider));
    let tool = Waiting { keys: Log::default(), woken_by, trap: trap(Place::Tool) };
    let mut strategy = SlowWindow::new();
    strategy.1 = trap(Place::Strategy);
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(tool.clone()));
    let mut agent = Chat::builder(provider.clone(), strategy)
        .tools(tools.clone())
        .parallel_tool_execution(case.parallel)
        .hook(SlowRecorder(events.clone()))
        .build();
    let keys = tool.keys.clone();
    if case.durable {
        agent.set_durability(Engine(provider, tools));
    }
    Built { agent, keys, events }
}

/// A number of polls that is larger than any run in these tests needs.
pub(crate) const TO_THE_END: usize = 10_000;

/// Polls a future up to `times` times, even if nothing woke it. Returns `None` if it is still pending.
pub(crate) fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}
