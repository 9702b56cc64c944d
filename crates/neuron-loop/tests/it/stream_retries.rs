//! Response streams that break, and the repeated model calls that follow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use neuron_loop::{Budget, OnLimit};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DeltaSink, DurableContext,
    DurableError, HookAction, HookError, HookEvent, Message, ObservabilityHook, Provider,
    ProviderError, RequestRef, StreamError, StreamEvent, StreamHandle, StreamReceiver, TokenUsage,
    ToolContext, ToolOutput, UsageLimits,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::*;

fn overloaded() -> ProviderError {
    ProviderError::ServiceUnavailable("overloaded".into())
}

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

fn short(event: &StreamEvent) -> Option<String> {
    match event {
        StreamEvent::TextDelta(text) => Some(text.clone()),
        StreamEvent::ToolUse { id, .. } => Some(format!("call {id}")),
        StreamEvent::ToolResult { id, .. } => Some(format!("result {id}")),
        StreamEvent::MessageComplete(_) => Some("message".into()),
        StreamEvent::Reset { attempt, error } => Some(format!("reset {attempt}: {error}")),
        StreamEvent::RunComplete(result) => Some(format!("complete {}", result.response)),
        StreamEvent::Error(error) => Some(format!("error {error}")),
        _ => None,
    }
}

async fn told(agent: &mut Chat<'_>, ctx: &ToolContext) -> Vec<String> {
    let events: Vec<_> = agent.run_stream(Message::user("go"), ctx).await.collect().await;
    events.iter().filter_map(short).collect()
}

/// Returns the replies for a model call whose stream breaks twice and then calls a tool, and for the final response.
fn replies() -> [Reply; 4] {
    let call = || calls([json!({"text": "a"})]).with_text("Look").usage(usage(10, 1));
    [
        // Breaks after the events, the usage and the message of the call.
        call().fail_after(7, overloaded()),
        call().end_early_after(1),
        call(),
        Reply::text("done").usage(usage(10, 1)),
    ]
}

#[tokio::test]
async fn broken_stream_is_reset_and_retried() {
    let setup = setup(replies());
    let hook = Recorder::default();
    let mut agent = setup.builder.retries(2).hook(hook.clone()).build();
    let told = told(&mut agent, &ToolContext::default()).await;
    assert_eq!(
        told,
        [
            "Look",
            "call c0",
            "reset 2: provider error: service unavailable: overloaded",
            "Look",
            "reset 3: provider error: stream error: the stream ended before the answer was complete",
            "Look",
            "call c0",
            "message",
            "result c0",
            "done",
            "message",
            "complete done",
        ]
    );
    assert_eq!(setup.log.lines(), ["start c0", "end c0"], "no call of a broken stream ran");
    assert_eq!((agent.turns(), agent.messages().len()), (2, 4));
    assert_eq!(
        agent.usage(),
        &usage(30, 3),
        "the first attempt told its usage, the second did not"
    );
    check_valid(agent.messages());
    check_pairs(&hook.log.lines());
    let lines = hook.log.lines();
    assert_eq!(
        lines[2..14],
        [
            "Turn 0",
            "PreLlm 1",
            "FirstChunk",
            "LlmError provider error: service unavailable: overloaded",
            "PreLlm 1",
            "FirstChunk",
            "LlmError provider error: stream error: the stream ended before the answer was complete",
            "PreLlm 1",
            "FirstChunk",
            "PostLlm ToolUse",
            r#"PreTool act c0 {"text":"a"}"#,
            "PostTool act c0 ok a",
        ]
    );
    let requests = setup.provider.requests();
    assert!(requests[0] == requests[1] && requests[1] == requests[2], "the same call");
}

