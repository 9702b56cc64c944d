//! Tests of `ToolResultClearingStrategy`. They check which results are cleared.

use neuron_context::ToolResultClearingStrategy;
use neuron_types::{
    CompletionRequest, ContentBlock, ContentItem, ContextStrategy, ImageSource, Message, Role,
};
use serde_json::json;

use crate::support::*;

#[track_caller]
fn check(letters: &str, keep: usize, expected: &str) {
    let strategy = ToolResultClearingStrategy::new(keep, 0);
    let once = futures(strategy.compact(long_history(letters)));
    assert_eq!(short(&once), expected);
    assert_eq!(futures(strategy.compact(once.clone())), once, "a second time changes nothing");
}

fn futures(
    compacting: impl Future<Output = Result<Vec<Message>, neuron_types::ContextError>>,
) -> Vec<Message> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(compacting).unwrap()
}

#[test]
fn newest_results_are_kept() {
    check("ucrcrcra", 2, "u0 cxcy -- cxcy -- cxcy r6r6 a7");
    check("ucrcrcra", 4, "u0 cxcy -- cxcy r4r4 cxcy r6r6 a7");
    check("ucrcrcra", 3, "u0 cxcy -- cxcy -r4 cxcy r6r6 a7");
    check("ucrcra", 0, "u0 cxcy -- cxcy -- a5");
    check("ucra", 9, "u0 cxcy r2r2 a3");
    check("", 0, "");
}

/// Checks that results that the model has not seen yet are never cleared, even if there are more than `keep` such
/// results.
#[test]
fn unseen_results_are_kept() {
    check("ucrcr", 0, "u0 cxcy -- cxcy r4r4");
    check("ucrcr", 1, "u0 cxcy -- cxcy r4r4");
    check("ucr", 0, "u0 cxcy r2r2");
}

#[test]
fn pinned_results_are_kept() {
    check("ucRcra", 0, "u0 cxcy r2r2 cxcy -- a5");
    check("ucRcrcra", 4, "u0 cxcy r2r2 cxcy r4r4 cxcy r6r6 a7");
}

#[test]
fn pending_calls_are_kept() {
    check("ucrac", 0, "u0 cxcy -- a3 cxcy");
}

#[tokio::test]
async fn cleared_result_keeps_id_and_error_flag() {
    let image = ContentItem::Image { source: ImageSource::Url { url: "https://a.b/c".into() } };
    let raw = |portable| ContentBlock::Raw {
        provider: "vendor".into(),
        json: json!({ "type": "special_result" }),
        portable,
    };
    let content = vec![
        ContentBlock::ToolResult {
            tool_use_id: "1".into(),
            content: vec![ContentItem::Text("text".into()), image],
            is_error: false,
        },
        ContentBlock::ToolResult {
            tool_use_id: "2".into(),
            content: vec![ContentItem::Text(REST.into())],
            is_error: true,
        },
        raw(Some(Box::new(result("y", REST)))),
        raw(None),
        ContentBlock::Text("and go on".into()),
    ];
    let ids = ["1", "2", "y"];
    let calls = Message { role: Role::Assistant, content: ids.map(|id| call(id, 0)).into() };
    let mut messages = history("u");
    messages.extend([calls, Message { role: Role::User, content }, Message::assistant("done")]);
    let strategy = ToolResultClearingStrategy::new(0, 0);
    let cleared = strategy.compact(messages.clone()).await.unwrap();
    let empty = |id: &str, is_error| ContentBlock::ToolResult {
        tool_use_id: id.into(),
        content: vec![ContentItem::Text("[tool result cleared]".into())],
        is_error,
    };
    let expected = [empty("1", false), empty("2", true), empty("y", true)];
    assert_eq!(cleared[2].content[..3], expected);
    assert_eq!(cleared[2].content[3..], messages[2].content[3..]);
    assert_eq!((&cleared[..2], &cleared[3..]), (&messages[..2], &messages[3..]));
}

