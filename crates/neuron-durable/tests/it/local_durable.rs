//! Tests of `LocalDurableContext` and its options. An agent must behave the same with and without it.

use std::future::Future;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use neuron_durable::LocalDurableContext;
use neuron_loop::LoopError;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, DeltaSink, DurableContext, DurableError, HookAction,
    HookError, HookEvent, Message, ObservabilityHook, PermissionDecision, PermissionPolicy,
    Provider, ProviderError, RetryPolicy, StreamEvent, ToolCall, ToolContext, ToolEffect,
    ToolError, ToolInvocation, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::*;

/// A hook that logs every event.
#[derive(Clone, Default)]
struct Events(Log);

impl ObservabilityHook for Events {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.0.push(format!("{event:?}"));
        Ok(HookAction::Continue)
    }
}

/// A permission policy that requires an approval for the tool `ask`.
struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, tool_name: &str, _input: &Value) -> PermissionDecision {
        match tool_name {
            "ask" => PermissionDecision::Ask("may it?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// The observable outcome of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: String,
    history: Vec<Message>,
    usage: String,
    hooks: Vec<String>,
    tools: Vec<String>,
    events: Vec<String>,
    requests: Vec<CompletionRequest>,
}

async fn run_case(replies: Vec<Reply>, durable: bool, streamed: bool, parallel: bool) -> Seen {
    let (provider, hook, log) = (ScriptedProvider::new(replies), Events::default(), Log::default());
    let tools = registry([Act::new("act", &log), Act::new("ask", &log)]);
    let builder = bare(provider.clone())
        .tools(tools.clone())
        .hook(hook.clone())
        .permission_policy(Asks)
        .max_turns(3)
        .config(|config| {
            config.pause_for_approval = true;
            config.parallel_tool_execution = parallel;
        });
    let context = LocalDurableContext::new(Arc::new(provider.clone()), Arc::new(tools));
    let mut agent = Chat::new(builder);
    let ctx = ToolContext { run_id: "run".into(), ..Default::default() };
    let mut run = agent.run("go", &ctx);
    if durable {
        run = run.durable(context);
    }
    let mut events = Vec::new();
    let outcome = match streamed {
        true => {
            events = run.stream().map(|event| format!("{event:?}")).collect().await;
            String::new()
        }
        false => format!("{:?}", run.await),
    };
    let (history, usage) = (agent.messages().to_vec(), format!("{:?}", agent.conversation.usage()));
    let (hooks, tools, requests) = (hook.0.lines(), log.lines(), provider.requests());
    Seen { outcome, history, usage, hooks, tools, events, requests }
}

/// Asserts that an agent behaves the same with and without a `LocalDurableContext`. `script` returns the model's
/// replies. Checks streamed and plain runs, with parallel and sequential tools.
async fn check_same(script: impl Fn() -> Vec<Reply>) {
    for (streamed, parallel) in [(false, false), (false, true), (true, false), (true, true)] {
        let without = run_case(script(), false, streamed, parallel).await;
        let with = run_case(script(), true, streamed, parallel).await;
        assert_eq!(with, without, "streamed: {streamed}, parallel: {parallel}");
        assert!(!without.hooks.is_empty());
    }
}

/// A tool with the name `ask` that accepts only a number as its arguments, and logs each call.
struct Transfer(Log);

impl neuron_types::ToolDyn for Transfer {
    fn name(&self) -> &str {
        "ask"
    }

    fn definition(&self) -> neuron_types::ToolDefinition {
        Act::new("ask", &self.0).definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.push("transferred");
        Box::pin(std::future::ready(Ok(ToolOutput::text("sent"))))
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        match input.is_number() {
            true => Ok(()),
            false => Err(ToolError::InvalidInput("no number".into())),
        }
    }
}

/// A call with invalid arguments must get no approval request, and must not reach the durable context. The registry of
/// the context has a middleware that would make the arguments valid.
#[tokio::test]
async fn invalid_call_does_not_reach_the_context() {
    let replies = [Reply::tool_call("c", "ask", json!("seven")), Reply::text("done")];
    let (provider, log) = (ScriptedProvider::new(replies), Log::default());
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Transfer(log.clone())));
    tools.add_middleware(neuron_tool::tool_middleware_fn(
        |call: &ToolCall, ctx: &ToolContext, next: neuron_tool::Next<'_>| {
            let (call, ctx) = (ToolCall { input: json!(7), ..call.clone() }, ctx.clone());
            Box::pin(async move { next.run(&call, &ctx).await })
        },
    ));
    let mut agent = Chat::new(
        bare(provider.clone()).tools(tools.clone()).permission_policy(Asks).config(|config| {
            config.pause_for_approval = true;
            config.tool_errors = neuron_loop::ToolErrorPolicy::ReturnToModel;
        }),
    );
    let context = LocalDurableContext::new(Arc::new(provider), Arc::new(tools));
    agent.run("go", &ToolContext::default()).durable(context).await.unwrap();
    assert_eq!(log.lines(), [""; 0]);
    assert!(format!("{:?}", agent.messages()[2]).contains("invalid input: no number"));
}

