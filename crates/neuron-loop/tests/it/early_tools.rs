//! Tests of tools that only read, which start while the response is still streaming.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_loop::{Agent, Budget, Conversation, LoopError, OnLimit, Start};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, HookAction, HookError, HookEvent, Message,
    ModelCall, ModelLayer, ModelNext, ObservabilityHook, PermissionDecision, Provider,
    ProviderError, Role, StopReason, StreamEvent, StreamHandle, StreamReceiver, TokenUsage,
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, UsageLimits,
    WasmBoxedFuture, message_events,
};
use serde_json::{Value, json};

use crate::support::*;

/// A provider that streams scripted responses. After each tool call in a stream it pauses for one second.
struct Slow {
    answers: Mutex<VecDeque<Answer>>,
}

#[derive(Clone)]
struct Answer {
    message: Message,
    stop_reason: StopReason,
    /// Set if the stream breaks before its end.
    breaks: bool,
}

impl Provider for Slow {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        let Answer { message, stop_reason, .. } = self.next();
        Ok(response(message, stop_reason))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        let Answer { message, stop_reason, breaks } = self.next();
        let mut events: Vec<StreamEvent> = message_events(&message).collect();
        events.push(match breaks {
            true => StreamEvent::Error(ProviderError::StreamError("cut".into()).into()),
            false => StreamEvent::ResponseComplete(Box::new(response(message, stop_reason))),
        });
        let stream = futures_util::stream::unfold(events.into_iter(), |mut events| async {
            let event = events.next()?;
            // The events of the calls arrive at once, before all others.
            if !event.is_delta() || matches!(event, StreamEvent::TextDelta(_)) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Some((event, events))
        });
        Ok(StreamReceiver::new(stream).into())
    }
}

impl Slow {
    fn next(&self) -> Answer {
        self.answers.lock().unwrap().pop_front().expect("another answer")
    }
}

fn response(message: Message, stop_reason: StopReason) -> CompletionResponse {
    let usage = TokenUsage { input_tokens: 10, output_tokens: 1, ..Default::default() };
    CompletionResponse { id: "1".into(), model: "m".into(), message, usage, stop_reason }
}

fn answer(calls: &[(&str, Value)]) -> Answer {
    let block = |(index, (name, input)): (usize, &(&str, Value))| ContentBlock::ToolUse {
        id: format!("c{index}"),
        name: (*name).to_owned(),
        input: input.clone(),
    };
    let mut content: Vec<_> = calls.iter().enumerate().map(block).collect();
    content.push(ContentBlock::Text("and so on".into()));
    let message = Message { role: Role::Assistant, content };
    Answer { message, stop_reason: StopReason::ToolUse, breaks: false }
}

fn done() -> Answer {
    let message = Message::assistant("done");
    Answer { message, stop_reason: StopReason::EndTurn, breaks: false }
}

/// The tool `read`. It behaves like [`Act`], but has [`ToolEffect::Pure`], so its calls may start early.
struct Read(Act);

impl ToolDyn for Read {
    fn name(&self) -> &str {
        "read"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("read")
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.log.push(format!("key {}", ctx.idempotency_key));
        self.0.call_dyn(input, ctx)
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }
}

type Builder = ChatBuilder<'static>;

/// Builds an agent that starts pure tools while a response is still streaming. `hook` logs its events and the actions
/// of the tools `read` (pure) and `act`. `change` can change the builder.
fn agent(
    answers: impl IntoIterator<Item = Answer>,
    hook: &Recorder,
    change: impl FnOnce(Builder) -> Builder,
) -> Chat<'static> {
    let mut tools = ToolRegistry::new();
    let act = Act { name: "act", log: hook.log.clone() };
    tools.register_dyn(Arc::new(Read(act.clone())));
    tools.register_dyn(Arc::new(act));
    let provider = Slow { answers: Mutex::new(answers.into_iter().collect()) };
    let builder = Chat::builder(provider, window()).tools(tools).hook(hook.clone());
    change(builder.early_tools(true).parallel_tool_execution(true)).build()
}

/// Returns the lines of the hook's log that show when a tool call starts and ends, in order.
fn order(hook: &Recorder) -> Vec<String> {
    let told = ["start", "end", "PostLlm", "PostTool", "ToolError", "dropped"];
    let lines = hook.log.lines().into_iter();
    let lines = lines.filter(|line| told.iter().any(|told| line.starts_with(told)));
    lines.map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test(start_paused = true)]
