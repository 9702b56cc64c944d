//! The size that the loop assumes for the conversation, from estimates and from the provider's reports.

use std::sync::{Arc, Mutex};

use neuron_context::{
    SlidingWindowStrategy, SummarizationStrategy, TokenCounter, ToolResultClearingStrategy,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContextError, ContextStrategy, HookAction, HookError, HookEvent, Message, ObservabilityHook,
    Operation, OperationKind, OperationScope, Outcome, RequestRef, TokenUsage, ToolContext,
    ToolDefinition, ToolDyn, ToolError, ToolOutput, UsageIteration, WasmBoxedFuture,
};
use serde_json::json;

use crate::support::*;
use crate::warnings::Warnings;

/// A context strategy that logs every size it receives, and compacts above the size `above`. It estimates ten tokens
/// per message, and a hundred for the system prompt and the tools.
#[derive(Clone)]
struct Noting {
    seen: Arc<Mutex<Vec<usize>>>,
    above: usize,
    how: fn(&[Message]) -> Vec<Message>,
}

impl Noting {
    fn new(above: usize, how: fn(&[Message]) -> Vec<Message>) -> Self {
        Self { seen: Arc::default(), above, how }
    }

    fn seen(&self) -> Vec<usize> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl ContextStrategy for Noting {
    fn should_compact(&self, _: &[Message], token_count: usize) -> bool {
        self.seen.lock().unwrap().push(token_count);
        token_count > self.above
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok((self.how)(&messages))
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len() * 10
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        100 + self.token_estimate(request.messages)
    }

    fn counts_tokens(&self) -> bool {
        true
    }
}

fn unchanged(messages: &[Message]) -> Vec<Message> {
    messages.to_vec()
}

fn halved(messages: &[Message]) -> Vec<Message> {
    let last = messages.len().saturating_sub(2).max(1);
    messages[..1].iter().chain(&messages[last..]).cloned().collect()
}

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

#[tokio::test]
async fn estimate_includes_prompt_and_tools_from_the_first_turn() {
    let log = Log::default();
    let tools = registry(&log);
    let counter = TokenCounter::new();
    let expected = counter.estimate_tools(&tools.definitions())
        + counter.estimate_text("You are a calculator.")
        + counter.estimate_messages(&[Message::user("go")]);
    // The budget is one token below the size, so a compaction is tried. There is no scripted response, so nothing
    // follows.
    for (limit, tried) in [(expected - 1, true), (expected, false)] {
        let strategy = SlidingWindowStrategy::new(10, limit);
        let provider = ScriptedProvider::new([Reply::text("done")]);
        let agent = Chat::builder(provider, strategy.clone())
            .tools(registry(&log))
            .system_prompt("You are a calculator.");
        let scopes = Scoped::default();
        agent.hook(scopes.clone()).build().run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(scopes.0.count("compaction") == 1, tried);
    }
}

/// A hook that logs each attempt to compact, even if it has no effect.
#[derive(Clone, Default)]
struct Scoped(Log);

impl neuron_types::ObservabilityHook for Scoped {
    async fn on_event(
        &self,
        _: neuron_types::HookEvent<'_>,
    ) -> Result<neuron_types::HookAction, neuron_types::HookError> {
        Ok(neuron_types::HookAction::Continue)
    }