#[tokio::test(start_paused = true)]
async fn runs_equal_runs_without_a_context() {
    let act = |input: Value| Reply::tool_call("c1", "act", input);
    let done = || Reply::text("a whole answer, in pieces").thinking("hm", "signed").chunk_chars(3);
    check_same(|| vec![done()]).await;
    check_same(|| vec![act(json!({ "text": "one" })).with_text("I look"), done()]).await;
    check_same(|| vec![act(json!({ "retry": "use another" })), done()]).await;
    check_same(|| vec![act(json!({ "fail": "disk full" })), done()]).await;
    check_same(|| vec![act(json!({ "panic": true })), done()]).await;
    check_same(|| vec![Reply::tool_call("c1", "unknown", json!({})), done()]).await;
    check_same(|| vec![Reply::tool_call("c1", "ask", json!({})), done()]).await;
    check_same(|| vec![act(ToolCall::invalid_json_input("{")), done()]).await;
    check_same(|| (0..4).map(|_| act(json!({}))).collect()).await;
    check_same(|| vec![Reply::error(ProviderError::Authentication("bad key".into()))]).await;
    check_same(|| vec![Reply::error(ProviderError::ServiceUnavailable("529".into())), done()])
        .await;
    check_same(|| vec![done().fail_after(3, ProviderError::Network("reset".into())), done()]).await;
    check_same(|| vec![done().end_early_after(2), done()]).await;
    check_same(Vec::new).await;
}

#[tokio::test(start_paused = true)]
async fn batches_equal_batches_without_a_context() {
    let batch = |inputs: Vec<Value>| {
        let named = inputs.into_iter().enumerate();
        vec![
            Reply::tool_calls(named.map(|(index, input)| (format!("c{index}"), "act", input))),
            Reply::text("done"),
        ]
    };
    let text = |text: &str, delay: u64| json!({ "text": text, "delay": delay });
    check_same(|| batch(vec![text("a", 10), text("b", 20), text("c", 30)])).await;
    check_same(|| batch(vec![text("a", 0), json!({ "retry": "no" }), text("c", 0)])).await;
}

#[tokio::test(start_paused = true)]
async fn parallel_batch_runs_concurrently_and_keeps_its_order() {
    let log = Log::default();
    let context = LocalDurableContext::new(
        Arc::new(ScriptedProvider::new(Vec::<Reply>::new())),
        Arc::new(registry([Act::new("act", &log)])),
    );
    let invocation = |index: u64| {
        let input = json!({ "text": index.to_string(), "delay": 100 - index });
        let call = ToolCall { id: format!("c{index}"), name: "act".into(), input };
        ToolInvocation::new(
            call,
            ToolContext { call_id: format!("c{index}"), ..Default::default() },
        )
    };
    let start = Instant::now();
    let results = context.execute_tools((0..64).map(invocation).collect(), options(None)).await;
    let texts = results.into_iter().map(|result| result.unwrap().content[0].to_string());
    assert_eq!(
        texts.collect::<Vec<_>>(),
        (0..64).map(|index| index.to_string()).collect::<Vec<_>>()
    );
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    assert!(log.lines()[64].starts_with("end act c63"));
    assert!(context.execute_tools(Vec::new(), options(None)).await.is_empty());
}

