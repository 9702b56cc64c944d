//! Regressions of the loop's first implementation. Each of these tests failed with that implementation.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::{FutureExt, StreamExt};
use neuron_loop::{Agent, Budget, Conversation, LoopError, OnLimit, OutputMode, Start};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::support::*;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Sum {
    value: u8,
}

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

/// Returns a response with this text and a call of the tool `act`.
fn text_and_call(text: &str) -> Reply {
    let (id, name, input) = ("c0".into(), "act".into(), json!({ "text": "a" }));
    Reply::message(vec![ContentBlock::Text(text.into()), ContentBlock::ToolUse { id, name, input }])
}

fn empty() -> Reply {
    Reply::message(Vec::new())
}

#[tokio::test]
async fn empty_response_is_no_output_despite_earlier_text() {
    let setup = setup([text_and_call(r#"{"value": 4}"#), empty(), Reply::text(r#"{"value": 5}"#)]);
    let mut agent = setup.builder.output_mode(OutputMode::Prompt).build();
    let ctx = ToolContext::default();
    let run = agent.run_typed::<Sum>(Message::user("go"), &ctx);
    assert_eq!(run.await.unwrap().value, Sum { value: 5 });
}

/// Declares with `ForcedCalls` in which requests the provider's models can be forced to call a tool.
fn unforced(provider: ScriptedProvider, forced_calls: ForcedCalls) -> ScriptedProvider {
    provider.with_info(ProviderInfo::new("unforced", "deep-1").with_forced_calls(forced_calls))
}

#[tokio::test]
async fn last_call_forces_the_output_tool_only_if_possible() {
    let deep = ForcedCalls::NotWhileThinking { thinking_models: &["deep-"] };
    let by_request = ForcedCalls::NotWhileThinking { thinking_models: &["other-"] };
    let thinking = Some(ThinkingConfig::Adaptive);
    for (forced_calls, thinking, is_forced) in [
        (ForcedCalls::Accepted, thinking, true),
        (ForcedCalls::Refused, None, false),
        (deep, None, false),
        (by_request, thinking, false),
        (by_request, None, true),
        (by_request, Some(ThinkingConfig::Disabled), true),
    ] {
        let output = Reply::tool_call("o", "final_output", json!({ "value": 4 }));
        let provider = ScriptedProvider::new([calls([json!({})]), output]);
        let agent = Agent::builder(unforced(provider.clone(), forced_calls))
            .tools(registry(&Log::default()))
            .max_turns(1)
            .config(|config| config.on_limit = OnLimit::Finalize)
            .request(|request| request.thinking = thinking)
            // A callback cannot hide the output tool.
            .prepare_turn(|turn| turn.retain_tools(|_| false))
            .build();
        let mut chat = Conversation::new();
        let result = agent.run(&mut chat, "go").typed::<Sum>().await.unwrap();
        assert_eq!(result.output, Sum { value: 4 });
        let last = provider.requests().pop().unwrap();
        let forced = ToolChoice::Specific { name: "final_output".into() };
        assert_eq!(last.tool_choice == Some(forced), is_forced, "{forced_calls:?} {thinking:?}");
        let offered: Vec<_> = last.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["final_output"]);
        let notice = last.messages.last().unwrap().text();
        assert!(notice.contains("by calling `final_output`"), "{notice}");
    }
}

#[tokio::test]
async fn invalid_output_at_a_limit_is_in_the_error_without_a_complaint() {
    for (mode, answer, raw) in [
        (OutputMode::Prompt, Reply::text("seven"), "seven"),
        (OutputMode::Tool, Reply::text("seven"), "seven"),
        (
            OutputMode::Tool,
            Reply::tool_call("o", "final_output", json!({"value": "x"})),
            r#"{"value":"x"}"#,
        ),
    ] {
        let setup = setup([calls([json!({})]), answer]);
        let mut agent =
            setup.builder.max_turns(1).on_limit(OnLimit::Finalize).output_mode(mode).build();
        let ctx = ToolContext::default();
        let error = agent.run_typed::<Sum>(Message::user("go"), &ctx).await.unwrap_err();
        let LoopError::InvalidOutput { raw: told, .. } = error else { panic!("{error}") };
        assert_eq!(told, raw, "{mode:?}");
        check_valid(agent.messages());
        let users = |message: &&Message| {
            message.role == Role::User
                && message.tool_uses().count() == 0
                && !message.content.iter().any(|block| block.as_tool_result_id().is_some())
        };
        assert_eq!(agent.messages().iter().filter(users).count(), 1, "{:?}", agent.messages());
    }
}

/// A provider that streams one response with two tool calls of the same id.
struct Twice;

impl Provider for Twice {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("only streams".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        let call = |text: &str| StreamEvent::ToolUse {
            id: "c0".into(),
            name: "look".into(),
            input: json!({ "text": text }),
        };
        let start = || StreamEvent::ToolUseStart { id: "c0".into(), name: "look".into() };
        let content = ["a", "b"].map(|text| ContentBlock::ToolUse {
            id: "c0".into(),
            name: "look".into(),
            input: json!({ "text": text }),
        });
        let message = Message { role: Role::Assistant, content: content.into() };
        let events =
            [start(), call("a"), start(), call("b"), StreamEvent::MessageComplete(message)];
        Ok(StreamReceiver::new(futures_util::stream::iter(events)).into())
    }
}

/// The tool `look`, which only reads.
struct Look(Act);

impl ToolDyn for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("look")
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.call_dyn(input, ctx)
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }
}

