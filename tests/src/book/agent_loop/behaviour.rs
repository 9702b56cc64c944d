//! Tests the statements that neuron's book makes about the agent loop. Covers the order of events in a turn, tool
//! calls, cancellation, limits, compaction, hooks and errors.

use std::sync::{Arc, Mutex};

use neuron_loop::{AgentLoop, LoopError};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    ContentBlock, ContentItem, ContextError, ContextStrategy, HookAction, HookError, HookEvent,
    Message, ObservabilityHook, ProviderError, Role, StopReason, StreamEvent, TokenUsage,
    ToolContext, ToolError, ToolOutput, UsageLimits, transcript,
};
use serde_json::json;

use super::{context, registry, search};

/// A log of the events of a run, in order. The test's context strategy, hook and tools write to it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A context strategy that compacts only once and then keeps only the first message. It logs all its calls.
struct Once(Log, Mutex<bool>);

impl ContextStrategy for Once {
    fn should_compact(&self, _messages: &[Message], token_count: usize) -> bool {
        self.0.push("should_compact");
        token_count > 2 && !std::mem::replace(&mut *self.1.lock().unwrap(), true)
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        self.0.push("compact");
        Ok(messages.into_iter().take(1).collect())
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.0.push("token_estimate");
        messages.len()
    }
}

/// A hook that logs the six events listed in neuron's book. Returns `action` for the event with the name `at`, and
/// `Continue` for all other events.
struct Told {
    log: Log,
    at: &'static str,
    action: HookAction,
}

impl Told {
    fn new(log: &Log) -> Self {
        Self::answering(log, "", HookAction::Continue)
    }

    fn answering(log: &Log, at: &'static str, action: HookAction) -> Self {
        let log = log.clone();
        Self { log, at, action }
    }
}

impl ObservabilityHook for Told {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        let name = match event {
            HookEvent::LoopIteration { .. } => "LoopIteration",
            HookEvent::PreLlmCall { .. } => "PreLlmCall",
            HookEvent::PostLlmCall { .. } => "PostLlmCall",
            HookEvent::PreToolExecution { .. } => "PreToolExecution",
            HookEvent::PostToolExecution { .. } => "PostToolExecution",
            HookEvent::ContextCompaction { .. } => "ContextCompaction",
            _ => return Ok(HookAction::Continue),
        };
        self.log.push(name);
        match name == self.at {
            true => Ok(self.action.clone()),
            false => Ok(HookAction::Continue),
        }
    }
}

/// Returns a registry with the search tool. A middleware writes each tool call to `log`.
fn logged_registry(log: &Log) -> ToolRegistry {
    let (mut tools, log) = (registry(), log.clone());
    tools.add_middleware(tool_middleware_fn(move |call, ctx, next| {
        log.push(format!("run {}", call.name));
        next.run(call, ctx)
    }));
    tools
}

/// Returns a registry with a search tool whose calls always fail with the error that `error` returns.
fn failing_registry(error: fn() -> ToolError) -> ToolRegistry {
    let mut tools = registry();
    tools.add_middleware(tool_middleware_fn(move |_, _, _| Box::pin(async move { Err(error()) })));
    tools
}

fn results(message: &Message) -> Vec<(&str, String, bool)> {
    assert_eq!(message.role, Role::User);
    let result = |block| match block {
        &ContentBlock::ToolResult { ref tool_use_id, ref content, is_error } => {
            (tool_use_id.as_str(), content[0].to_string(), is_error)
        }
        other => panic!("{other:?}"),
    };
    message.content.iter().map(result).collect()
}

#[tokio::test]
async fn turn_follows_the_documented_order() {
    let log = Log::default();
    let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
    let mut agent = AgentLoop::builder(provider, Once(log.clone(), Mutex::default()))
        .tools(logged_registry(&log))
        .hook(Told::new(&log))
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(
        log.take(),
        [
            "LoopIteration",
            "token_estimate",
            "should_compact",
            "PreLlmCall",
            "PostLlmCall",
            "PreToolExecution",
            "run search",
            "PostToolExecution",
            // In the second turn, three messages are too many, and compaction leaves one.
            "LoopIteration",
            "token_estimate",
            "should_compact",
            "compact",
            "token_estimate",
            // The loop asks again after compaction, to see if it was sufficient.
            "should_compact",
            "ContextCompaction",
            "PreLlmCall",
            "PostLlmCall",
        ]
    );
}