    fn scope(
        &self,
        operation: &neuron_types::Operation<'_>,
    ) -> Option<Box<dyn neuron_types::OperationScope>> {
        if let neuron_types::OperationKind::Compaction { .. } = operation.kind {
            self.0.push("compaction");
        }
        None
    }
}

#[tokio::test]
async fn reported_size_counts_and_later_messages_are_estimated() {
    let strategy = Noting::new(usize::MAX, unchanged);
    let provider = ScriptedProvider::new([
        calls([json!({})]).usage(usage(5_000, 70)),
        calls([json!({})]).usage(usage(0, 0)),
        Reply::text("done").usage(usage(6_000, 30)),
        Reply::text("more"),
    ]);
    let mut agent =
        Chat::builder(provider, strategy.clone()).tools(registry(&Log::default())).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap();
    // The second response has no usage, so the earlier report still counts.
    assert_eq!(strategy.seen(), [110, 5_070 + 10, 5_070 + 30]);
    agent.run_text("and", &ctx).await.unwrap();
    assert_eq!(strategy.seen(), [6_030 + 10], "the next run knows it too");
}

/// A vendor that compacts the conversation itself reports the tokens of each pass of the call.
#[tokio::test]
async fn the_last_pass_of_a_call_tells_the_size() {
    let pass = |kind: &str, input_tokens, output_tokens| UsageIteration {
        kind: kind.into(),
        input_tokens,
        output_tokens,
        ..Default::default()
    };
    let compacted = pass("compaction", 900, 30);
    for (iterations, size) in [
        (None, 1_010),
        (Some(vec![compacted.clone()]), 30),
        (Some(vec![compacted, pass("message", 40, 7)]), 47),
    ] {
        let strategy = Noting::new(usize::MAX, unchanged);
        let usage = TokenUsage { iterations, ..usage(1_000, 10) };
        let provider =
            ScriptedProvider::new([calls([json!({})]).usage(usage), Reply::text("done")]);
        let mut agent =
            Chat::builder(provider, strategy.clone()).tools(registry(&Log::default())).build();
        agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(strategy.seen(), [110, size + 10]);
    }
}

/// A context strategy that compacts a conversation of several messages to one. The estimate of several messages is
/// `old`, and the estimate of one message is `new`.
struct Estimating {
    old: usize,
    new: usize,
}

impl ContextStrategy for Estimating {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > 1
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages[..1].to_vec())
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        match messages.len() {
            1 => self.new,
            _ => self.old,
        }
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.token_estimate(request.messages)
    }

    fn counts_tokens(&self) -> bool {
        true
    }
}

/// Logs the size of the conversation after each compaction, even if the compaction has no effect.
#[derive(Clone, Default)]
struct Sizes(Log);

impl ObservabilityHook for Sizes {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        match operation.kind {
            OperationKind::Compaction { old_tokens } => {
                self.0.push(format!("from {old_tokens}"));
                Some(Box::new(self.clone()))
            }
            _ => None,
        }
    }
}

impl OperationScope for Sizes {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }

    fn end(self: Box<Self>, outcome: Outcome<'_>) {
        if let Outcome::Compacted { new_tokens } = outcome {
            self.0.push(format!("to {new_tokens}"));
        }
    }
}

#[tokio::test]
async fn size_changes_in_proportion_to_its_estimate() {
    for (new, old, size) in [(50, 100, 500), (0, 100, 0), (7, 0, 7)] {
        // The tool result is estimated, so that the size is 1,000 before the compaction.
        let first = calls([json!({})]).usage(usage(1_000 - new, 0));
        let sizes = Sizes::default();
        let mut agent = Chat::builder(
            ScriptedProvider::new([first, Reply::text("done")]),
            Estimating { old, new },
        )
        .tools(registry(&Log::default()))
        .hook(sizes.clone())
        .build();
        agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(sizes.0.lines(), ["from 1000".to_owned(), format!("to {size}")]);
    }
}

#[tokio::test]
async fn compaction_scales_the_reported_size() {
    let strategy = Noting::new(2_000, halved);
    let replies = [
        calls([json!({})]).usage(usage(1_000, 0)),
        calls([json!({})]).usage(usage(2_990, 0)),
        // Without a report, the size after the compaction is used.
        calls([json!({})]).usage(usage(0, 0)),
        Reply::text("done"),
    ];
    let hook = Recorder::default();
    let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy.clone())
        .tools(registry(&Log::default()))
        .hook(hook.clone())
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    // Five messages of an estimated 150 tokens become three of an estimated 130, and 3,000 tokens become 2,600.
    assert_eq!(hook.log.count("Compacted 3000 2600"), 1, "{:#?}", hook.log.lines());
    assert_eq!(strategy.seen(), [110, 1_010, 3_000, 2_600]);
}