async fn pure_tools_start_during_the_stream_with_unchanged_results() {
    let calls = [
        ("read", json!({"text": "a", "delay": 10})),
        ("read", json!({"text": "b", "delay": 60_000})),
        ("act", json!({"text": "c"})),
        ("read", json!({"text": "d"})),
    ];
    let ctx = ToolContext { run_id: "r".into(), ..ToolContext::default() };
    let hook = Recorder::default();
    let mut early = agent([answer(&calls), done()], &hook, |builder| builder);
    let begin = tokio::time::Instant::now();
    let result = run(Way::Stream, &mut early, &ctx).await.unwrap();
    let took = begin.elapsed();
    let results = ["c0: a", "c1: b", "c2: c", "c3: d"];
    assert_eq!(last_results(&result.messages), results);
    check_pairs(&hook.log.lines());
    check_valid(&result.messages);
    assert_eq!(
        order(&hook),
        [
            "start c0",
            "start c1",
            "end c0",
            "PostLlm ToolUse",
            "PostTool read c0",
            "start c2",
            "end c2",
            "PostTool act c2",
            "start c3",
            "end c3",
            "PostTool read c3",
            "end c1",
            "PostTool read c1",
            "PostLlm EndTurn",
        ],
        "what changes something, and all after it, waits for the whole answer: {:#?}",
        hook.log.lines()
    );
    // The same run without early tools has the same conversation and keys, but takes longer.
    let late_hook = Recorder::default();
    let late = |builder: Builder| builder.early_tools(false);
    let mut late = agent([answer(&calls), done()], &late_hook, late);
    let begin = tokio::time::Instant::now();
    let late_result = run(Way::Stream, &mut late, &ctx).await.unwrap();
    assert_eq!(late_result, result);
    assert!(begin.elapsed() > took);
    let keys = |hook: &Recorder| {
        let lines = hook.log.lines().into_iter();
        let mut keys: Vec<_> = lines.filter(|line| line.starts_with("key")).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&hook), keys(&late_hook));
    assert_eq!(keys(&hook)[0], "key r/0/0/0/c0");
    assert_eq!(order(&late_hook)[0], "PostLlm ToolUse");
}

#[tokio::test(start_paused = true)]
async fn early_tools_need_a_stream() {
    for way in [Way::Run, Way::Step] {
        let hook = Recorder::default();
        let calls = [("read", json!({})), ("read", json!({}))];
        let mut agent = agent([answer(&calls), done()], &hook, |builder| builder);
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(order(&hook)[0], "PostLlm ToolUse");
    }
}

#[tokio::test(start_paused = true)]
async fn sequential_calls_start_only_one_early() {
    let hook = Recorder::default();
    let calls = [("read", json!({"delay": 60_000})), ("read", json!({})), ("read", json!({}))];
    let one = |builder: Builder| builder.parallel_tool_execution(false);
    let mut agent = agent([answer(&calls), done()], &hook, one);
    run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(
        order(&hook)[..5],
        ["start c0", "PostLlm ToolUse", "end c0", "PostTool read c0", "start c1"]
    );
    check_pairs(&hook.log.lines());
}

#[tokio::test(start_paused = true)]
async fn skipped_denied_or_excess_calls_do_not_start_early() {
    struct DenyAll;

    impl neuron_types::PermissionPolicy for DenyAll {
        fn check(&self, _: &str, _: &Value) -> PermissionDecision {
            PermissionDecision::Deny("no".into())
        }
    }

    let calls = [("read", json!({})), ("read", json!({}))];
    let skip = HookAction::Skip { reason: "skipped".into() };
    let hook = Recorder::answering("PreTool read c0", skip);
    let mut skipping = agent([answer(&calls), done()], &hook, |builder| builder);
    run(Way::Stream, &mut skipping, &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(skipping.messages()), ["c0: skipped", "c1: ok"]);
    assert_eq!(order(&hook)[..2], ["start c1", "end c1"]);
    check_pairs(&hook.log.lines());

    let hook = Recorder::default();
    let deny = |builder: Builder| builder.permission_policy(DenyAll);
    let mut denying = agent([answer(&calls), done()], &hook, deny);
    run(Way::Stream, &mut denying, &ToolContext::default()).await.unwrap();
    let denied = ["c0: !permission denied: no", "c1: !permission denied: no"];
    assert_eq!(last_results(denying.messages()), denied);
    assert_eq!(hook.log.count("start"), 0);
    check_pairs(&hook.log.lines());

    let hook = Recorder::default();
    let limit = UsageLimits::default().with_tool_calls_limit(1);
    let limit = |builder: Builder| builder.usage_limits(limit);
    let mut limited = agent([answer(&calls)], &hook, limit);
    let error = run(Way::Stream, &mut limited, &ToolContext::default()).await.unwrap_err();
    assert!(error.contains("tool call limit exceeded: 2 > 1"), "{error}");
    assert_eq!(hook.log.count("start"), 1, "never more than the limit");
    assert_eq!(hook.log.count("ToolError read c0 usage limit"), 1);
    check_pairs(&hook.log.lines());
    check_valid(limited.messages());
}