#[tokio::test]
async fn only_transient_errors_are_retried() {
    use ProviderError as E;
    let cases: [(fn() -> ProviderError, bool); 6] = [
        (|| E::Network("reset".into()), true),
        (|| E::RateLimit { retry_after: None }, true),
        (|| E::StreamError("the connection was lost".into()), true),
        (|| E::Authentication("no".into()), false),
        (|| E::InvalidRequest("no".into()), false),
        (|| E::Other("?".into()), false),
    ];
    for (error, again) in cases {
        for opens in [false, true] {
            let broken = match opens {
                true => Reply::text("half an answer").chunk_chars(1).fail_after(3, error()),
                false => Reply::error(error()),
            };
            let setup = setup([broken, Reply::text("whole")]);
            let mut agent = setup.builder.retries(1).build();
            let result = run(Way::Stream, &mut agent, &ToolContext::default()).await;
            assert_eq!(result.is_ok(), again, "{:?}, opens: {opens}", error());
            assert_eq!(setup.provider.calls(), if again { 2 } else { 1 });
        }
    }
}

/// Regression test. A stream error that is declared as not retryable must not be retried. Before the fix, it was
/// treated as a lost connection and retried.
#[tokio::test]
async fn error_declared_as_final_is_not_retried() {
    struct Says(StreamError, ScriptedProvider);
    impl Provider for Says {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            self.1.complete(request).await
        }
        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            if self.1.calls() > 0 {
                return self.1.complete_stream(request).await;
            }
            self.1.complete(request).await?;
            let event = StreamEvent::Error(self.0.clone());
            Ok(StreamReceiver::new(futures_util::stream::iter([event])).into())
        }
    }
    for (error, again) in
        [(StreamError::non_retryable("no"), false), (StreamError::retryable("wait"), true)]
    {
        let script = ScriptedProvider::new([Reply::text("lost"), Reply::text("whole")]);
        let provider = Says(error, script.clone());
        let mut agent = Chat::builder(provider, window()).retries(5).build();
        let result = run(Way::Stream, &mut agent, &ToolContext::default()).await;
        assert_eq!((result.is_ok(), script.calls()), (again, if again { 2 } else { 1 }));
    }
}