#[tokio::test]
async fn size_after_compaction_counts_until_the_next_report() {
    let strategy = Noting::new(2_800, halved);
    let replies = [
        calls([json!({})]).usage(usage(1_000, 0)),
        calls([json!({})]).usage(usage(2_990, 0)),
        calls([json!({})]).usage(usage(0, 0)),
        Reply::text("done"),
    ];
    let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy.clone())
        .tools(registry(&Log::default()))
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    // Asked immediately after the compaction, and again with two more messages.
    assert_eq!(strategy.seen(), [110, 1_010, 3_000, 2_600, 2_600 + 20]);
}

#[tokio::test]
async fn reached_budget_resets_the_compaction_backoff() {
    // Only a long conversation can be shortened enough.
    let strategy = Noting::new(500, |messages| match messages.len() {
        ..7 => halved(messages),
        _ => messages[..1].to_vec(),
    });
    let replies = [400, 1_000, 600, 750, 600]
        .map(|tokens| calls([json!({})]).usage(usage(tokens, 0)))
        .into_iter()
        .chain([Reply::text("done")]);
    let hook = Recorder::default();
    let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy.clone())
        .tools(registry(&Log::default()))
        .hook(hook.clone())
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    // At 610 tokens after the first, failed attempt, no compaction is tried. At 610 after the second, one is tried.
    assert_eq!(strategy.seen(), [110, 410, 1_010, 875, 760, 492, 610]);
}

#[tokio::test]
async fn unreachable_budget_is_reported_once_and_not_tried_every_turn() {
    for way in WAYS {
        let warnings = Warnings::keep();
        // The first message alone exceeds the budget.
        let strategy = Noting::new(500, halved);
        let replies = (0..40).map(|_| calls([json!({})])).chain([Reply::text("done")]);
        let hook = Recorder::default();
        let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy)
            .tools(registry(&Log::default()))
            .messages(vec![Message::user("x".repeat(4_000))])
            .hook(hook.clone())
            .build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let compactions = hook.log.count("Compacted");
        assert_eq!(warnings.count("budget"), 1, "{way:?}: {:#?}", warnings.lines());
        assert!((1..10).contains(&compactions), "{way:?}: {compactions} in 40 turns");
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn ineffective_strategy_is_asked_again_after_growth() {
    let strategy = Noting::new(50, |messages| match messages.len() {
        ..20 => messages.to_vec(),
        _ => halved(messages),
    });
    let replies = (1..14)
        .map(|turn| calls([json!({})]).usage(usage(turn * 100, 0)))
        .chain([Reply::text("done")]);
    let hook = Recorder::default();
    let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy)
        .tools(registry(&Log::default()))
        .hook(hook.clone())
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert!(hook.log.count("Compacted") > 0, "{:#?}", hook.log.lines());
}

/// Regression test. Tool results that the strategy can clear must be cleared soon after they appear. Before the fix,
/// this happened only after the conversation had doubled, which exceeded the context window.
#[tokio::test]
async fn clearable_results_are_cleared_soon_after_they_appear() {
    let strategy = ToolResultClearingStrategy::new(2, 1_000);
    let result = || calls([json!({ "text": "r".repeat(400) })]);
    let replies = (0..12).map(|_| result()).chain([Reply::text("done")]);
    let provider = ScriptedProvider::new(replies);
    let mut agent = Chat::builder(provider.clone(), strategy)
        .tools(registry(&Log::default()))
        .messages(vec![Message::user("x".repeat(4_000))])
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let whole = |message: &&Message| {
        message.content.iter().any(|block| {
            block.as_tool_result_id().is_some() && !block.to_string().contains("result cleared")
        })
    };
    let requests = provider.requests();
    let whole = requests.iter().map(|request| request.messages.iter().filter(whole).count());
    let whole: Vec<usize> = whole.collect();
    assert!(whole.iter().all(|whole| *whole < 5), "results that are whole: {whole:?}");
}