#[tokio::test(start_paused = true)]
async fn results_of_a_broken_response_are_discarded() {
    let calls = [("read", json!({"text": "a"})), ("read", json!({"hang": true}))];
    let broken = Answer { breaks: true, ..answer(&calls) };
    let hook = Recorder::default();
    let again = answer(&[("read", json!({"text": "b"}))]);
    let retry = |builder: Builder| builder.retries(1);
    let mut retrying = agent([broken.clone(), again, done()], &hook, retry);
    let result = run(Way::Stream, &mut retrying, &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(&result.messages), ["c0: b"]);
    assert_eq!(hook.log.count("ToolError read c"), 2, "{:#?}", hook.log.lines());
    assert_eq!(hook.log.count("dropped c1"), 1, "what hangs is dropped");
    check_pairs(&hook.log.lines());

    let hook = Recorder::default();
    let mut failing = agent([broken, done()], &hook, |builder| builder);
    let ctx = ToolContext::default();
    run(Way::Stream, &mut failing, &ctx).await.unwrap_err();
    assert_eq!(failing.messages().len(), 1);
    check_pairs(&hook.log.lines());
    run(Way::Stream, &mut failing, &ctx).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn early_calls_that_must_not_run_are_dropped() {
    let hook = Recorder::default();
    let calls = [("read", json!({"hang": true}))];
    let refused = Answer { stop_reason: StopReason::Refusal, ..answer(&calls) };
    let mut agent = agent([refused], &hook, |builder| builder);
    let result = run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Refusal);
    let results = ["c0: ![not executed: the model refused to go on]"];
    assert_eq!(last_results(agent.messages()), results);
    assert_eq!((hook.log.count("dropped c0"), hook.log.count("ToolError read c0 ")), (1, 1));
    check_pairs(&hook.log.lines());
}

#[tokio::test(start_paused = true)]
async fn hook_ends_the_run_within_the_stream() {
    let hook =
        Recorder::answering("PreTool read c1", HookAction::Terminate { reason: "stop".into() });
    let calls = [("read", json!({"hang": true})), ("read", json!({}))];
    let mut agent = agent([answer(&calls)], &hook, |builder| builder);
    let error = run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap_err();
    assert_eq!(error, LoopError::HookTerminated("stop".into()).to_string());
    assert_eq!((hook.log.count("start"), hook.log.count("dropped c0")), (1, 1));
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
}

#[tokio::test(start_paused = true)]
async fn failures_and_hints_have_the_usual_outcome() {
    let hook = Recorder::default();
    let calls = [("read", json!({"retry": "again"})), ("read", json!({"panic": true}))];
    let mut hinted = agent([answer(&calls), done()], &hook, |builder| builder);
    run(Way::Stream, &mut hinted, &ToolContext::default()).await.unwrap();
    let results = last_results(hinted.messages());
    assert_eq!(results[0], "c0: !again");
    assert!(results[1].starts_with("c1: !`read` failed unexpectedly"), "{results:?}");

    let hook = Recorder::default();
    let calls = [("read", json!({"fail": "boom"})), ("read", json!({}))];
    let mut failing = agent([answer(&calls)], &hook, |builder| builder);
    let error = run(Way::Stream, &mut failing, &ToolContext::default()).await.unwrap_err();
    assert!(error.contains("boom"), "{error}");
    check_pairs(&hook.log.lines());
    check_valid(failing.messages());
}