#[tokio::test]
async fn cancellation_is_checked_before_turn_and_usage_limits() {
    let log = Log::default();
    let agent = |max_turns| {
        AgentLoop::builder(ScriptedProvider::new([Reply::text("")]), context())
            .hook(Told::new(&log))
            .max_turns(max_turns)
            .usage_limits(UsageLimits::default().with_request_limit(0))
            .build()
    };
    let ctx = ToolContext::default();
    let result = agent(1).run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::UsageLimitExceeded(_))));
    let result = agent(0).run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::MaxTurns(0))));
    ctx.cancellation_token.cancel();
    let result = agent(0).run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::Cancelled)));
    assert!(log.take().is_empty(), "no turn began");
}

/// Checks that a tool call adds the two messages to the history that the flow diagram in neuron's book shows.
#[tokio::test]
async fn tool_call_adds_two_messages_to_the_history() {
    let call = Reply::tool_call("call_1", "search", json!({ "query": "Tokyo" }));
    let provider = ScriptedProvider::new([
        call.with_text("Let me look that up."),
        Reply::text("It's 22°C and sunny in Tokyo."),
    ]);
    let mut agent = AgentLoop::builder(provider.clone(), context()).tools(registry()).build();
    let question = "What's the weather in Tokyo?";
    let result = agent.run_text(question, &ToolContext::default()).await.unwrap();
    let tool_use = ContentBlock::ToolUse {
        id: "call_1".into(),
        name: "search".into(),
        input: json!({ "query": "Tokyo" }),
    };
    let tool_result = ContentBlock::ToolResult {
        tool_use_id: "call_1".into(),
        content: vec![ContentItem::Text("search Tokyo".into())],
        is_error: false,
    };
    let history = [
        Message::user(question),
        Message {
            role: Role::Assistant,
            content: vec![ContentBlock::Text("Let me look that up.".into()), tool_use],
        },
        Message { role: Role::User, content: vec![tool_result] },
        Message::assistant("It's 22°C and sunny in Tokyo."),
    ];
    let requests = provider.requests();
    assert_eq!(requests[0].messages, history[..1]);
    assert_eq!(requests[1].messages, history[..3]);
    assert_eq!(result.messages, history);
    assert_eq!(result.response, "It's 22°C and sunny in Tokyo.");
    assert_eq!(result.turns, 2);
}

#[tokio::test]
async fn results_are_one_user_message_in_call_order() {
    for parallel in [false, true] {
        let call = |id, query| (id, "search", json!({ "query": query }));
        let provider = ScriptedProvider::new([
            Reply::tool_calls([call("c1", "a"), call("c2", "b")]),
            Reply::text("done"),
        ]);
        let mut agent = AgentLoop::builder(provider, context())
            .tools(registry())
            .parallel_tool_execution(parallel)
            .build();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(result.messages.len(), 4);
        assert_eq!(
            results(&result.messages[2]),
            [("c1", "search a".into(), false), ("c2", "search b".into(), false)]
        );
    }
}

