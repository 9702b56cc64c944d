//! Tests of `CompositeStrategy`. They check its budget, failed strategies, and strategies without an effect.

use neuron_context::strategies::BoxedStrategy;
use neuron_context::{CompositeStrategy, SlidingWindowStrategy, SummarizationStrategy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContextError, ContextStrategy, DurableError, Message, ProviderError, TokenUsage,
};

use crate::support::*;

type How = fn(Vec<Message>) -> Result<Vec<Message>, ContextError>;

fn without_first_answer(mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    if messages.len() > 2 {
        messages.remove(1);
    }
    Ok(messages)
}

fn longer(mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    messages.push(Message::user("more"));
    Ok(messages)
}

fn rewritten(mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    messages[0] = Message::user("x0");
    Ok(messages)
}

fn failing(_: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    Err(ContextError::CompactionFailed("no".into()))
}

fn engine(_: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    Err(ContextError::Provider(ProviderError::Other(Box::new(DurableError::Cancelled))))
}

fn composite(hows: &[How], max_tokens: usize) -> CompositeStrategy {
    let boxed = |(index, how): (usize, &How)| {
        BoxedStrategy::new(Scripted { how: *how, tokens: 10_usize.pow(index as u32) })
    };
    CompositeStrategy::new(hows.iter().enumerate().map(boxed).collect(), max_tokens)
}

/// Compacts a history of six messages with five tokens each. The remaining history must equal `expected`, in the
/// notation of [`short`]. The compaction must report `tokens` output tokens.
async fn check(strategy: CompositeStrategy, expected: &str, tokens: usize) {
    let (after, usage) = strategy.compact_with_usage(history("uauaua")).await.unwrap();
    assert_eq!((short(&after).as_str(), usage.output_tokens), (expected, tokens));
}

#[tokio::test]
async fn strategies_are_applied_until_the_budget_is_met() {
    let hows: [How; 3] = [without_first_answer; 3];
    check(composite(&hows, 30), "u0 a1 u2 a3 u4 a5", 0).await;
    check(composite(&hows, 29), "u0 u2 a3 u4 a5", 1).await;
    check(composite(&hows, 25), "u0 u2 a3 u4 a5", 1).await;
    check(composite(&hows, 24), "u0 a3 u4 a5", 11).await;
    check(composite(&hows, 15), "u0 u4 a5", 111).await;
    check(composite(&hows, 25).with_low_water_mark(20), "u0 a3 u4 a5", 11).await;
    check(composite(&hows, 25).with_low_water_mark(usize::MAX), "u0 u2 a3 u4 a5", 1).await;
    check(composite(&[], 0), "u0 a1 u2 a3 u4 a5", 0).await;
}

/// Checks that one compaction repeats its strategies until none of them shortens the conversation further. A second
/// compaction must change nothing.
#[tokio::test]
async fn strategies_repeat_until_none_has_an_effect() {
    let hows: [How; 2] = [without_first_answer; 2];
    check(composite(&hows, 10), "u0 a5", 11 + 11).await;
    check(composite(&hows, 0), "u0 a5", 11 + 11 + 1).await;
    let strategy = CompositeStrategy::new(
        vec![
            BoxedStrategy::new(SlidingWindowStrategy::new(2, 0)),
            BoxedStrategy::new(SummarizationStrategy::new(
                ScriptedProvider::new((0..9).map(|_| Reply::text("s"))),
                0,
                0,
            )),
        ],
        0,
    );
    let once = strategy.compact(history("uuCrauu")).await.unwrap();
    assert_eq!(strategy.compact(once.clone()).await.unwrap(), once);
}

#[tokio::test]
async fn known_size_of_the_request_is_used() {
    let hows: [How; 3] = [without_first_answer; 3];
    let strategy = composite(&hows, 60);
    let request = request(history("uauaua"));
    let (after, _) = strategy.compact_request(request.view(), 90).await.unwrap();
    assert_eq!(short(&after), "u0 a3 u4 a5", "each message takes fifteen tokens");
}

#[tokio::test]
async fn strategy_that_lengthens_is_skipped() {
    check(composite(&[longer, without_first_answer, longer], 0), "u0 u2 a3 u4 a5", 111 + 1).await;
}

#[tokio::test]
async fn strategy_that_only_rewrites_is_skipped() {
    check(composite(&[rewritten], 0), "u0 a1 u2 a3 u4 a5", 1).await;
    check(composite(&[rewritten, without_first_answer], 25), "u0 u2 a3 u4 a5", 1 + 10).await;
}

#[tokio::test]
async fn failed_strategy_is_skipped_if_another_has_an_effect() {
    check(composite(&[failing, without_first_answer], 0), "u0 u2 a3 u4 a5", 10).await;
    check(composite(&[without_first_answer, failing], 0), "u0 u2 a3 u4 a5", 1).await;
    for hows in [&[failing as How][..], &[failing, longer]] {
        let error = composite(hows, 0).compact(history("ua")).await.unwrap_err();
        assert_eq!(error.to_string(), "compaction failed: no");
    }
}

fn down(_: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    Err(ContextError::Provider(ProviderError::ServiceUnavailable("529".into())))
}

fn invalid(_: Vec<Message>) -> Result<Vec<Message>, ContextError> {
    let usage = Box::new(TokenUsage { output_tokens: 1_000, ..TokenUsage::default() });
    Err(ContextError::InvalidSummary { reason: "empty".into(), usage })
}

/// Regression test. Before the fix, only the error of an invalid summary had the tokens.
#[tokio::test]
async fn error_has_the_tokens_of_all_strategies() {
    // The strategy at index 1 reports 10 tokens.
    for (hows, text, tokens) in [
        (&[down as How, longer][..], "provider error", Some(10)),
        (&[down, invalid], "provider error", Some(1_000)),
        (&[invalid, longer, down], "compaction failed: empty", Some(1_010)),
        (&[down], "provider error", None),
    ] {
        let error = composite(hows, 0).compact(history("ua")).await.unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!(error.usage().map(|usage| usage.output_tokens), tokens, "{error}");
    }
}

#[tokio::test]
async fn error_of_the_durable_engine_is_returned() {
    let strategy = composite(&[engine, without_first_answer], 0);
    let error = strategy.compact(history("uaua")).await.unwrap_err();
    assert!(matches!(error, ContextError::Provider(ProviderError::Other(_))), "{error}");
}

#[tokio::test]
async fn failed_summarization_falls_back_to_the_window() {
    let down = Reply::error(ProviderError::ServiceUnavailable("529".into()));
    let strategy = CompositeStrategy::new(
        vec![
            BoxedStrategy::new(SummarizationStrategy::new(ScriptedProvider::new([down]), 2, 0)),
            BoxedStrategy::new(SlidingWindowStrategy::new(2, 0)),
        ],
        25,
    );
    assert!(!strategy.should_compact(&[], 25) && strategy.should_compact(&[], 26));
    let after = strategy.compact(history("uauaua")).await.unwrap();
    assert_eq!(short(&after), "u4 a5");
}