/// Drops or cancels the stream of a run at any time. Afterwards no tool call that started early is still running.
#[tokio::test(start_paused = true)]
async fn cancelled_or_dropped_at_any_time_stops_early_calls() {
    let calls = [
        ("read", json!({"text": "a", "delay": 700})),
        ("read", json!({"text": "b", "delay": 2_000})),
        ("act", json!({"delay": 300})),
    ];
    for moment in (0..6_000).step_by(130) {
        for drops in [false, true] {
            let hook = Recorder::default();
            let mut agent = agent([answer(&calls), done(), done()], &hook, |builder| builder);
            let ctx = ToolContext::default();
            let token = ctx.cancellation_token.clone();
            let pause = tokio::time::sleep(Duration::from_millis(moment));
            if drops {
                let run = run(Way::Stream, &mut agent, &ctx);
                tokio::select! { biased; _ = run => {}, () = pause => {} }
            } else {
                let (_, ()) = tokio::join!(run(Way::Stream, &mut agent, &ctx), async {
                    pause.await;
                    token.cancel();
                });
                check_pairs(&hook.log.lines());
            }
            check_valid(agent.messages());
            let lines = hook.log.lines();
            let count = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
            assert_eq!(count("start"), count("end") + count("dropped"), "{moment}: {lines:#?}");
            let again = ToolContext::default();
            run(Way::Stream, &mut agent, &again).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hook_that_rejects_the_response_discards_early_results() {
    let hook = Recorder::answering("PostLlm", HookAction::Terminate { reason: "stop".into() });
    let calls = [("read", json!({"hang": true})), ("read", json!({}))];
    let mut agent = agent([answer(&calls)], &hook, |builder| builder);
    let error = run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap_err();
    assert_eq!(error, LoopError::HookTerminated("stop".into()).to_string());
    assert_eq!((hook.log.count("start"), hook.log.count("dropped c0")), (2, 1));
    check_pairs(&hook.log.lines());
    check_valid(agent.messages());
}

/// Regression test. No tool call may start while its response is streaming if the budget is exhausted. Before the fix,
/// only the limits of the run were checked.
#[tokio::test(start_paused = true)]
async fn exhausted_budget_starts_nothing_early() {
    let hook = Recorder::default();
    let calls = [("read", json!({})), ("read", json!({}))];
    let budget = Budget::new(UsageLimits::default().with_tool_calls_limit(1));
    let mut agent = agent([answer(&calls)], &hook, |builder| builder.budget(budget.clone()));
    run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap_err();
    assert_eq!(hook.log.count("start"), 1);
    assert_eq!(budget.tool_calls(), 1, "it was started");
}

/// Regression test. A stream is dropped after any of its events. Before the fix, an early call counted in the budget
/// although its tool had not started.
#[tokio::test(start_paused = true)]
async fn early_calls_that_count_have_started() {
    let calls = [("read", json!({})), ("read", json!({"delay": 10})), ("read", json!({}))];
    for events in 0..12 {
        let (hook, budget) = (Recorder::default(), Budget::new(UsageLimits::default()));
        let answers = [answer(&calls), done()];
        let mut agent = agent(answers, &hook, |builder| builder.budget(budget.clone()));
        let ctx = ToolContext::default();
        let mut stream = agent.run_stream(Message::user("go"), &ctx).await;
        for _ in 0..events {
            stream.recv().await;
        }
        drop(stream);
        assert_eq!(budget.tool_calls(), hook.log.count("start"), "after {events} events");
    }
}

/// A hook that cancels the run before a tool call.
struct Cancels(tokio_util::sync::CancellationToken);

impl ObservabilityHook for Cancels {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if let HookEvent::PreToolExecution { .. } = event {
            self.0.cancel();
        }
        Ok(HookAction::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn early_call_of_a_run_that_its_hook_cancels_does_not_count() {
    let (hook, ctx) = (Recorder::default(), ToolContext::default());
    let budget = Budget::new(UsageLimits::default());
    let answers = [answer(&[("read", json!({}))]), done()];
    let cancels = Cancels(ctx.cancellation_token.clone());
    let mut agent = agent(answers, &hook, |builder| builder.budget(budget.clone()).hook(cancels));
    run(Way::Stream, &mut agent, &ctx).await.unwrap_err();
    assert_eq!((budget.tool_calls(), hook.log.count("start")), (0, 0));
}

/// Regression test. Tool calls that started during the streaming of a response count for the tool call limit, even if
/// the response is discarded. Before the fix, each repeated response could again start as many calls as the limit
/// allows.
#[tokio::test(start_paused = true)]
async fn discarded_early_calls_count() {
    let hook = Recorder::default();
    let calls = [("read", json!({})), ("read", json!({}))];
    let broken = Answer { breaks: true, ..answer(&calls) };
    let budget = Budget::new(UsageLimits::default());
    let mut agent = agent([broken.clone(), broken, done()], &hook, |builder| {
        let limits = UsageLimits::default().with_tool_calls_limit(3);
        builder.retries(2).usage_limits(limits).budget(budget.clone())
    });
    run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!((hook.log.count("start"), budget.tool_calls()), (3, 3));
}

/// Regression test. A stream breaks after it has started a tool call, and the response is requested again. Before the
/// fix, the call in the second response had the same idempotency key as the first call. A tool that caches results by
/// key then returned the wrong result.
#[tokio::test(start_paused = true)]
async fn call_of_another_attempt_has_its_own_key() {
    let broken = Answer { breaks: true, ..answer(&[("read", json!({"text": "a"}))]) };
    let again = answer(&[("read", json!({"text": "b"}))]);
    let hook = Recorder::default();
    let retry = |builder: Builder| builder.retries(1);
    let next = answer(&[("read", json!({"text": "c"}))]);
    let mut agent = agent([broken, again, next, done()], &hook, retry);
    let ctx = ToolContext { run_id: "r".into(), ..ToolContext::default() };
    run(Way::Stream, &mut agent, &ctx).await.unwrap();
    let lines = hook.log.lines();
    let keys: Vec<_> = lines.iter().filter(|line| line.starts_with("key")).collect();
    assert_eq!(keys, ["key r/0/0/0/c0", "key r/0/0/0/c0/1", "key r/0/1/0/c0"]);
}

#[tokio::test(start_paused = true)]
async fn last_call_of_a_run_starts_nothing_early() {
    let read = [("read", json!({"text": "a"}))];
    let hook = Recorder::default();
    let mut agent = agent([answer(&read), answer(&read)], &hook, |builder| {
        builder.max_turns(1).on_limit(OnLimit::Finalize)
    });
    let ctx = ToolContext::default();
    let mut stream = agent.run_stream(Message::user("go"), &ctx).await;
    while stream.recv().await.is_some() {}
    assert_eq!(hook.log.count("start"), 1);
}

/// A tool that logs the idempotency key of each call. Its first call hangs.
struct Notes(Log);

impl ToolDyn for Notes {
    fn name(&self) -> &str {
        "note"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("note")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.0.push(ctx.idempotency_key.clone());
            if self.0.lines().len() == 1 {
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text("ok"))
        })
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Idempotent
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_call_keeps_its_key_after_early_calls() {
    let (log, keys) = (Log::default(), Log::default());
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Read(Act { name: "act", log })));
    tools.register_dyn(Arc::new(Notes(keys.clone())));
    let first = answer(&[("read", json!({"text": "a"})), ("note", json!({}))]);
    let provider = Slow { answers: Mutex::new([first, done()].into_iter().collect()) };
    let agent = Agent::builder(provider)
        .tools(tools)
        .config(|config| (config.early_tools, config.parallel_tool_execution) = (true, true))
        .build();
    let ctx = ToolContext { run_id: "run".into(), ..ToolContext::default() };
    let mut chat = Conversation::new();
    let run = async {
        let mut stream = agent.run(&mut chat, "go").context(&ctx).stream();
        while stream.next().await.is_some() {}
    };
    tokio::time::timeout(Duration::from_secs(60), run).await.unwrap_err();
    agent.run(&mut chat, Start::Continue).context(&ctx).await.unwrap();
    let keys = keys.lines();
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0], keys[1]);
}

/// A model layer that changes the arguments of each tool call in a response.
struct Changes;

impl ModelLayer for Changes {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let mut response = next.run(call).await?;
        for block in &mut response.message.content {
            if let ContentBlock::ToolUse { input, .. } = block {
                *input = json!({ "text": "changed" });
            }
        }
        Ok(response)
    }
}

#[tokio::test(start_paused = true)]
async fn early_call_changed_by_a_layer_counts_in_addition() {
    for limit in [1, 2] {
        let hook = Recorder::default();
        let limits = UsageLimits { tool_calls_limit: Some(limit), ..UsageLimits::default() };
        let answers = [answer(&[("read", json!({"text": "a"}))]), done()];
        let mut agent =
            agent(answers, &hook, |builder| builder.layer(Changes).usage_limits(limits));
        let ctx = ToolContext::default();
        let mut stream = agent.run_stream(Message::user("go"), &ctx).await;
        while stream.recv().await.is_some() {}
        let lines = hook.log.lines();
        let mut keys: Vec<_> = lines.iter().filter(|line| line.starts_with("key")).collect();
        keys.dedup();
        assert_eq!(keys.len(), limit, "{lines:#?}");
    }
}