#[tokio::test]
async fn calls_with_the_same_id_start_at_most_once_and_count() {
    let (log, hook, budget) =
        (Log::default(), Recorder::default(), Budget::new(UsageLimits::default()));
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Look(Act { name: "look", log: log.clone() })));
    let agent = Agent::builder(Twice)
        .tools(tools)
        .hook(hook.clone())
        .budget(budget.clone())
        .config(|config| (config.early_tools, config.retries) = (true, 0))
        .build();
    let mut chat = Conversation::new();
    let mut events = agent.run(&mut chat, "go").stream();
    let mut error = None;
    while let Some(event) = events.next().await {
        error = event.err();
    }
    drop(events);
    let error = error.unwrap().to_string();
    assert!(error.contains("two tool calls have the id `c0`"), "{error}");
    assert!(log.count("start") <= 1, "{:?}", log.lines());
    let told = hook.log.lines();
    assert_eq!(told.iter().filter(|line| line.starts_with("PreTool")).count(), 1, "{told:?}");
    check_pairs(&told);
    assert_eq!(budget.tool_calls(), 1);
    assert_eq!(chat.messages(), [Message::user("go")]);
}

/// A policy that logs each time it is asked. It requires an approval for a call with the argument `ask`.
struct Counts(Log);

impl PermissionPolicy for Counts {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        self.0.push("asked");
        match input.get("ask") {
            Some(_) => PermissionDecision::Ask("sure?".into()),
            None => PermissionDecision::Allow,
        }
    }
}

#[tokio::test]
async fn skipped_call_needs_no_approval() {
    let (setup, asked) =
        (setup([calls([json!({ "ask": "?" })]), Reply::text("done")]), Log::default());
    let skip = HookAction::Skip { reason: "not now".into() };
    let mut agent = setup
        .builder
        .permission_policy(Counts(asked.clone()))
        .pause_for_approval(true)
        .hook(Recorder::answering("PreTool", skip))
        .build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!((result.response.as_str(), asked.count("asked")), ("done", 0));
    assert_eq!(last_results(agent.messages()), ["c0: not now"]);
}

/// A hook that hangs at its second tool call event, which announces the approved call. Its other events return.
#[derive(Clone, Default)]
struct HangsOnce(Log);

impl ObservabilityHook for HangsOnce {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if matches!(event, HookEvent::PreToolExecution { .. }) {
            self.0.push("asked");
            // The first event is for the call itself, the second for the call with its decision.
            if self.0.count("asked") == 2 {
                std::future::pending::<()>().await;
            }
        }
        Ok(HookAction::Continue)
    }
}