fn options(retry_policy: Option<RetryPolicy>) -> ActivityOptions {
    let start_to_close_timeout = Duration::from_secs(10);
    ActivityOptions { start_to_close_timeout, heartbeat_timeout: None, retry_policy }
}

fn three_times() -> Option<RetryPolicy> {
    Some(RetryPolicy {
        initial_interval: Duration::from_secs(1),
        backoff_coefficient: 2.0,
        maximum_attempts: 3,
        maximum_interval: Duration::from_secs(30),
        non_retryable_errors: vec!["ModelLoading".into()],
    })
}

fn context_of(replies: Vec<Reply>) -> (LocalDurableContext<ScriptedProvider>, ScriptedProvider) {
    let provider = ScriptedProvider::new(replies);
    let tools = Arc::new(ToolRegistry::new());
    (LocalDurableContext::new(Arc::new(provider.clone()), tools), provider)
}

fn request() -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() }
}

fn unavailable() -> Reply {
    Reply::error(ProviderError::ServiceUnavailable("529".into()))
}

#[tokio::test(start_paused = true)]
async fn retryable_model_call_is_retried_with_growing_delays() {
    let (context, provider) = context_of(vec![unavailable(), unavailable(), Reply::text("hi")]);
    let start = Instant::now();
    let answer = context.execute_llm_call(request(), options(three_times())).await.unwrap();
    assert_eq!((answer.message.text().as_str(), start.elapsed().as_secs()), ("hi", 3));
    assert_eq!(provider.requests(), [request(), request(), request()]);

    let (context, provider) = context_of(vec![unavailable(), unavailable(), unavailable()]);
    let error = context.execute_llm_call(request(), options(three_times())).await.unwrap_err();
    assert!(matches!(error, DurableError::Provider(ProviderError::ServiceUnavailable(_))));
    assert_eq!(provider.calls(), 3);
}

#[tokio::test]
async fn final_model_error_is_not_retried() {
    for (error, policy) in [
        (ProviderError::InvalidRequest("no".into()), three_times()),
        (ProviderError::ModelLoading("soon".into()), three_times()),
        (ProviderError::RateLimit { retry_after: Some(Duration::from_secs(31)) }, three_times()),
        (ProviderError::ServiceUnavailable("529".into()), None),
    ] {
        let kind = error.kind();
        let (context, provider) = context_of(vec![Reply::error(error), Reply::text("hi")]);
        let error = context.execute_llm_call(request(), options(policy)).await.unwrap_err();
        assert!(matches!(error, DurableError::Provider(error) if error.kind() == kind));
        assert_eq!(provider.calls(), 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_each_attempt_of_a_model_call() {
    let (context, provider) = context_of(vec![Reply::hang(), Reply::hang(), Reply::text("hi")]);
    let start = Instant::now();
    let answer =
        context.execute_llm_call_ref(request().view(), options(three_times())).await.unwrap();
    assert_eq!(answer.message.text(), "hi");
    assert_eq!(start.elapsed().as_secs(), 10 + 1 + 10 + 2);
    assert_eq!(provider.open_streams(), 0);

    let (context, _) = context_of(vec![Reply::hang()]);
    let error = context.execute_llm_call_ref(request().view(), options(None)).await.unwrap_err();
    assert_eq!(error.to_string(), "provider error: timeout after 10s");
}

/// A delta sink that logs all events. It waits for the duration `slow` before it accepts an event.
#[derive(Default)]
struct Reader {
    log: Log,
    slow: Duration,
    /// Timer of the event that waits to be accepted. `None` between two events.
    wait: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
}

impl DeltaSink for Reader {
    fn poll_send(&self, cx: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        let mut wait = self.wait.lock().unwrap();
        let sleep = wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.slow)));
        std::task::ready!(sleep.as_mut().poll(cx));
        *wait = None;
        self.log.push(match event.take().unwrap() {
            StreamEvent::TextDelta(text) => text,
            StreamEvent::Reset { attempt, error } => format!("reset {attempt}: {error}"),
            event => format!("{event:?}"),
        });
        Poll::Ready(())
    }
}