#[tokio::test]
async fn each_attempt_counts_as_a_request_and_a_limit_prevents_the_next() {
    let limits = UsageLimits::default;
    for (limits, error) in [
        (limits().with_request_limit(1), "request limit exceeded: 2 > 1"),
        (limits().with_input_tokens_limit(9), "input token limit exceeded: 10 > 9"),
    ] {
        let setup = setup(replies());
        let hook = Recorder::default();
        let builder = setup.builder.retries(2).hook(hook.clone());
        let mut agent = builder.usage_limits(limits).build();
        let told = told(&mut agent, &ToolContext::default()).await;
        let reset = "reset 2: provider error: service unavailable: overloaded";
        let error = format!("error usage limit exceeded: {error}");
        assert_eq!(told, ["Look", "call c0", reset, &error]);
        assert_eq!(setup.provider.calls(), 1);
        assert_eq!(agent.usage(), &usage(10, 1));
        check_pairs(&hook.log.lines());
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn hook_can_prevent_the_next_attempt() {
    struct ForbidsTheSecond(AtomicUsize);
    impl ObservabilityHook for ForbidsTheSecond {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            let is_call = matches!(event, HookEvent::PreLlmCall { .. });
            Ok(match is_call && self.0.fetch_add(1, Ordering::SeqCst) == 1 {
                true => HookAction::Terminate { reason: "enough".into() },
                false => HookAction::Continue,
            })
        }
    }
    let setup = setup([Reply::error(overloaded()), Reply::text("never")]);
    let hook = Recorder::default();
    let builder = setup.builder.retries(3).hook(hook.clone());
    let mut agent = builder.hook(ForbidsTheSecond(AtomicUsize::new(0))).build();
    let told = told(&mut agent, &ToolContext::default()).await;
    assert_eq!(told.last().unwrap(), "error terminated by hook: enough");
    assert_eq!((told.len(), setup.provider.calls()), (2, 1));
    check_pairs(&hook.log.lines());
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected_up_to_one_minute() {
    for (asked, kept) in [(None, Some(0)), (Some(60), Some(60)), (Some(61), None)] {
        let retry_after = asked.map(Duration::from_secs);
        let setup =
            setup([Reply::error(ProviderError::RateLimit { retry_after }), Reply::text("on")]);
        let mut agent = setup.builder.retries(1).build();
        let start = Instant::now();
        let result = run(Way::Stream, &mut agent, &ToolContext::default()).await;
        let waited = result.is_ok().then(|| start.elapsed().as_secs());
        assert_eq!((waited, start.elapsed().as_secs()), (kept, kept.unwrap_or(0)));
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_the_retry_wait_immediately() {
    let retry_after = Some(Duration::from_secs(30));
    let setup =
        setup([Reply::error(ProviderError::RateLimit { retry_after }), Reply::text("never")]);
    let hook = Recorder::default();
    let mut agent = setup.builder.retries(1).hook(hook.clone()).build();
    let ctx = ToolContext::default();
    let start = Instant::now();
    let (told, ()) = tokio::join!(told(&mut agent, &ctx), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ctx.cancellation_token.cancel();
    });
    assert_eq!(told[1..], ["error cancelled"]);
    assert_eq!((start.elapsed().as_secs(), setup.provider.calls()), (1, 1));
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
}

#[tokio::test]
async fn run_cancelled_when_its_stream_broke_makes_no_further_attempt() {
    struct CancelsAtTheError(tokio_util::sync::CancellationToken);
    impl ObservabilityHook for CancelsAtTheError {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            if let HookEvent::LlmError { .. } = event {
                self.0.cancel();
            }
            Ok(HookAction::Continue)
        }
    }
    let setup = setup([Reply::text("half").fail_after(1, overloaded()), Reply::text("never")]);
    let ctx = ToolContext::default();
    let hook = CancelsAtTheError(ctx.cancellation_token.clone());
    let mut agent = setup.builder.retries(1).hook(hook).build();
    assert_eq!(told(&mut agent, &ctx).await, ["half", "error cancelled"]);
    assert_eq!(setup.provider.calls(), 1);
}

#[tokio::test]
async fn next_attempt_waits_for_the_reader_and_ends_with_it() {
    let setup = setup([
        Reply::text("half").fail_after(1, overloaded()),
        Reply::text("a long answer").chunk_chars(1),
        Reply::text("again"),
    ]);
    let mut agent = setup.builder.retries(1).build();
    let ctx = ToolContext::default();
    {
        let mut events = agent.run_stream(Message::user("go"), &ctx).await;
        events.recv().await.unwrap();
        assert!(matches!(events.recv().await, Some(StreamEvent::Reset { attempt: 2, .. })));
        tokio::task::yield_now().await;
        assert_eq!(setup.provider.calls(), 1, "no call before the reader goes on");
        assert_eq!(setup.provider.open_streams(), 0, "the broken stream is gone");
        events.recv().await.unwrap();
        assert_eq!((setup.provider.calls(), setup.provider.open_streams()), (2, 1));
    }
    assert_eq!(setup.provider.open_streams(), 0);
    check_valid(agent.messages());
    assert_eq!(agent.run_text("go", &ctx).await.unwrap().response, "again");
}

/// A durable context that repeats a failed model call once by itself. Before it repeats the call, it sends a `Reset`
/// event.
struct TriesAgain(ScriptedProvider);

impl DurableContext for TriesAgain {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.0.complete(request).await.map_err(DurableError::Provider)
    }
    async fn execute_tool(
        &self,
        _: &str,
        _: Value,
        _: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        Ok(ToolOutput::text("ok"))
    }
    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        _: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        for attempt in 2.. {
            sink.send(StreamEvent::TextDelta("piece".into())).await;
            match self.0.complete_ref(request).await {
                Ok(response) => return Ok(response),
                Err(error) if attempt > 2 => return Err(DurableError::Provider(error)),
                Err(error) => sink.send(StreamEvent::Reset { attempt, error: error.into() }).await,
            }
        }
        unreachable!()
    }
    no_signals_or_timers!();
}