#[tokio::test]
async fn decision_survives_a_drop_inside_a_hook() {
    let log = Log::default();
    let provider =
        ScriptedProvider::new([calls([json!({ "ask": "?", "text": "a" })]), Reply::text("done")]);
    let agent = Agent::builder(provider)
        .tools(registry(&log))
        .permission_policy(Counts(Log::default()))
        .config(|config| config.pause_for_approval = true)
        .hook(HangsOnce::default())
        .build();
    let mut chat = Conversation::new();
    let error = agent.run(&mut chat, "go").await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
    let decisions = ApprovalDecisions::approve_all(&pending);
    {
        let mut run = pin!(agent.run(&mut chat, decisions.clone()).into_future());
        assert!(run.as_mut().now_or_never().is_none());
    }
    assert_eq!(log.count("start"), 0, "nothing began");
    assert_eq!(chat.pending().unwrap().calls, pending.calls);
    check_valid(chat.messages());
    // The decisions are also kept in a session.
    let mut session = Session::new("s", ".".into());
    chat.write_session(&mut session).unwrap();
    assert_eq!(Conversation::from_session(session), chat);
    assert_eq!(agent.run(&mut chat, decisions).await.unwrap().response, "done");
    assert_eq!(log.count("start c0"), 1);
}

#[tokio::test]
async fn continue_with_pending_calls_is_an_error_without_changes() {
    let provider = ScriptedProvider::new([calls([json!({ "ask": "?" })])]);
    let agent = Agent::builder(provider)
        .tools(registry(&Log::default()))
        .permission_policy(Counts(Log::default()))
        .config(|config| config.pause_for_approval = true)
        .build();
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").await.unwrap_err();
    let before = chat.clone();
    for _ in 0..2 {
        let error = agent.run(&mut chat, Start::Continue).await.unwrap_err();
        let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
        assert_eq!(Some(*pending), before.pending());
        assert_eq!(chat, before);
    }
}

#[tokio::test]
async fn call_cancelled_before_it_began_is_reported_as_not_executed() {
    for parallel in [false, true] {
        let inputs = [json!({ "cancel": true }), json!({ "text": "b" })];
        let setup = setup([calls(inputs)]);
        let mut agent = setup.builder.parallel_tool_execution(parallel).build();
        agent.config_mut().max_parallel_tools = Some(1);
        let ctx = ToolContext::default();
        let mut stops = agent.tools_mut();
        stops.register_dyn(Arc::new(Stops(ctx.cancellation_token.clone())));
        drop(stops);
        let error = agent.run_text("go", &ctx).await.unwrap_err();
        assert!(matches!(error, LoopError::Cancelled), "{error}");
        let results = last_results(agent.messages());
        assert_eq!(
            results[1], "c1: ![not executed: the run was cancelled]",
            "parallel: {parallel}"
        );
    }
}

/// A tool that replaces `act`. It cancels the run and then returns a result.
struct Stops(tokio_util::sync::CancellationToken);

impl ToolDyn for Stops {
    fn name(&self) -> &str {
        "act"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("act")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.cancel();
        Box::pin(async { Ok(ToolOutput::text("stopped")) })
    }
}

#[tokio::test]
async fn call_that_was_never_sent_charges_no_tokens() {
    for (cause, takes) in
        [(Box::new(Unsent("connection refused".into())) as BoxError, false), ("reset".into(), true)]
    {
        let budget = Budget::new(UsageLimits::default());
        let provider = ScriptedProvider::new([Reply::error(ProviderError::Network(cause))]);
        let agent = Agent::builder(provider)
            .budget(budget.clone())
            .config(|config| config.retries = 0)
            .request(|request| request.max_tokens = Some(500))
            .build();
        agent.run(&mut Conversation::new(), "go").await.unwrap_err();
        assert_eq!(budget.usage().output_tokens > 0, takes);
        assert_eq!(budget.requests(), 1);
    }
}