#[tokio::test]
async fn model_retry_continues_and_other_tool_errors_end_the_run() {
    let run = async |error: fn() -> ToolError| {
        let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
        let mut agent =
            AgentLoop::builder(provider, context()).tools(failing_registry(error)).build();
        let result = agent.run_text("go", &ToolContext::default()).await;
        assert_eq!(transcript::validate(agent.messages()), Ok(()));
        let messages = agent.messages().to_vec();
        (result, messages)
    };
    let (result, messages) = run(|| ToolError::ModelRetry("try YYYY-MM-DD".into())).await;
    assert_eq!(result.unwrap().response, "done");
    assert_eq!(results(&messages[2]), [("c1", "try YYYY-MM-DD".into(), true)]);
    let errors: [fn() -> ToolError; 4] = [
        || ToolError::NotFound("search".into()),
        || ToolError::InvalidInput("no".into()),
        || ToolError::ExecutionFailed("disk".into()),
        || ToolError::PermissionDenied("no".into()),
    ];
    for error in errors {
        let (result, _) = run(error).await;
        match result {
            Err(LoopError::Tool(tool)) => assert_eq!(tool.kind(), error().kind()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn cancellation_stops_before_a_turn_and_before_tools() {
    // If the run is cancelled before it starts, the model is not called.
    let log = Log::default();
    let agent = |provider: &ScriptedProvider, hook| {
        AgentLoop::builder(provider.clone(), context())
            .tools(logged_registry(&log))
            .hook(hook)
            .build()
    };
    let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
    let ctx = ToolContext::default();
    ctx.cancellation_token.cancel();
    let result = agent(&provider, Told::new(&log)).run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::Cancelled)));
    assert_eq!(provider.calls(), 0);

    // If the run is cancelled while the response with the tool calls arrives, no tool runs.
    struct CancelAfterAnswer(ToolContext);
    impl ObservabilityHook for CancelAfterAnswer {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            if let HookEvent::PostLlmCall { .. } = event {
                self.0.cancellation_token.cancel();
            }
            Ok(HookAction::Continue)
        }
    }
    let ctx = ToolContext::default();
    let mut agent = AgentLoop::builder(provider.clone(), context())
        .tools(logged_registry(&log))
        .hook(CancelAfterAnswer(ctx.clone()))
        .build();
    let result = agent.run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::Cancelled)));
    assert_eq!(provider.calls(), 1);
    assert!(log.take().is_empty(), "neither a turn nor a tool");
    assert_eq!(transcript::validate(agent.messages()), Ok(()));
}

#[tokio::test]
async fn limit_errors_name_the_exceeded_limit() {
    let used = |input_tokens, output_tokens| TokenUsage {
        input_tokens,
        output_tokens,
        ..Default::default()
    };
    let limits = UsageLimits::default;
    for (limits, usage, text) in [
        (
            limits().with_output_tokens_limit(50_000),
            used(1, 50_123),
            "output token limit exceeded: 50123 > 50000",
        ),
        (
            limits().with_input_tokens_limit(500_000),
            used(500_001, 1),
            "input token limit exceeded: 500001 > 500000",
        ),
        (
            limits().with_total_tokens_limit(100),
            used(60, 41),
            "total token limit exceeded: 101 > 100",
        ),
        (limits().with_request_limit(1), used(1, 1), "request limit exceeded: 2 > 1"),
        (limits().with_tool_calls_limit(0), used(1, 1), "tool call limit exceeded: 1 > 0"),
    ] {
        let provider = ScriptedProvider::new([search("c1").usage(usage), Reply::text("done")]);
        let mut agent = AgentLoop::builder(provider.clone(), context())
            .tools(registry())
            .usage_limits(limits)
            .build();
        let ctx = ToolContext::default();
        match agent.run_text("go", &ctx).await {
            Err(LoopError::UsageLimitExceeded(said)) => assert_eq!(said, text),
            other => panic!("{other:?} instead of {text}"),
        }
        assert_eq!(provider.calls(), 1);
    }
}

#[tokio::test]
async fn unset_limits_are_not_enforced() {
    let used = TokenUsage {
        input_tokens: 1_000_000,
        output_tokens: 1_000_000,
        cache_read_tokens: Some(3),
        ..Default::default()
    };
    let provider = ScriptedProvider::new([
        search("c1").usage(used.clone()),
        search("c2").usage(used.clone()),
        Reply::text("done").usage(used),
    ]);
    let mut agent = AgentLoop::builder(provider, context())
        .tools(registry())
        .usage_limits(UsageLimits::default().with_request_limit(3))
        .build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.turns, 3);
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (3_000_000, 3_000_000));
    assert_eq!(result.usage.cache_read_tokens, Some(9));
}

#[tokio::test]
async fn server_side_compaction_continues_the_run() {
    let compacted = Reply::message(vec![ContentBlock::Compaction { content: "so far".into() }]);
    let provider =
        ScriptedProvider::new([compacted.stop_reason(StopReason::Compaction), Reply::text("done")]);
    let mut agent = AgentLoop::builder(provider.clone(), context()).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 2));
    let appended = &provider.requests()[1].messages[1];
    assert_eq!(appended.role, Role::Assistant);
    assert!(matches!(appended.content[..], [ContentBlock::Compaction { .. }]));
}