#[tokio::test(start_paused = true)]
async fn broken_stream_is_reset_and_retried() {
    let network = ProviderError::Network("reset".into());
    let (context, _) = context_of(vec![
        Reply::text("abcd").chunk_chars(2).fail_after(1, network),
        Reply::text("abcd").chunk_chars(2).end_early_after(2),
        Reply::text("efgh").chunk_chars(2),
    ]);
    let reader = Reader::default();
    let answer =
        context.execute_llm_stream(request().view(), options(three_times()), &reader).await;
    assert_eq!(answer.unwrap().message.text(), "efgh");
    assert_eq!(
        reader.log.lines(),
        [
            "ab",
            "reset 2: network error: reset",
            "ab",
            "cd",
            "reset 3: stream error: the stream ended before the answer was complete",
            "ef",
            "gh"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_a_stalled_stream_but_not_a_slow_reader() {
    let (context, provider) = context_of(vec![Reply::text("abcd").chunk_chars(1).hang_after(2)]);
    let reader = Reader { slow: Duration::from_secs(60), ..Default::default() };
    let start = Instant::now();
    let answer = context.execute_llm_stream(request().view(), options(None), &reader).await;
    assert_eq!(answer.unwrap_err().to_string(), "provider error: timeout after 10s");
    assert_eq!((reader.log.lines().join(""), start.elapsed().as_secs()), ("ab".into(), 130));
    assert_eq!(provider.open_streams(), 0);

    let (context, _) = context_of(vec![Reply::text("abcd").chunk_chars(1)]);
    let answer = context.execute_llm_stream(request().view(), options(None), &reader).await;
    assert_eq!(answer.unwrap().message.text(), "abcd");
}

#[tokio::test]
async fn stream_error_marked_final_is_not_retried() {
    struct Final(ScriptedProvider);

    impl Provider for Final {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<neuron_types::CompletionResponse, ProviderError> {
            self.0.complete(request).await
        }

        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<neuron_types::StreamHandle, ProviderError> {
            self.0.complete(request).await.ok();
            let error = neuron_types::StreamError::non_retryable("the model is gone");
            let events = futures_util::stream::iter([StreamEvent::Error(error)]);
            Ok(neuron_types::StreamReceiver::new(events).into())
        }
    }

    let provider = ScriptedProvider::new(["a", "b"]);
    let tools = Arc::new(ToolRegistry::new());
    let context = LocalDurableContext::new(Arc::new(Final(provider.clone())), tools);
    let reader = Reader::default();
    let answer =
        context.execute_llm_stream(request().view(), options(three_times()), &reader).await;
    assert_eq!(answer.unwrap_err().to_string(), "provider error: the model is gone");
    assert_eq!(provider.calls(), 1);
}

/// Makes one call of the tool `act` through a `LocalDurableContext`. Returns the result, the number of attempts, and
/// the elapsed seconds.
async fn run_act(
    effect: ToolEffect,
    input: Value,
    policy: Option<RetryPolicy>,
) -> (Result<ToolOutput, String>, usize, u64) {
    let log = Log::default();
    let tools = registry([Act { effect, ..Act::new("act", &log) }]);
    let provider = Arc::new(ScriptedProvider::new(Vec::<Reply>::new()));
    let context = LocalDurableContext::new(provider, Arc::new(tools));
    let ctx = ToolContext { call_id: "c1".into(), ..Default::default() };
    let start = Instant::now();
    let ran = context.execute_tool("act", input, &ctx, options(policy)).await;
    let starts = log.lines().iter().filter(|line| *line == "start act c1").count();
    (ran.map_err(|error| error.to_string()), starts, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn only_repeatable_tools_are_retried() {
    let flaky = || json!({ "fail": "disk full", "fail_times": 2 });
    for effect in [ToolEffect::Pure, ToolEffect::Idempotent] {
        let ran = run_act(effect, flaky(), three_times()).await;
        assert_eq!(ran, (Ok(ToolOutput::text("ok")), 3, 3));
    }
    let failed = || Err("tool error: execution failed: disk full".to_owned());
    assert_eq!(run_act(ToolEffect::AtMostOnce, flaky(), three_times()).await, (failed(), 1, 0));
    assert_eq!(run_act(ToolEffect::Pure, flaky(), None).await, (failed(), 1, 0));
    let always = json!({ "fail": "disk full" });
    assert_eq!(run_act(ToolEffect::Pure, always, three_times()).await, (failed(), 3, 3));
    let policy = RetryPolicy {
        non_retryable_errors: vec!["ExecutionFailed".into()],
        ..three_times().unwrap()
    };
    assert_eq!(run_act(ToolEffect::Pure, flaky(), Some(policy)).await, (failed(), 1, 0));
    // An error that is not a failure of the tool is returned immediately.
    let (ran, starts, _) = run_act(ToolEffect::Pure, json!({ "retry": "no" }), three_times()).await;
    assert_eq!((ran, starts), (Err("tool error: no".into()), 1));
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_each_attempt_of_a_tool() {
    let hang = || json!({ "hang": true });
    let text = "tool error: execution failed: `act` exceeded its time limit of 10s".to_owned();
    let ran = run_act(ToolEffect::AtMostOnce, hang(), three_times()).await;
    assert_eq!(ran, (Err(text.clone()), 1, 10));
    assert_eq!(run_act(ToolEffect::Pure, hang(), three_times()).await, (Err(text), 3, 33));
}

#[tokio::test(start_paused = true)]
async fn timeout_or_drop_cancels_the_token_of_a_tool() {
    use neuron_tool::tool_middleware_fn;

    for dropped in [false, true] {
        let log = Log::default();
        let mut tools = registry([Act::new("act", &log)]);
        let (sender, receiver) = std::sync::mpsc::channel();
        tools.add_middleware(tool_middleware_fn(move |call, ctx, next| {
            sender.send(ctx.cancellation_token.clone()).unwrap();
            Box::pin(next.run(call, ctx))
        }));
        let context =
            LocalDurableContext::new(Arc::new(ScriptedProvider::new(["a"])), Arc::new(tools));
        let ctx = ToolContext::default();
        let run = context.execute_tool("act", json!({ "hang": true }), &ctx, options(None));
        match dropped {
            true => assert!(run.now_or_never().is_none()),
            false => assert!(run.await.is_err()),
        }
        assert!(receiver.try_recv().unwrap().is_cancelled(), "dropped: {dropped}");
        assert!(!ctx.cancellation_token.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_tool_call_is_not_retried() {
    let log = Log::default();
    let tools = registry([Act { effect: ToolEffect::Pure, ..Act::new("act", &log) }]);
    let context = LocalDurableContext::new(Arc::new(ScriptedProvider::new(["a"])), Arc::new(tools));
    let ctx = ToolContext::default();
    let run = context.execute_tool("act", json!({ "fail": "x" }), &ctx, options(three_times()));
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        ctx.cancellation_token.cancel();
        pending::<()>().await;
    };
    let error = tokio::select! {
        ran = run => ran.unwrap_err(),
        () = cancel => unreachable!(),
    };
    assert!(matches!(error, DurableError::Tool(ToolError::Cancelled)));
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_drops_its_pending_work() {
    for streamed in [false, true] {
        let log = Log::default();
        let tools = registry([Act::new("act", &log)]);
        let replies = [Reply::tool_call("c1", "act", json!({})), Reply::hang()];
        let provider = ScriptedProvider::new(replies);
        let context = LocalDurableContext::new(Arc::new(provider.clone()), Arc::new(tools.clone()));
        let mut agent = Chat::new(bare(provider.clone()).tools(tools));
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        match streamed {
            true => {
                let run = agent.run("go", &ctx).durable(context);
                let events: Vec<_> = run.stream().collect().await;
                assert!(matches!(events.last(), Some(Err(LoopError::Cancelled))));
            }
            false => {
                let ended = agent.run("go", &ctx).durable(context).await;
                assert!(matches!(ended, Err(LoopError::Cancelled)));
            }
        }
        assert_eq!((provider.open_streams(), provider.calls()), (0, 2));
        assert_eq!(agent.messages().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn signals_of_a_name_are_received_once_and_in_order() {
    let (context, _) = context_of(Vec::new());
    let signals = context.signals();
    let wait = |name| context.wait_for_signal::<u32>(name, Duration::from_secs(5));
    for number in [1, 2] {
        signals.send("number", number).unwrap();
    }
    signals.send("other", 7).unwrap();
    assert_eq!(wait("number").await.unwrap(), Some(1));
    assert_eq!(wait("number").await.unwrap(), Some(2));
    let start = Instant::now();
    assert_eq!(wait("number").await.unwrap(), None);
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!(format!("{signals:?}"), "LocalSignals { waiting: 1, .. }");
    // A stored signal is received even with a timeout of zero.
    let other = context.wait_for_signal::<u32>("other", Duration::ZERO).await;
    assert_eq!(other.unwrap(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn dropped_wait_does_not_lose_a_signal() {
    let (context, _) = context_of(Vec::new());
    let forever = Duration::MAX;
    let mut given_up = Box::pin(context.wait_for_signal::<String>("go", forever));
    assert!(given_up.as_mut().now_or_never().is_none());
    let mut waiting = Box::pin(context.wait_for_signal::<String>("go", forever));
    assert!(waiting.as_mut().now_or_never().is_none());
    context.signals().send("go", "one").unwrap();
    drop(given_up);
    assert_eq!(waiting.await.unwrap().as_deref(), Some("one"));

    // A waiter for another name does not block this signal.
    let other = context.wait_for_signal::<u32>("other", forever);
    let mine = context.wait_for_signal::<u32>("mine", Duration::from_secs(1));
    let mut both = Box::pin(futures_util::future::select(Box::pin(other), Box::pin(mine)));
    assert!(both.as_mut().now_or_never().is_none());
    context.signals().send("mine", 1).unwrap();
    let futures_util::future::Either::Right((mine, _)) = both.await else { panic!("mine") };
    assert_eq!(mine.unwrap(), Some(1));

    // Each of several waiters receives one signal.
    let waiters = (0..8).map(|_| context.wait_for_signal::<u32>("n", forever));
    let mut waiters = Box::pin(futures_util::future::join_all(waiters));
    assert!(waiters.as_mut().now_or_never().is_none());
    (0..8).for_each(|number| context.signals().send("n", number).unwrap());
    let mut received: Vec<_> = waiters.await.into_iter().map(|n| n.unwrap().unwrap()).collect();
    received.sort_unstable();
    assert_eq!(received, (0..8).collect::<Vec<_>>());
}

#[tokio::test]
async fn signal_of_another_type_is_an_error() {
    let (context, _) = context_of(Vec::new());
    context.signals().send("go", "text").unwrap();
    let error = context.wait_for_signal::<u32>("go", Duration::ZERO).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid type: string \"text\", expected u32");
    assert!(matches!(error, DurableError::Other(_)));
}

#[tokio::test(start_paused = true)]
async fn continue_as_new_is_an_error_and_sleep_uses_tokio_time() {
    let (context, _) = context_of(Vec::new());
    assert!(!context.should_continue_as_new() && !context.is_replaying());
    assert_eq!(context.run_id(), None);
    let error = context.continue_as_new(json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("a LocalDurableContext cannot continue as new"));
    let (start, before) = (Instant::now(), context.now());
    context.sleep(Duration::from_secs(3600)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(3600));
    assert!(context.now() - before < chrono::TimeDelta::minutes(10));
}

#[test]
fn calls_without_a_tokio_runtime_do_not_wait() {
    let log = Log::default();
    let tools = registry([Act { effect: ToolEffect::Pure, ..Act::new("act", &log) }]);
    let provider = ScriptedProvider::new([unavailable(), Reply::text("hi")]);
    let context = LocalDurableContext::new(Arc::new(provider), Arc::new(tools));
    futures_util::FutureExt::now_or_never(async {
        let answer = context.execute_llm_call(request(), options(three_times())).await;
        assert_eq!(answer.unwrap().message.text(), "hi");
        let input = json!({ "fail": "x", "fail_times": 1 });
        let ctx = ToolContext::default();
        let ran = context.execute_tool("act", input, &ctx, options(three_times())).await;
        assert_eq!(ran.unwrap(), ToolOutput::text("ok"));
        context.sleep(Duration::from_secs(1)).await;
        let waited = context.wait_for_signal::<u32>("go", Duration::from_secs(1)).await;
        assert!(waited.unwrap_err().to_string().contains("needs a tokio runtime"));
    })
    .expect("nothing waits");
}

#[test]
fn debug_prints_the_tools() {
    let (context, _) = context_of(Vec::new());
    assert!(format!("{:?}", context.clone()).starts_with("LocalDurableContext { tools: "));
}