#[tokio::test]
async fn result_shows_estimated_tokens() {
    let provider = ScriptedProvider::new([
        calls([json!({})]).usage(usage(10, 2)),
        Reply::text("forty-two").usage(TokenUsage::default()),
    ]);
    let agent = Agent::builder(provider).tools(registry(&Log::default())).build();
    let mut chat = Conversation::new();
    let result = agent.run(&mut chat, "go").await.unwrap();
    let estimated = result.estimated_usage;
    assert!(estimated.input_tokens > 0 && estimated.output_tokens > 0);
    assert_eq!(result.usage.output_tokens, 2 + estimated.output_tokens);
}

/// A provider that streams the given events, one list per request, without the final event that contains the complete
/// response.
struct Events(std::sync::Mutex<Vec<Vec<StreamEvent>>>);

impl Provider for Events {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("only streams".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        let events = self.0.lock().unwrap().remove(0);
        Ok(StreamReceiver::new(futures_util::stream::iter(events)).into())
    }
}

#[tokio::test]
async fn stream_that_ends_with_a_compaction_continues_and_counts_its_iterations() {
    let pass =
        |kind: &str| UsageIteration { kind: kind.into(), input_tokens: 7, ..Default::default() };
    let used = TokenUsage { iterations: Some(vec![pass("compaction")]), ..usage(7, 1) };
    let compacted = ContentBlock::Compaction { content: "in short".into() };
    let compacted = Message { role: Role::Assistant, content: vec![compacted] };
    let provider = Events(std::sync::Mutex::new(vec![
        vec![StreamEvent::Usage(used), StreamEvent::MessageComplete(compacted)],
        vec![
            StreamEvent::TextDelta("done".into()),
            StreamEvent::Usage(usage(3, 1)),
            StreamEvent::MessageComplete(Message::assistant("done")),
        ],
    ]));
    let agent = Agent::builder(provider).build();
    let mut chat = Conversation::new();
    let mut events = agent.run(&mut chat, "go").stream();
    let mut ended = None;
    while let Some(event) = events.next().await {
        if let neuron_loop::RunEvent::Ended(result) = event.unwrap() {
            ended = Some(result);
        }
    }
    let result = ended.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 2));
    assert_eq!(result.usage.iterations, Some(vec![pass("compaction")]));
}

#[tokio::test]
async fn restored_session_does_not_use_the_earlier_size() {
    // The agent has a large conversation first, and then a small one.
    let (setup, ctx) = (
        setup([Reply::text("one").usage(usage(90_000, 1)), Reply::text("two")]),
        ToolContext::default(),
    );
    let strategy = Sizes(Log::default());
    let mut agent = Chat::builder(setup.provider.clone(), strategy.clone()).build();
    agent.run_text("go", &ctx).await.unwrap();
    agent.restore_session(&Session::new("small", ".".into()));
    agent.run_text("hi", &ctx).await.unwrap();
    let sizes = strategy.0.lines();
    assert!(sizes.last().unwrap().parse::<usize>().unwrap() < 1_000, "{sizes:?}");
}

/// A context strategy that never compacts, and logs the token counts that it receives.
#[derive(Clone)]
struct Sizes(Log);

impl ContextStrategy for Sizes {
    fn should_compact(&self, _: &[Message], token_count: usize) -> bool {
        self.0.push(token_count.to_string());
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }

    fn counts_tokens(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn call_below_a_resumed_call_gets_no_resumed_approval() {
    let log = Log::default();
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Keys(log.clone())));
    let agent = Agent::builder(ScriptedProvider::new([calls([json!({})]), Reply::text("done")]))
        .tools(tools)
        .build();
    // The context of a call that resumes its nested agent.
    let mut ctx =
        ToolContext { call_id: "c9".into(), run_id: "outer".into(), ..ToolContext::default() };
    let waiting = PendingApproval::new("inner", Vec::new());
    ctx.extensions.insert(ResumedApproval::new(waiting, ApprovalDecisions::new()));
    agent.run(&mut Conversation::new(), "go").context(&ctx).await.unwrap();
    assert_eq!(log.lines().len(), 1);
}