#[tokio::test]
async fn clearing_waits_for_the_minimum_to_free() {
    let messages: Vec<_> = ["u", "c", "r", "a"]
        .into_iter()
        .flat_map(history)
        .map(|mut message| {
            for block in &mut message.content {
                if let ContentBlock::ToolResult { content, .. } = block {
                    // The result has 100 tokens. After clearing, 6 tokens remain.
                    *content = vec![ContentItem::Text("x".repeat(400))];
                }
            }
            message
        })
        .collect();
    let strategy = |at_least| ToolResultClearingStrategy::new(0, 50).with_at_least(at_least);
    let tokens = strategy(0).token_estimate(&messages);
    for (at_least, worth) in [(0, true), (188, true), (189, false)] {
        let strategy = strategy(at_least);
        assert_eq!(strategy.should_compact(&messages, tokens), worth, "{at_least}");
        let compacted = strategy.compact(messages.clone()).await.unwrap();
        assert_eq!(compacted != messages, worth, "{at_least}");
    }
    // The actual size is twice the estimate, so clearing frees twice as many tokens.
    let strategy = strategy(300);
    assert!(!strategy.should_compact(&messages, tokens));
    assert!(strategy.should_compact(&messages, tokens * 2));
    let request = request(messages.clone());
    assert_eq!(strategy.compact_request(request.view(), tokens).await.unwrap().0, messages);
    assert_ne!(strategy.compact_request(request.view(), tokens * 2).await.unwrap().0, messages);
}

#[test]
fn clearing_is_due_above_its_limit() {
    let strategy = ToolResultClearingStrategy::new(2, 100);
    assert!(!strategy.should_compact(&[], 100));
    assert!(strategy.should_compact(&[], 101));
}

/// Checks that tool results are kept until the model has responded, even if a user message or a reminder follows the
/// results.
#[test]
fn results_before_an_unanswered_message_are_kept() {
    check("ucrcru", 0, "u0 cxcy -- cxcy r4r4 u5");
    check("ucrcrsu", 1, "u0 cxcy -- cxcy r4r4 s5 u6");
}

/// Checks that a compaction is due only if clearing frees at least the set number of tokens. The tokens of the system
/// prompt must not count as freed.
#[tokio::test]
async fn compaction_is_due_only_if_it_frees_the_minimum() {
    let system = Some("x".repeat(40_000).into());
    let request = CompletionRequest { system, ..request(long_history("ucrcrcra")) };
    for at_least in [0, 1, 5, 50, 500] {
        let strategy = ToolResultClearingStrategy::new(0, 50).with_at_least(at_least);
        for times in [1, 2, 100] {
            let tokens = strategy.estimate_request(request.view()) * times;
            let is_due = strategy.should_compact_request(request.view(), tokens);
            let (after, _) = strategy.compact_request(request.view(), tokens).await.unwrap();
            assert_eq!(is_due, after != request.messages, "{at_least} {times}");
        }
    }
}

/// Regression test. Before the fix, a short result was replaced by a longer mark.
#[tokio::test]
async fn result_that_would_not_become_shorter_is_kept() {
    let strategy = ToolResultClearingStrategy::new(0, 0);
    let short = history("ucrcra");
    assert_eq!(strategy.compact(short.clone()).await.unwrap(), short);
    assert!(strategy.token_estimate(&short) > 0);
    // It frees nothing, so it is not worth a compaction.
    let strategy = ToolResultClearingStrategy::new(0, 0).with_at_least(1);
    assert!(!strategy.should_compact(&short, 1_000));
    let mixed = [history("ucr"), long_history("cra")].concat();
    let compacted = strategy.compact(mixed.clone()).await.unwrap();
    assert_eq!(compacted[..4], mixed[..4]);
    assert_eq!(self::short(&compacted[4..]), "-- a2");
}