/// Regression test. A pinned message alone exceeds the token budget, so no compaction can reach the budget. Before the
/// fix, each run forgot this. It wrote a new summary and logged a new warning for every user message.
#[tokio::test]
async fn unreachable_budget_is_reported_once_over_many_runs() {
    for way in WAYS {
        let warnings = Warnings::keep();
        let summaries = ScriptedProvider::new((0..100).map(|_| Reply::text("summary")));
        let strategy = SummarizationStrategy::new(summaries.clone(), 2, 500);
        let replies = (0..100).map(|_| Reply::text("an answer"));
        let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy)
            .messages(vec![Message::user("x".repeat(4_000)).pinned()])
            .build();
        for _ in 0..100 {
            run(way, &mut agent, &ToolContext::default()).await.unwrap();
        }
        assert_eq!(warnings.count("budget"), 1, "{way:?}: {:#?}", warnings.lines());
        assert!((1..15).contains(&summaries.calls()), "{way:?}: {}", summaries.calls());
        check_valid(agent.messages());
    }
}

/// A run compacts without reaching the token budget, because one message is too long. The next run compacts
/// immediately, without the usual delay after such a compaction.
#[tokio::test]
async fn next_run_tries_to_compact_immediately() {
    let replies = ["1", "2", "3"];
    let provider = ScriptedProvider::new(replies);
    let mut agent = Chat::builder(provider.clone(), SlidingWindowStrategy::new(1, 500))
        .messages(vec![Message::user("before"), Message::assistant("that")])
        .build();
    let ctx = ToolContext::default();
    agent.run_text(&"x".repeat(4_000), &ctx).await.unwrap();
    assert_eq!(agent.messages().len(), 2, "compacted in vain");
    agent.run_text("and?", &ctx).await.unwrap();
    assert_eq!(agent.messages().len(), 2, "compacted inside the budget");
}

#[tokio::test]
async fn changing_tools_change_the_known_size() {
    #[derive(Clone)]
    struct Large;
    impl ToolDyn for Large {
        fn name(&self) -> &str {
            "large"
        }
        fn definition(&self) -> ToolDefinition {
            ToolDefinition {
                name: "large".into(),
                title: None,
                description: "x".repeat(40_000),
                input_schema: json!({}),
                output_schema: None,
                annotations: None,
                cache_control: None,
            }
        }
        fn call_dyn<'a>(
            &'a self,
            _: serde_json::Value,
            _: &'a ToolContext,
        ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
            Box::pin(async { Ok(ToolOutput::text("never called")) })
        }
    }
    #[derive(Clone)]
    struct Counting(Log);
    impl ContextStrategy for Counting {
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
        fn estimate_request(&self, request: RequestRef<'_>) -> usize {
            request.messages.len() + TokenCounter::new().estimate_tools(request.tools)
        }
        fn counts_tokens(&self) -> bool {
            true
        }
    }
    let log = Log::default();
    let replies = [500, 20_500, 500].map(|tokens| Reply::text("done").usage(usage(tokens, 0)));
    let mut agent = Chat::builder(ScriptedProvider::new(replies), Counting(log.clone())).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap();
    agent.tools_mut().register_dyn(Arc::new(Large));
    agent.run_text("on", &ctx).await.unwrap();
    agent.tools_mut().remove("large");
    agent.run_text("and on", &ctx).await.unwrap();
    let large = TokenCounter::new().estimate_tools(&[Large.definition()]);
    let sizes = [1, 500 + large + 1, 20_500 - large + 1];
    assert_eq!(log.lines(), sizes.map(|size| size.to_string()));
}

#[tokio::test]
async fn size_is_not_corrected_for_a_strategy_with_another_unit() {
    /// A context strategy that counts messages instead of tokens.
    struct Messages(Log);
    impl ContextStrategy for Messages {
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
    }
    let log = Log::default();
    let replies = [calls([json!({})]).usage(usage(5_000, 70)), Reply::text("done")];
    let mut agent = Chat::builder(ScriptedProvider::new(replies), Messages(log.clone()))
        .tools(registry(&Log::default()))
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(log.lines(), ["1", "3"]);
}