#[tokio::test]
async fn stream_ends_when_polled_only_after_its_own_wake_ups() {
    // A stream wakes its task for each event that it takes. The run must not need another wake-up.
    let setup = setup([Reply::text("done").chunk_chars(1)]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let mut count = 0;
    futures_util::future::poll_fn(|cx| {
        loop {
            match events.poll_next_unpin(cx) {
                Poll::Ready(Some(_)) => count += 1,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    assert!(count > 4);
}

/// Returns an agent and a conversation in which the first tool call waits for an approval.
async fn waiting(replies: [Reply; 2], log: &Log) -> (Agent, Conversation) {
    let agent = Agent::builder(ScriptedProvider::new(replies))
        .tools(registry(log))
        .permission_policy(Counts(Log::default()))
        .config(|config| config.pause_for_approval = true)
        .build();
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").await.unwrap_err();
    assert!(chat.pending().is_some());
    (agent, chat)
}

#[tokio::test]
async fn run_left_waiting_can_wait_again() {
    let log = Log::default();
    let replies = [calls([json!({ "ask": "?" })]), Reply::text("done")];
    let (agent, mut chat) = waiting(replies, &log).await;
    let decisions = ApprovalDecisions::approve_all(&chat.pending().unwrap());
    let mut run = agent.run(&mut chat, Start::Continue).wait_for_approval();
    let handle = run.handle();
    let mut run = pin!(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    assert!(handle.pending().is_some());
    handle.decide(decisions).unwrap();
    assert_eq!(run.await.unwrap().response, "done");
    assert_eq!(log.count("start c0"), 1);
}

#[tokio::test]
async fn handle_has_no_pending_calls_after_a_dropped_wait() {
    let log = Log::default();
    let replies = [calls([json!({ "ask": "?" })]), Reply::text("done")];
    let (agent, mut chat) = waiting(replies, &log).await;
    let mut run = agent.run(&mut chat, Start::Continue).wait_for_approval();
    let handle = run.handle();
    {
        let mut run = pin!(run.into_future());
        assert!(run.as_mut().now_or_never().is_none());
    }
    assert!(handle.pending().is_none());
    assert!(chat.pending().is_some(), "the call waits on");
}

#[tokio::test]
async fn assistant_message_from_outside_closes_pending_calls() {
    let log = Log::default();
    let replies = [calls([json!({ "ask": "?" })]), Reply::text("done")];
    let (agent, mut chat) = waiting(replies, &log).await;
    let decisions = ApprovalDecisions::approve_all(&chat.pending().unwrap());
    chat.push(Message::assistant("I go on without it."));
    assert!(chat.pending().is_none());
    check_valid(chat.messages());
    let results: Vec<_> = chat
        .messages()
        .iter()
        .filter(|message| message.content.iter().any(|block| block.as_tool_result_id().is_some()))
        .collect();
    assert!(format!("{results:?}").contains("[not executed: the conversation went on without it]"));
    let error = agent.run(&mut chat, decisions).await.unwrap_err();
    assert!(matches!(error, LoopError::Approval(ApprovalError::NothingPending)), "{error}");
    assert_eq!(log.count("start"), 0);
}

/// A tool that publishes its cancellation token, and then never ends.
struct Hangs(Arc<std::sync::Mutex<Option<tokio_util::sync::CancellationToken>>>);

impl ToolDyn for Hangs {
    fn name(&self) -> &str {
        "act"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("act")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        *self.0.lock().unwrap() = Some(ctx.cancellation_token.clone());
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn tool_timeout_cancels_the_token_of_the_call() {
    let token = Arc::default();
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Hangs(Arc::clone(&token))));
    let provider = ScriptedProvider::new([calls([json!({})]), Reply::text("done")]);
    let limit = std::time::Duration::from_secs(1);
    let agent = Agent::builder(provider).tools(tools).tool_timeout(limit).build();
    agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}
