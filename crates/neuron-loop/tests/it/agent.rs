//! An agent definition shared by many conversations, with every combination of a start and a way to watch.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use neuron_loop::{Agent, CancelMode, Conversation, LoopError, RunEvent, Start, Step};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{Next, tool_middleware_fn};
use neuron_types::{
    ApprovalDecisions, ApprovalError, CompletionRequest, CompletionResponse, ContentBlock, Message,
    PendingApproval, PermissionDecision, PermissionPolicy, Provider, ProviderError, StopReason,
    StreamEvent, StreamHandle, ToolCall, ToolContext, ToolEffect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::*;
use crate::warnings::Warnings;

fn agent<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> (Agent, ScriptedProvider, Log) {
    let (provider, log) = (ScriptedProvider::new(replies), Log::default());
    let agent = Agent::builder(provider.clone()).tools(registry(&log)).build();
    (agent, provider, log)
}

/// A policy that requires an approval for every call.
struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("sure?".into())
    }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Sum {
    value: u8,
}

fn sum() -> Reply {
    Reply::tool_call("o", "final_output", json!({ "value": 4 }))
}

/// Drives a run to its end in the given way (`"await"`, `"stream"` and so on). Returns the conversation and the output.
macro_rules! watch {
    ($way:expr, $agent:expr, $chat:expr, $start:expr $(, $($typed:tt)+)?) => {{
        let mut chat: Conversation = $chat;
        let mut ended = None;
        match $way {
            "await" => ended = Some($agent.run(&mut chat, $start)$(.$($typed)+)?.await.unwrap()),
            "stream" => {
                let mut events = $agent.run(&mut chat, $start)$(.$($typed)+)?.stream();
                while let Some(event) = events.try_next().await.unwrap() {
                    assert!(ended.is_none(), "nothing follows the end");
                    if let RunEvent::Ended(result) = event {
                        ended = Some(result);
                    }
                }
            }
            "steps" => {
                let mut steps = $agent.run(&mut chat, $start)$(.$($typed)+)?.steps();
                while let Some(step) = steps.next().await {
                    assert!(ended.is_none(), "nothing follows the end");
                    if let Step::Ended(result) = step.unwrap() {
                        ended = Some(result);
                    }
                }
            }
            "owned" => {
                let run = $agent.run_owned(std::mem::take(&mut chat), $start)$(.$($typed)+)?;
                let (conversation, result) = run.await;
                (chat, ended) = (conversation, Some(result.unwrap()));
            }
            "owned stream" => {
                let mut run = $agent.run_owned(std::mem::take(&mut chat), $start)$(.$($typed)+)?;
                let handle = run.handle();
                let mut events = run.stream();
                while let Some(event) = events.try_next().await.unwrap() {
                    if let RunEvent::Ended(result) = event {
                        ended = Some(result);
                    }
                }
                chat = handle.take_conversation().unwrap();
                drop(events);
                assert!(handle.take_conversation().is_none());
            }
            "owned steps" => {
                let run = $agent.run_owned(std::mem::take(&mut chat), $start)$(.$($typed)+)?;
                let mut steps = run.steps();
                while let Some(step) = steps.next().await {
                    if let Step::Ended(result) = step.unwrap() {
                        ended = Some(result);
                    }
                }
                chat = steps.conversation().clone();
            }
            _ => {
                let run = $agent.run_owned(std::mem::take(&mut chat), $start)$(.$($typed)+)?;
                let (events, task) = run.detach();
                let task = tokio::spawn(task);
                let events: Vec<_> = events.collect().await;
                assert!(matches!(events.last(), Some(StreamEvent::Usage(_) | StreamEvent::ToolResult { .. })), "{events:?}");
                let (conversation, result) = task.await.unwrap();
                (chat, ended) = (conversation, Some(result.unwrap()));
            }
        }
        (chat, ended.expect("an end").output)
    }};
}

