//! Time, effect and failures of a compaction by a context strategy.

use std::sync::{Arc, Mutex};

use neuron_context::{SlidingWindowStrategy, SummarizationStrategy};
use neuron_loop::LoopError;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContentBlock, ContextError, ContextStrategy, Message, ProviderError, Role, TokenUsage,
    ToolContext,
};
use serde_json::json;

use crate::support::*;

/// A context strategy that compacts with the function `how` when there are more than `at` messages.
struct Compact<F> {
    at: usize,
    how: F,
}

impl<F> ContextStrategy for Compact<F>
where
    F: Fn(Vec<Message>) -> Result<(Vec<Message>, TokenUsage), ContextError> + Send + Sync,
{
    fn should_compact(&self, messages: &[Message], _token_count: usize) -> bool {
        messages.len() > self.at
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok((self.how)(messages)?.0)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len() * 10
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        (self.how)(messages)
    }
}

fn script() -> (ScriptedProvider, Log) {
    let replies =
        [calls([json!({})]), calls([json!({})]), Reply::text("done"), Reply::text("more")];
    (ScriptedProvider::new(replies), Log::default())
}

/// Regression test. Before the fix, only the tokens of an invalid summary counted.
#[tokio::test]
async fn tokens_of_a_failed_compaction_count() {
    let (provider, log) = script();
    let usage = TokenUsage { input_tokens: 1_000_000, ..Default::default() };
    let how = move |_: Vec<Message>| {
        let error = ContextError::Provider(ProviderError::ServiceUnavailable("529".into()));
        Err(error.with_usage(usage.clone()))
    };
    let mut agent = Chat::builder(provider, Compact { at: 4, how }).tools(registry(&log)).build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Context(ContextError::Provider(_))), "{error}");
    assert!(error.is_retryable());
    assert!(ctx.usage.take().input_tokens >= 1_000_000);
}

#[tokio::test]
async fn ineffective_strategy_is_tried_twice_and_the_run_continues() {
    let tried = Arc::new(Mutex::new(0));
    let count = tried.clone();
    let how = move |messages| {
        *count.lock().unwrap() += 1;
        Ok((messages, TokenUsage::default()))
    };
    let (provider, log) = script();
    let hook = Recorder::default();
    let mut agent = Chat::builder(provider.clone(), Compact { at: 0, how })
        .tools(registry(&log))
        .messages(vec![Message::user("a long story"); 100])
        .hook(hook.clone())
        .build();
    let ctx = ToolContext::default();
    let result = agent.run_text("go", &ctx).await.unwrap();
    assert_eq!((result.response.as_str(), provider.calls()), ("done", 3));
    assert_eq!((hook.log.count("Compacted"), *tried.lock().unwrap()), (0, 2));
    agent.run_text("and", &ctx).await.unwrap();
    assert_eq!(*tried.lock().unwrap(), 3, "the next run tries again");
}

/// Regression test. A compaction that neither removes messages nor lowers the token estimate is no progress. Before the
/// fix, rewritten messages counted as progress, so a run could compact forever.
#[tokio::test]
async fn rewriting_is_no_progress_but_shortening_is() {
    /// A strategy that estimates the same number of tokens for every history. A compaction rewrites one message. If the
    /// flag is `true`, it also removes the other messages.
    struct Coarse(bool, Log);
    impl ContextStrategy for Coarse {
        fn should_compact(&self, messages: &[Message], _: usize) -> bool {
            messages.len() > 2
        }
        async fn compact(&self, mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            self.1.push("compacted");
            messages[0] = Message::user(format!("summary {}", self.1.lines().len()));
            if self.0 {
                messages.truncate(1);
            }
            Ok(messages)
        }
        fn token_estimate(&self, _: &[Message]) -> usize {
            100
        }
    }
    for (shortens, tried) in [(false, 2), (true, 5)] {
        for way in WAYS {
            let replies = (0..5).map(|_| calls([json!({})])).chain([Reply::text("done")]);
            let (log, hook) = (Log::default(), Recorder::default());
            let strategy = Coarse(shortens, log.clone());
            let mut agent = Chat::builder(ScriptedProvider::new(replies), strategy)
                .tools(registry(&Log::default()))
                .hook(hook.clone())
                .build();
            run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(log.count("compacted"), tried, "{way:?}");
            let announced = if shortens { tried } else { 0 };
            assert_eq!(hook.log.count("Compacted 100 100"), announced, "{way:?}");
        }
    }
}