#[tokio::test]
async fn terminate_stops_the_loop_at_every_event() {
    for event in [
        "LoopIteration",
        "PreLlmCall",
        "PostLlmCall",
        "PreToolExecution",
        "PostToolExecution",
        "ContextCompaction",
    ] {
        let log = Log::default();
        let reason = "enough".to_owned();
        let hook = Told::answering(&log, event, HookAction::Terminate { reason });
        let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
        let mut agent = AgentLoop::builder(provider, Once(log.clone(), Mutex::default()))
            .tools(registry())
            .hook(hook)
            .build();
        match agent.run_text("go", &ToolContext::default()).await {
            Err(LoopError::HookTerminated(reason)) => assert_eq!(reason, "enough"),
            other => panic!("{event}: {other:?}"),
        }
        assert_eq!(log.take().last().map(String::as_str), Some(event));
        assert_eq!(transcript::validate(agent.messages()), Ok(()), "{event}");
    }
}

#[tokio::test]
async fn skip_returns_the_rejection_as_tool_result() {
    let log = Log::default();
    let reason = "not today".to_owned();
    let hook = Told::answering(&log, "PreToolExecution", HookAction::Skip { reason });
    let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
    let mut agent =
        AgentLoop::builder(provider, context()).tools(logged_registry(&log)).hook(hook).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");
    let (id, text, _) = &results(&result.messages[2])[0];
    assert_eq!((*id, text.as_str()), ("c1", "not today"));
    assert!(!log.take().contains(&"run search".to_owned()));
}

#[tokio::test]
async fn hook_error_does_not_stop_the_loop() {
    struct Broken;
    impl ObservabilityHook for Broken {
        async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
            Err(HookError::Failed("no disk".into()))
        }
    }
    let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
    let mut agent = AgentLoop::builder(provider, context()).tools(registry()).hook(Broken).build();
    let result = agent.run_text("go", &ToolContext::default()).await;
    assert_eq!(result.unwrap().response, "done");
}

#[tokio::test]
async fn each_documented_cause_returns_its_error_variant() {
    struct Broken;
    impl ContextStrategy for Broken {
        fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
            true
        }
        async fn compact(&self, _messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            Err(ContextError::CompactionFailed("empty".into()))
        }
        fn token_estimate(&self, _messages: &[Message]) -> usize {
            0
        }
    }
    let ctx = ToolContext::default();
    let error = || Reply::error(ProviderError::ModelNotFound("m".into()));
    let mut agent = AgentLoop::builder(ScriptedProvider::new([error()]), context()).build();
    let result = agent.run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::Provider(ProviderError::ModelNotFound(_)))));
    let mut agent = AgentLoop::builder(ScriptedProvider::new([error()]), Broken).build();
    let result = agent.run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::Context(ContextError::CompactionFailed(_)))));
    let provider = ScriptedProvider::new([search("c1")]);
    let mut agent = AgentLoop::builder(provider, context()).tools(registry()).max_turns(1).build();
    let result = agent.run_text("go", &ctx).await;
    assert!(matches!(result, Err(LoopError::MaxTurns(1))));
}

#[tokio::test]
async fn stream_reports_an_error_as_an_event() {
    let error = Reply::error(ProviderError::ServiceUnavailable("529".into()));
    let provider = ScriptedProvider::new([error]);
    let mut agent = AgentLoop::builder(provider, context()).build();
    let ctx = ToolContext::default();
    let mut rx = agent.run_stream(Message::user("go"), &ctx).await;
    let Some(StreamEvent::Error(error)) = rx.recv().await else { panic!("an error") };
    assert!(error.is_retryable());
    assert_eq!(error.to_string(), "provider error: service unavailable: 529");
}

#[tokio::test]
async fn tool_output_with_is_error_is_a_result() {
    let mut tools = registry();
    tools.add_middleware(tool_middleware_fn(|_, _, _| {
        Box::pin(async { Ok(ToolOutput::error("no such page")) })
    }));
    let provider = ScriptedProvider::new([search("c1"), Reply::text("done")]);
    let mut agent = AgentLoop::builder(provider, context()).tools(tools).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(results(&result.messages[2]), [("c1", "no such page".into(), true)]);
}
