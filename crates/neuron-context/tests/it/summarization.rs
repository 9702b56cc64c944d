//! Tests of `SummarizationStrategy`. They check the summarised messages, the request to the model, and failures.

use neuron_context::SummarizationStrategy;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContentBlock, ContextError, ContextStrategy, ImageSource, Message, ProviderError, Role,
    StopReason, TokenUsage,
};
use serde_json::json;

use crate::support::*;

async fn check(letters: &str, recent: usize, expected: &str) {
    let provider = ScriptedProvider::new([Reply::text("new")]);
    let strategy = SummarizationStrategy::new(provider.clone(), recent, 0);
    let once = strategy.compact(long_history(letters)).await.unwrap();
    assert_eq!(short(&once), expected, "{letters}");
    // The script of the provider is exhausted, so this compaction cannot have called the model.
    assert_eq!(strategy.compact(once.clone()).await.unwrap(), once, "{letters}");
}

#[tokio::test]
async fn old_messages_become_one_summary() {
    check("uauauaua", 2, "u0 =new u6 a7").await;
    check("uauauaua", 3, "u0 =new a5 u6 a7").await;
    check("suauauaua", 4, "s0 u1 =new u5 a6 u7 a8").await;
    check("uasuaua", 2, "u0 =new s2 u5 a6").await;
}

#[tokio::test]
async fn calls_and_results_are_kept_together() {
    check("ucrcrcr", 1, "u0 =new cxcy r6r6").await;
    check("ucrcrcr", 3, "u0 =new cxcy r4r4 cxcy r6r6").await;
    check("ucrcrcr", 0, "u0 =new cxcy r6r6").await;
    check("ucrcrc", 0, "u0 =new cxcy").await;
}

#[tokio::test]
async fn goals_and_pinned_messages_are_kept() {
    check("uaUauauaua", 2, "u0 =new u2 u8 a9").await;
    check("uaucrcrcr", 2, "u0 =new u2 cxcy r8r8").await;
    check("uaucrucrcr", 2, "u0 a1 u2 cxcy r4r4 u5 =new cxcy r9r9").await;
    check("uaCrauaua", 2, "u0 =new cxcy r3r3 a6 u7 a8").await;
    check("ucrcrucrcr", 2, "u0 =new cxcy r4r4 u5 cxcy r9r9").await;
}

#[tokio::test]
async fn model_is_not_called_without_new_messages() {
    let provider = ScriptedProvider::new(Vec::<Reply>::new());
    let strategy = SummarizationStrategy::new(provider.clone(), 2, 0);
    for letters in ["", "s", "u", "ua", "ucr", "uzua", "uzcr", "uzac"] {
        let before = long_history(letters);
        let (after, usage) = strategy.compact_with_usage(before.clone()).await.unwrap();
        assert_eq!((after, usage), (before, TokenUsage::default()), "{letters}");
    }
    assert_eq!(provider.calls(), 0);
}

#[tokio::test]
async fn earlier_summary_is_summarised_too() {
    let provider = ScriptedProvider::new([Reply::text("new")]);
    let strategy = SummarizationStrategy::new(provider.clone(), 2, 0);
    let after = strategy.compact(history("uzauaua")).await.unwrap();
    assert_eq!(short(&after), "u0 =new u5 a6");
    let asked = provider.requests()[0].messages[0].text();
    assert!(
        asked.contains("user: [Summary of earlier conversation]\nz1\n\nassistant: a2"),
        "{asked}"
    );
}

#[tokio::test]
async fn model_receives_old_messages_as_text() {
    let usage = TokenUsage { input_tokens: 7, output_tokens: 3, ..Default::default() };
    let reply = Reply::text("  [Summary of earlier conversation]\n what was done \n");
    let provider = ScriptedProvider::new([reply.usage(usage.clone())]);
    let strategy = SummarizationStrategy::new(provider.clone(), 1, 0);
    let source = ImageSource::Url { url: "https://a.b/c".into() };
    let mut messages = history("uu");
    messages[1].content.push(ContentBlock::Image { source });
    messages.push(Message {
        role: Role::Assistant,
        content: vec![
            ContentBlock::Thinking { thinking: "hidden".into(), signature: "s".into() },
            ContentBlock::RedactedThinking { data: "hidden".into() },
            ContentBlock::Compaction { content: "the vendor's own".into() },
            ContentBlock::Text("let me look".into()),
            call("x", 1),
        ],
    });
    messages.push(Message { role: Role::User, content: vec![result("x", "found it")] });
    messages.extend(history("aua"));
    let (after, used) = strategy.compact_with_usage(messages).await.unwrap();
    assert_eq!(used, usage);
    assert_eq!(after[1], Message::user("[Summary of earlier conversation]\nwhat was done"));
    let request = &provider.requests()[0];
    assert_eq!(
        request.messages,
        [Message::user(
            "<conversation>\n\
             user: u1\n\n\
             user: [image]\n\n\
             summary: the vendor's own\n\n\
             assistant: let me look\n\n\
             assistant: [tool call x: look {\"index\":1}]\n\n\
             user: [tool result x: found it]\n\n\
             assistant: a0\n\n\
             </conversation>\n\n\
             Summarize the conversation above."
        )]
    );
    assert!(request.tools.is_empty());
    let system = serde_json::to_value(&request.system).unwrap();
    let prompt = system["text"].as_str().unwrap();
    for part in ["concisely", "key information, decisions made, and tool call results"] {
        assert!(prompt.contains(part), "{prompt}");
    }
}