#[tokio::test]
async fn only_the_context_retries_under_a_durable_engine() {
    let build = |replies: [Reply; 3]| {
        let provider = ScriptedProvider::new(replies);
        let unused = ScriptedProvider::new([""; 0]);
        let builder: ChatBuilder<'static> = Chat::builder(unused, window());
        let context = TriesAgain(provider.clone());
        (builder.retries(5).durability(context).build(), provider)
    };
    let failing = || Reply::error(overloaded());
    let ctx = ToolContext::default();
    let (mut agent, provider) = build([failing(), Reply::text("done"), failing()]);
    let reset = "reset 2: service unavailable: overloaded";
    assert_eq!(told(&mut agent, &ctx).await, ["piece", reset, "piece", "message", "complete done"]);
    assert_eq!(provider.calls(), 2);
    let (mut agent, provider) = build([failing(), failing(), failing()]);
    assert_eq!(
        told(&mut agent, &ctx).await,
        ["piece", reset, "piece", "error provider error: service unavailable: overloaded"]
    );
    assert_eq!(provider.calls(), 2, "the loop adds no attempt of its own");
}

#[tokio::test]
async fn interrupted_after_any_event_the_history_is_valid() {
    for cancels in [false, true] {
        for count in 0.. {
            let again = [Reply::text("again"), Reply::text("again")];
            let setup = setup(replies().into_iter().chain(again));
            let hook = Recorder::default();
            let mut agent = setup.builder.retries(2).hook(hook.clone()).build();
            let ctx = ToolContext::default();
            let mut events = agent.run_stream(Message::user("go"), &ctx).await;
            let mut ended = false;
            for _ in 0..count {
                ended = events.recv().await.is_none();
            }
            if cancels {
                ctx.cancellation_token.cancel();
                let rest: Vec<_> = events.collect().await;
                let is_end = |event: &&StreamEvent| {
                    matches!(event, StreamEvent::Error(_) | StreamEvent::RunComplete(_))
                };
                assert!(rest.iter().filter(is_end).count() <= 1, "{rest:?}");
                check_pairs(&hook.log.lines());
            } else {
                drop(events);
            }
            assert_eq!(setup.provider.open_streams(), 0);
            check_valid(agent.messages());
            let ctx = ToolContext::default();
            run(Way::Stream, &mut agent, &ctx).await.unwrap();
            check_valid(agent.messages());
            assert_eq!(setup.log.count("start"), setup.log.count("end"));
            if ended {
                assert!(count > 20, "there was something to interrupt");
                break;
            }
        }
    }
}

/// Regression test. A stream breaks, and then a limit allows only one last model call. The reader must be reset before
/// the response of this call. Before the fix, the reader joined both texts, and the hooks received the turn twice.
#[tokio::test]
async fn last_call_after_a_broken_stream_resets_the_reader() {
    let call = calls([json!({"text": "a"})]).with_text("Look").end_early_after(1);
    let setup = setup([call, Reply::text("in short")]);
    let hook = Recorder::default();
    let limits = UsageLimits::default().with_request_limit(1);
    let builder = setup.builder.usage_limits(limits).on_limit(OnLimit::Finalize);
    let mut agent = builder.retries(1).hook(hook.clone()).build();
    let told = told(&mut agent, &ToolContext::default()).await;
    assert_eq!(told[0], "Look");
    assert!(told[1].starts_with("reset 2: "), "{told:?}");
    assert_eq!(told[2..], ["in short", "message", "complete in short"]);
    assert_eq!(hook.log.count("Turn 0"), 1);
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
}

/// Regression test. The usage that a broken stream reported must be charged to the budget. Before the fix, the budget
/// was charged only an estimate.
#[tokio::test]
async fn broken_attempt_charges_its_reported_usage_to_the_budget() {
    let call = calls([json!({})]).with_text("Look").usage(usage(50_000, 9_000));
    let broken = call.fail_after(7, ProviderError::StreamError("cut".into()));
    let setup = setup([broken, Reply::text("done").usage(usage(10, 1))]);
    let budget = Budget::new(UsageLimits::default());
    let mut agent = setup.builder.retries(1).budget(budget.clone()).build();
    run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(agent.usage(), &usage(50_010, 9_001));
    assert_eq!(budget.usage(), usage(50_010, 9_001));
}