#[tokio::test]
async fn conversations_of_one_agent_are_independent() {
    let (agent, provider, _) = agent(["one", "two", "three"]);
    let (mut first, mut second) = (Conversation::new(), Conversation::new());
    assert_eq!(agent.run(&mut first, "a").await.unwrap().response, "one");
    assert_eq!(agent.run(&mut second, "b").await.unwrap().response, "two");
    assert_eq!(agent.clone().run(&mut first, "c").await.unwrap().response, "three");
    assert_eq!((first.messages().len(), second.messages().len()), (4, 2));
    assert_eq!(provider.requests()[2].messages.len(), 3);
    assert_eq!(first.turns(), 1);
}

#[tokio::test]
async fn every_start_works_with_every_way_to_watch() {
    for way in ["await", "stream", "steps", "owned", "owned stream", "detached"] {
        for start in ["message", "continue", "decide"] {
            for is_typed in [false, true] {
                let replies = match start {
                    "message" => vec![],
                    "continue" => vec![Reply::error(ProviderError::InvalidRequest("no".into()))],
                    _ => vec![calls([json!({ "text": "a" })])],
                };
                let last = if is_typed { sum() } else { Reply::text("done") };
                let provider = ScriptedProvider::new(replies.into_iter().chain([last]));
                let log = Log::default();
                let agent = Agent::builder(provider).tools(registry(&log)).permission_policy(Asks);
                let agent = agent.config(|config| config.pause_for_approval = true).build();
                let mut chat = Conversation::new();
                let start = match start {
                    "message" => Start::from("go"),
                    "continue" => {
                        agent.run(&mut chat, "go").await.unwrap_err();
                        Start::Continue
                    }
                    _ => {
                        let error = agent.run(&mut chat, "go").await.unwrap_err();
                        assert!(matches!(error, LoopError::ApprovalRequired(_)));
                        ApprovalDecisions::approve_all(&chat.pending().unwrap()).into()
                    }
                };
                let at = format!("{way} {start:?} {is_typed}");
                let chat = match is_typed {
                    false => watch!(way, agent, chat, start).0,
                    true => {
                        let (chat, output) = watch!(way, agent, chat, start, typed::<Sum>());
                        assert_eq!(output, Sum { value: 4 });
                        chat
                    }
                };
                check_valid(chat.messages());
                assert_eq!(chat.pending().map_or(0, |pending| pending.calls.len()), 0, "{at}");
                assert!(chat.turns() > 0, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn owned_run_returns_its_conversation_after_end_error_or_drop() {
    // The run ends with an error.
    let (agent, ..) = agent([Reply::error(ProviderError::InvalidRequest("no".into()))]);
    let (conversation, result) = agent.run_owned(Conversation::new(), "go").await;
    assert!(matches!(result, Err(LoopError::Provider(_))));
    assert_eq!(conversation.messages(), [Message::user("go")]);
    // The run is dropped before it was polled.
    let (agent, ..) = self::agent([Reply::hang(), Reply::hang()]);
    let mut run = agent.run_owned(Conversation::from(vec![Message::user("hi")]), "go");
    let handle = run.handle();
    drop(run.stream());
    assert_eq!(handle.take_conversation().unwrap().messages(), [Message::user("hi")]);
    // The run is dropped halfway.
    let mut run = agent.run_owned(Conversation::new(), "go");
    let handle = run.handle();
    let mut run = Box::pin(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    assert!(handle.take_conversation().is_none(), "the run has it");
    drop(run);
    assert_eq!(handle.take_conversation().unwrap().messages(), [Message::user("go")]);
    let mut run = agent.run_owned(Conversation::new(), "go");
    let handle = run.handle();
    let mut events = run.stream();
    assert!(events.next().now_or_never().is_none());
    drop(events);
    assert_eq!(handle.take_conversation().unwrap().messages(), [Message::user("go")]);
}

#[tokio::test]
async fn detached_run_continues_after_its_events_are_dropped() {
    let (agent, provider, log) = agent([
        calls([json!({ "text": "a" })]).with_text("look"),
        Reply::text("done").chunk_chars(1),
    ]);
    let (mut events, task) = agent.run_owned(Conversation::new(), "go").detach();
    let task = tokio::spawn(task);
    assert!(matches!(events.next().await, Some(StreamEvent::TextDelta(_))));
    drop(events);
    let (conversation, result) = task.await.unwrap();
    assert_eq!(result.unwrap().response, "done");
    assert_eq!(conversation.messages().len(), 4);
    assert_eq!((provider.calls(), log.count("end")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn steered_message_is_added_before_the_next_model_call() {
    let (agent, provider, _) =
        agent([calls([json!({ "delay": 100 })]), Reply::text("done"), Reply::text("more")]);
    let mut run = agent.run_owned(Conversation::new(), "go");
    let handle = run.handle();
    let mut task = Box::pin(run.into_future());
    assert!(task.as_mut().now_or_never().is_none());
    handle.steer("Be quick").unwrap();
    let (conversation, _) = task.await;
    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].messages.last(), Some(&Message::user("Be quick")));
    // The message arrives after the last model call, so one more turn follows.
    let mut run = agent.run_owned(conversation, "and?");
    let handle = run.handle();
    let mut steps = Box::pin(run.into_future());
    handle.steer("Really?").unwrap();
    assert!(steps.as_mut().now_or_never().is_some());
}

#[tokio::test]
async fn message_after_the_last_model_call_adds_a_turn() {
    let (agent, provider, _) = agent(["first", "second"]);
    let mut chat = Conversation::new();
    let mut run = agent.run(&mut chat, "go");
    let handle = run.handle();
    let mut events = run.stream();
    let mut responses = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        match event {
            RunEvent::Event(StreamEvent::MessageComplete(message)) => {
                if responses.is_empty() {
                    handle.steer("And?").unwrap();
                }
                responses.push(message.text());
            }
            RunEvent::Ended(result) => assert_eq!((&*result.response, result.turns), ("second", 2)),
            _ => {}
        }
    }
    drop(events);
    assert_eq!(responses, ["first", "second"]);
    assert_eq!(provider.calls(), 2);
    assert_eq!(chat.messages()[2], Message::user("And?"));
}

#[tokio::test(start_paused = true)]
async fn handle_and_context_both_cancel_the_run_and_its_tools() {
    for by_handle in [true, false] {
        let (agent, _, log) = agent([calls([json!({ "cancelled": true })])]);
        let ctx = ToolContext::default();
        let mut chat = Conversation::new();
        {
            let mut run = agent.run(&mut chat, "go").context(&ctx);
            let handle = run.handle();
            let mut run = pin!(run.into_future());
            assert!(run.as_mut().now_or_never().is_none());
            match by_handle {
                true => handle.cancel(),
                false => ctx.cancellation_token.cancel(),
            }
            assert!(matches!(run.await, Err(LoopError::Cancelled)));
        }
        assert_eq!(ctx.cancellation_token.is_cancelled(), !by_handle);
        assert_eq!(log.count("start c0"), 1);
        check_valid(chat.messages());
    }
    // The run is cancelled before it begins.
    let (agent, provider, _) = agent(["never"]);
    let mut chat = Conversation::new();
    let mut run = agent.run(&mut chat, "go");
    run.handle().cancel();
    let ended = run.await;
    assert!(matches!(ended, Err(LoopError::Cancelled)));
    assert_eq!(provider.calls(), 0);
}

#[tokio::test]
async fn waiting_run_continues_with_decisions_from_its_handle() {
    let (provider, log) = (
        ScriptedProvider::new([calls([json!({ "text": "a" })]), Reply::text("done")]),
        Log::default(),
    );
    let agent = Agent::builder(provider).tools(registry(&log)).permission_policy(Asks).build();
    let mut run = agent.run_owned(Conversation::new(), "go").wait_for_approval();
    let handle = run.handle();
    let mut run = Box::pin(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    let pending = handle.pending().unwrap();
    handle.decide(ApprovalDecisions::approve_all(&pending)).unwrap();
    let (conversation, result) = run.await;
    assert_eq!(result.unwrap().response, "done");
    assert!(handle.pending().is_none());
    assert_eq!(last_results(conversation.messages()), ["c0: a"]);
}

/// A policy that requires an approval for the text `b`.
struct AsksAboutB;

impl PermissionPolicy for AsksAboutB {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        match input["text"].as_str() {
            Some("b") => PermissionDecision::Ask("sure?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// A call may end before another call of its step waits for an approval. The step then has its whole result, not only
/// what the model sees.
#[tokio::test]
async fn step_that_waited_has_the_whole_result_of_a_call_before_the_wait() {
    let both = calls([json!({ "text": "a" }), json!({ "text": "b" })]);
    let (provider, log) = (ScriptedProvider::new([both, Reply::text("done")]), Log::default());
    let agent =
        Agent::builder(provider).tools(registry(&log)).permission_policy(AsksAboutB).build();
    let mut chat = Conversation::new();
    let mut run = agent.run(&mut chat, "go").wait_for_approval();
    let handle = run.handle();
    let mut steps = run.steps();
    let mut next = pin!(steps.next());
    assert!(next.as_mut().now_or_never().is_none());
    assert_eq!(log.count("start c0"), 1, "the other call does not wait");
    let pending = handle.pending().unwrap();
    handle.decide(ApprovalDecisions::approve_all(&pending)).unwrap();
    let Some(Ok(Step::Tools { results, .. })) = next.await else { panic!("the tools") };
    let data: Vec<_> = results.into_iter().map(|output| output.structured_content).collect();
    assert_eq!(data, ["a", "b"].map(|text| Some(json!({ "echo": text }))));
}

/// Regression test. The model gives the same id to the calls of both responses. Before the fix, the handle queued the
/// decision of a second click on the first call, and the run then approved the second call, which nobody had seen.
#[tokio::test]
async fn handle_refuses_decisions_that_fit_no_pending_call() {
    let log = Log::default();
    let two = calls([json!({ "text": "a" }), json!({ "text": "b" })]);
    let provider =
        ScriptedProvider::new([two, calls([json!({ "text": "danger" })]), Reply::text("done")]);
    let agent = Agent::builder(provider).tools(registry(&log)).permission_policy(Asks).build();
    let mut run = agent.run_owned(Conversation::new(), "go").wait_for_approval();
    let handle = run.handle();
    let early = handle.decide(ApprovalDecisions::new().approve("c0"));
    assert_eq!(early, Err(ApprovalError::NothingPending));
    let mut run = Box::pin(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    let first = handle.pending().unwrap();
    let click = |pending: &PendingApproval, index: usize| {
        ApprovalDecisions::new().approve(&pending.calls[index].approval_id).partial()
    };
    let refused = |decided: Result<(), ApprovalError>, why: &str| match decided {
        Err(ApprovalError::NotPending { reason, .. }) => assert_eq!(reason, why),
        other => panic!("{other:?}"),
    };
    let unknown = handle.decide(ApprovalDecisions::new().approve("other"));
    assert_eq!(unknown, Err(ApprovalError::UnknownCall { id: "other".into() }));
    // Two people decide on one call each, before the run is polled. A third decision is one too many.
    handle.decide(click(&first, 0)).unwrap();
    let again = "it was decided on before, or the run went on without it";
    refused(handle.decide(click(&first, 0)), again);
    assert_eq!(handle.pending().unwrap().calls, [first.calls[1].clone()]);
    handle.decide(click(&first, 1)).unwrap();
    assert_eq!(handle.decide(click(&first, 1)), Err(ApprovalError::NothingPending));

    assert!(run.as_mut().now_or_never().is_none());
    let second = handle.pending().unwrap();
    assert_eq!((&*first.calls[0].call.id, &*second.calls[0].call.id), ("c0", "c0"));
    refused(handle.decide(click(&first, 0)), again);
    let by_id = handle.decide(ApprovalDecisions::new().approve("c0"));
    assert_eq!(by_id, Err(ApprovalError::AmbiguousCall { id: "c0".into() }));
    assert!(run.as_mut().now_or_never().is_none());
    assert_eq!(log.count("start"), 2);
    handle.decide(click(&second, 0)).unwrap();
    let (_, result) = run.await;
    assert_eq!(result.unwrap().response, "done");
    assert_eq!(log.count("start"), 3);
}

#[tokio::test(start_paused = true)]
async fn decision_and_cancellation_wake_a_run_that_waits_for_approval() {
    for mode in [CancelMode::Now, CancelMode::AfterTurn] {
        for is_cancelled in [true, false] {
            let (agent, ..) = agent([calls([json!({})]), Reply::text("done")]);
            let builder = agent.to_builder().permission_policy(Asks);
            let agent = builder.config(|config| config.cancel_mode = mode).build();
            let mut run = agent.run_owned(Conversation::new(), "go").wait_for_approval();
            let handle = run.handle();
            let task = tokio::spawn(run.into_future());
            let pending = loop {
                tokio::task::yield_now().await;
                if let Some(pending) = handle.pending() {
                    break pending;
                }
            };
            match is_cancelled {
                true => handle.cancel(),
                false => handle.decide(ApprovalDecisions::approve_all(&pending)).unwrap(),
            }
            let ended = tokio::time::timeout(Duration::from_secs(1), task).await;
            let (_, result) = ended.expect("the run is woken").unwrap();
            assert_eq!(result.is_err(), is_cancelled, "{mode:?}: {result:?}");
        }
    }
}

/// Drops a run during a tool call, and then continues its conversation, which may have been stored meanwhile. The
/// interrupted call runs again only if the effect of its tool allows this.
#[tokio::test(start_paused = true)]
async fn continue_after_drop_repeats_only_calls_that_may_repeat() {
    for (effect, repeats) in
        [(ToolEffect::AtMostOnce, false), (ToolEffect::Idempotent, true), (ToolEffect::Pure, true)]
    {
        for is_stored in [false, true] {
            let inputs = [
                json!({ "text": "a" }),
                json!({ "delay": 50, "text": "b" }),
                json!({ "text": "c" }),
            ];
            let (provider, log) =
                (ScriptedProvider::new([calls(inputs), Reply::text("done")]), Log::default());
            let mut tools = neuron_tool::ToolRegistry::new();
            let act = Act { name: "act", log: log.clone() };
            tools.register_dyn(std::sync::Arc::new(WithEffect(act, effect)));
            let agent = Agent::builder(provider.clone()).tools(tools).build();
            let mut chat = Conversation::new();
            let ended = tokio::time::timeout(
                Duration::from_millis(10),
                agent.run(&mut chat, "go").into_future(),
            );
            ended.await.unwrap_err();
            check_valid(chat.messages());
            if is_stored {
                let stored = serde_json::to_string(&chat).unwrap();
                let read: Conversation = serde_json::from_str(&stored).unwrap();
                assert_eq!(read, chat);
                chat = read;
            }
            let result = agent.run(&mut chat, Start::Continue).await.unwrap();
            assert_eq!((&*result.response, result.turns), ("done", 2));
            let unknown = "c1: ![interrupted: the run was interrupted; whether the call took effect is unknown]";
            let second = if repeats { "c1: b" } else { unknown };
            assert_eq!(last_results(chat.messages()), ["c0: a", second, "c2: c"]);
            assert_eq!(log.count("start c0"), 1);
            assert_eq!(log.count("start c1"), if repeats { 2 } else { 1 });
            assert_eq!(provider.calls(), 2, "the model is not asked again");
            assert_eq!(result.stop_reason, StopReason::EndTurn);
        }
    }
}

/// A tool with a configurable effect.
struct WithEffect(Act, ToolEffect);

impl neuron_types::ToolDyn for WithEffect {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn definition(&self) -> neuron_types::ToolDefinition {
        self.0.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> neuron_types::WasmBoxedFuture<'a, Result<neuron_types::ToolOutput, neuron_types::ToolError>>
    {
        self.0.call_dyn(input, ctx)
    }

    fn effect(&self) -> ToolEffect {
        self.1
    }
}

#[tokio::test]
async fn fork_at_any_message_continues_with_another_agent() {
    let (agent, ..) = agent([calls([json!({ "text": "a" })]), Reply::text("done")]);
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").await.unwrap();
    for cut in 0..=chat.messages().len() + 1 {
        let (other, ..) = self::agent(["other"]);
        let mut fork = chat.fork(cut);
        check_valid(fork.messages());
        let kept = cut.min(chat.messages().len());
        let is_cut_between = kept == 2;
        assert_eq!(fork.messages().len(), kept + usize::from(is_cut_between));
        other.run(&mut fork, "and?").await.unwrap();
        check_valid(fork.messages());
    }
    assert_eq!(chat.messages().len(), 4, "the conversation itself is as before");
}

/// A fork has the same run id as the conversation if the caller sets it, so only the number of the run tells their calls
/// apart.
#[tokio::test]
async fn calls_of_a_fork_have_their_own_idempotency_keys() {
    let keys = Log::default();
    let noted = keys.clone();
    let mut tools = registry(&Log::default());
    tools.add_middleware(tool_middleware_fn(
        move |call: &ToolCall, ctx: &ToolContext, next: Next<'_>| {
            noted.push(&*ctx.idempotency_key);
            let (call, ctx) = (call.clone(), ctx.clone());
            Box::pin(async move { next.run(&call, &ctx).await })
        },
    ));
    let replies = || [calls([json!({})]), Reply::text("done")];
    let provider = ScriptedProvider::new(replies().into_iter().chain(replies()));
    let agent = Agent::builder(provider).tools(tools).build();
    let ctx = ToolContext { run_id: "run".into(), ..ToolContext::default() };
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").context(&ctx).await.unwrap();
    agent.run(&mut chat.fork(0), "go").context(&ctx).await.unwrap();
    assert_eq!(keys.lines(), ["run/0/0/0/c0", "run/1/0/0/c0"]);
}

#[tokio::test]
async fn builder_defaults_suit_production() {
    let overloaded = || ProviderError::ServiceUnavailable("overloaded".into());
    let (agent, provider, _) = agent([
        Reply::error(overloaded()),
        Reply::tool_call("u", "unknown", json!({})),
        calls([json!({ "fail": "no" })]),
        Reply::text("done"),
    ]);
    let mut chat = Conversation::new();
    assert_eq!(agent.run(&mut chat, "go").await.unwrap().response, "done");
    assert_eq!(provider.calls(), 4);
    let results =
        |block: &ContentBlock| matches!(block, ContentBlock::ToolResult { is_error: true, .. });
    let errors =
        chat.messages().iter().flat_map(|message| &message.content).filter(|block| results(block));
    assert_eq!(errors.count(), 2);
    assert_eq!(agent.config().max_turns, Some(50));
}

#[tokio::test(start_paused = true)]
async fn tool_timeout_is_an_error_result() {
    let (agent, ..) = agent([calls([json!({ "hang": true })]), Reply::text("done")]);
    let mut chat = Conversation::new();
    assert_eq!(agent.run(&mut chat, "go").await.unwrap().response, "done");
    assert_eq!(
        last_results(chat.messages()),
        ["c0: !execution failed: `act` took longer than 600s"]
    );
}

/// A model layer that logs for each request whether it asks the provider for caching.
struct Wishes(Log);

impl neuron_types::ModelLayer for Wishes {
    async fn call(
        &self,
        call: neuron_types::ModelCall<'_>,
        next: neuron_types::ModelNext<'_>,
    ) -> Result<neuron_types::CompletionResponse, LoopError> {
        self.0.push(format!("{:?}", call.request.cache.is_some()));
        next.run(call).await
    }
}

#[tokio::test]
async fn requests_ask_for_caching_unless_disabled() {
    let log = Log::default();
    let builder = |replies: [&str; 1]| {
        Agent::builder(ScriptedProvider::new(replies)).layer(Wishes(log.clone()))
    };
    builder(["a"]).build().run(&mut Conversation::new(), "go").await.unwrap();
    let without = builder(["b"]).request(|request| request.cache = None).build();
    without.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!(log.lines(), ["true", "false"]);
}

/// A provider that implements only the methods that take the request by value.
struct Owning(ScriptedProvider);

impl Provider for Owning {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.0.complete_stream(request).await
    }
}

#[tokio::test]
async fn provider_that_copies_long_requests_logs_one_warning() {
    let warnings = Warnings::keep();
    let request = |messages| CompletionRequest {
        messages: vec![Message::user("hello"); messages],
        ..Default::default()
    };
    let provider = Owning(ScriptedProvider::new(["a", "b", "c", "d"]));
    let copies = "copies the whole conversation";
    provider.complete_ref(request(99).view()).await.unwrap();
    assert_eq!(warnings.count(copies), 0);
    provider.complete_ref(request(100).view()).await.unwrap();
    assert_eq!(warnings.count(copies), 1);
    provider.complete_ref(request(101).view()).await.unwrap();
    provider.complete_stream_ref(request(101).view()).await.unwrap();
    assert_eq!(warnings.count(copies), 1);
}