#[tokio::test]
async fn custom_instructions_are_sent() {
    let provider = ScriptedProvider::new([Reply::text("new")]);
    let strategy =
        SummarizationStrategy::new(provider.clone(), 2, 0).with_instructions("Be brief.");
    strategy.compact(long_history("uauaua")).await.unwrap();
    assert_eq!(provider.requests()[0].system, Some("Be brief.".into()));
}

#[tokio::test]
async fn failed_summarization_reports_the_reason() {
    let stopped = |reason| Reply::text("half a summary").stop_reason(reason);
    let refused = "compaction failed: the model refused instead of a whole summary";
    let limit = "compaction failed: the model reached its limit instead of a whole summary";
    let tool = "compaction failed: the model called a tool instead of a whole summary";
    let nothing = "compaction failed: the model wrote nothing instead of a whole summary";
    let provider = "provider error during summarization: rate limited";
    for (reply, text) in [
        (stopped(StopReason::Refusal), refused),
        (stopped(StopReason::ContentFilter), refused),
        (stopped(StopReason::MaxTokens), limit),
        (stopped(StopReason::ContextWindowExceeded), limit),
        (Reply::text(" \n"), nothing),
        (Reply::text("[Summary of earlier conversation]\n"), nothing),
        (Reply::tool_calls([("1", "look", json!({}))]), tool),
        (Reply::message(vec![ContentBlock::Text("Let me look.".into()), call("1", 0)]), tool),
        (Reply::error(ProviderError::RateLimit { retry_after: None }), provider),
    ] {
        let strategy = SummarizationStrategy::new(ScriptedProvider::new([reply]), 2, 0);
        let error = strategy.compact(long_history("uauaua")).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(matches!(error, ContextError::Provider(_)), text == provider);
    }
}

#[tokio::test]
async fn low_water_mark_keeps_fewer_messages() {
    let letters = "uauauaua";
    for (mark, expected) in
        [(200, "u0 =new u4 a5 u6 a7"), (70, "u0 =new u6 a7"), (0, "u0 =new u6 a7")]
    {
        let provider = ScriptedProvider::new([Reply::text("new")]);
        let strategy = SummarizationStrategy::new(provider, 4, 0).with_low_water_mark(mark);
        let after = strategy.compact(long_history(letters)).await.unwrap();
        assert_eq!(short(&after), expected, "{mark}");
    }
    // The request's actual size is five times the estimate.
    let provider = ScriptedProvider::new([Reply::text("new")]);
    let strategy = SummarizationStrategy::new(provider, 4, 0).with_low_water_mark(350);
    let messages = long_history(letters);
    let tokens = 5 * strategy.token_estimate(&messages);
    let after = strategy.compact_request(request(messages).view(), tokens).await.unwrap().0;
    assert_eq!(short(&after), "u0 =new u6 a7");
}

/// Regression test. Before the fix, the model was called to summarise twelve characters, and the summary was longer.
#[tokio::test]
async fn nothing_is_summarised_that_would_not_become_shorter() {
    let provider = ScriptedProvider::new([Reply::text("a long summary ".repeat(100))]);
    let strategy = SummarizationStrategy::new(provider.clone(), 2, 0);
    let tiny = vec![
        Message::user("the goal"),
        Message::assistant("a"),
        Message::user("b"),
        Message::assistant("c"),
    ];
    assert_eq!(strategy.compact(tiny.clone()).await.unwrap(), tiny);
    assert_eq!(provider.calls(), 0);
    // A summary that is longer than what it replaces is discarded. Its tokens count.
    let long = long_history("uauaua");
    let (after, used) = strategy.compact_with_usage(long.clone()).await.unwrap();
    assert_eq!((after, provider.calls()), (long, 1));
    assert!(used.output_tokens > 0 || used == TokenUsage::default());
}