#[tokio::test]
async fn message_added_after_a_compaction_is_checked_before_sending() {
    let (provider, log) = script();
    let mut agent = Chat::builder(provider.clone(), SlidingWindowStrategy::new(3, 14))
        .tools(registry(&log))
        .build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    while let Some(turn) = steps.next().await {
        if matches!(turn, Ok(Step::Compacted { .. })) {
            let input = json!({});
            let lost = ContentBlock::ToolUse { id: "lost".into(), name: "act".into(), input };
            steps.inject_message(Message { role: Role::Assistant, content: vec![lost] });
        }
    }
    for request in provider.requests() {
        check_valid(&request.messages);
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_compaction_is_cancelled_or_dropped_safely() {
    struct Hang;
    impl ContextStrategy for Hang {
        fn should_compact(&self, _: &[Message], _: usize) -> bool {
            true
        }
        async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            std::future::pending().await
        }
        fn token_estimate(&self, _: &[Message]) -> usize {
            0
        }
    }
    let (provider, _) = script();
    let mut agent = Chat::builder(provider.clone(), Hang).build();
    let ctx = ToolContext::default();
    let second = std::time::Duration::from_secs(1);
    tokio::time::timeout(second, agent.run_text("go", &ctx)).await.unwrap_err();
    assert_eq!(agent.messages(), [Message::user("go")], "a dropped run keeps the history");
    let token = ctx.cancellation_token.clone();
    let (result, ()) = tokio::join!(agent.run_text("again", &ctx), async {
        tokio::time::sleep(second).await;
        token.cancel();
    });
    assert!(matches!(result, Err(LoopError::Cancelled)));
    assert_eq!((agent.messages().len(), provider.calls()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn hanging_summary_is_cancelled_and_retried_in_the_next_run() {
    for way in WAYS {
        let summarizer = ScriptedProvider::new([Reply::hang(), Reply::text("a summary")]);
        let strategy = SummarizationStrategy::new(summarizer.clone(), 1, 10);
        let history = vec![Message::user("question"), Message::assistant("x".repeat(400))];
        let provider = ScriptedProvider::new([Reply::text("done")]);
        let mut agent = Chat::builder(provider.clone(), strategy).messages(history.clone()).build();
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        let before = tokio::time::Instant::now();
        let (result, ()) = tokio::join!(run(way, &mut agent, &ctx), async {
            while summarizer.calls() == 0 {
                tokio::task::yield_now().await;
            }
            token.cancel();
        });
        assert_eq!(result.unwrap_err(), "cancelled", "{way:?}");
        assert_eq!(before.elapsed(), std::time::Duration::ZERO, "{way:?}");
        assert!(agent.messages().starts_with(&history) && provider.calls() == 0, "{way:?}");
        agent.run_text("go on", &ToolContext::default()).await.unwrap();
        let texts: Vec<_> = agent.messages().iter().map(Message::text).collect();
        assert!(
            texts.contains(&"[Summary of earlier conversation]\na summary".into()),
            "{texts:?}"
        );
    }
}

/// Regression test. If the model refuses to write a summary, the tokens of this request count. Before the fix they did
/// not count, and the model was asked again on every turn.
#[tokio::test]
async fn failed_summary_costs_tokens() {
    for way in WAYS {
        let took = TokenUsage { input_tokens: 700, output_tokens: 30, ..Default::default() };
        let refusal = Reply::text("no").usage(took.clone());
        let refusal = refusal.stop_reason(neuron_types::StopReason::Refusal);
        let strategy = SummarizationStrategy::new(ScriptedProvider::new([refusal]), 1, 10);
        let history = vec![Message::user("question"), Message::assistant("x".repeat(400))];
        let provider = ScriptedProvider::new([Reply::text("not asked")]);
        let budget = neuron_loop::Budget::new(neuron_types::UsageLimits::default());
        let builder = Chat::builder(provider, strategy).messages(history.clone());
        let mut agent = builder.budget(budget.clone()).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        let text = "compaction failed: the model refused instead of a whole summary";
        assert_eq!(error, format!("context error: {text}"));
        assert_eq!((agent.usage(), agent.total_usage()), (&took, &took));
        assert_eq!(budget.usage(), took);
        assert!(agent.messages().starts_with(&history));
    }
}

#[tokio::test]
async fn server_side_compaction_is_sent_back_to_the_server() {
    let block = ContentBlock::Compaction { content: "the story so far".into() };
    let setup = setup([
        Reply::message(vec![block.clone()]).stop_reason(neuron_types::StopReason::Compaction),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 2));
    let second = &setup.provider.requests()[1].messages;
    assert_eq!(second[1], Message { role: Role::Assistant, content: vec![block] });
}
