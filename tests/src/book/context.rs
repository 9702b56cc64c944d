//! Tests the chapter of neuron's book on context management. Covers the trait `ContextStrategy`, its implementations,
//! the token counter, reminders, system prompts, and server-side compaction.

use std::future::Future;

use neuron_context::strategies::BoxedStrategy;
use neuron_context::{
    CompositeStrategy, ContextSection, InjectionTrigger, PersistentContext, SlidingWindowStrategy,
    SummarizationStrategy, SystemInjector, TokenCounter, ToolResultClearingStrategy,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, ContentBlock, ContentItem, ContextEdit, ContextError, ContextManagement,
    ContextStrategy, DocumentSource, ImageSource, Message, Role, ToolDefinition,
};
use serde_json::json;

/// Contains the code of the section "Quick example" of neuron's book.
async fn quick_example() -> Result<(), ContextError> {
    let strategy = SlidingWindowStrategy::new(
        10,      // keep the last 10 non-system messages
        100_000, // compact when tokens exceed 100k
    );

    let messages = vec![
        Message::system("You are a helpful assistant."),
        Message::user("Hello"),
        Message::assistant("Hi there!"),
        // ... many more messages ...
    ];

    let token_count = strategy.token_estimate(&messages);
    if strategy.should_compact(&messages, token_count) {
        let compacted = strategy.compact(messages).await?;
        // compacted retains system messages + the last 10 non-system messages
        assert!(compacted.len() <= 11);
    }
    Ok(())
}

#[tokio::test]
async fn window_compacts_if_the_tokens_exceed_its_limit() {
    quick_example().await.unwrap();
    let strategy = SlidingWindowStrategy::new(10, 100_000);
    assert!(!strategy.should_compact(&[], 100_000));
    assert!(strategy.should_compact(&[], 100_001));
}

#[tokio::test]
async fn window_keeps_system_messages_and_the_last_others() {
    let talk = (0..20).map(|i| match i % 2 {
        0 => Message::user(format!("question {i}")),
        _ => Message::assistant(format!("answer {i}")),
    });
    let messages: Vec<Message> = std::iter::once(Message::system("system")).chain(talk).collect();
    let expected: Vec<Message> = messages[..1].iter().chain(&messages[11..]).cloned().collect();
    let compacted = SlidingWindowStrategy::new(10, 100_000).compact(messages).await;
    assert_eq!(compacted.unwrap(), expected);
}

/// The code of the section "The ContextStrategy trait" of neuron's book. The method `compact` has the printed return
/// type.
struct KeepLast;

impl ContextStrategy for KeepLast {
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool {
        token_count > messages.len()
    }

    fn compact(
        &self,
        messages: Vec<Message>,
    ) -> impl Future<Output = Result<Vec<Message>, ContextError>> + Send {
        async move { Ok(messages.into_iter().rev().take(1).collect()) }
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

fn call(id: &str) -> Message {
    let (id, input) = (id.into(), json!({ "path": "a.txt" }));
    let content = vec![ContentBlock::ToolUse { id, name: "read".into(), input }];
    Message { role: Role::Assistant, content }
}

fn result(id: &str, text: &str) -> Message {
    let content = vec![ContentItem::Text(text.into())];
    let content =
        vec![ContentBlock::ToolResult { tool_use_id: id.into(), content, is_error: false }];
    Message { role: Role::User, content }
}

/// Returns a conversation with a question, three tool calls with long results, and a final text.
fn work() -> Vec<Message> {
    let long = "x".repeat(4_000);
    let mut messages = vec![Message::user("Compare the files.")];
    for id in ["1", "2", "3"] {
        messages.extend([call(id), result(id, &long)]);
    }
    messages.push(Message::assistant("They are equal."));
    messages
}

/// Tests the section "ToolResultClearingStrategy" of neuron's book.
#[tokio::test]
async fn cleared_results_keep_their_ids() {
    // Keep the 2 most recent tool results intact, clear older ones
    let strategy = ToolResultClearingStrategy::new(2, 100_000);
    assert!(!strategy.should_compact(&[], 100_000));
    assert!(strategy.should_compact(&[], 100_001));
    let mut expected = work();
    expected[2] = result("1", "[tool result cleared]");
    assert_eq!(strategy.compact(work()).await.unwrap(), expected);
}

/// Tests the section "SummarizationStrategy" of neuron's book.
#[tokio::test]
async fn old_messages_are_replaced_by_a_summary() {
    let provider = ScriptedProvider::new([Reply::text("Two files were read.")]);
    let asked = provider.clone();
    // Summarize old messages, keep the 5 most recent verbatim
    let strategy = SummarizationStrategy::new(provider, 5, 100_000);
    assert!(!strategy.should_compact(&[], 100_000));
    assert!(strategy.should_compact(&[], 100_001));
    let compacted = strategy.compact(work()).await.unwrap();
    let summary = Message::user("[Summary of earlier conversation]\nTwo files were read.");
    assert_eq!(compacted[0], Message::user("Compare the files."));
    assert_eq!(compacted[1], summary);
    assert_eq!(compacted[2..], work()[3..]);
    assert_eq!(asked.calls(), 1, "an additional call of the model");
    let prompt = serde_json::to_string(&asked.requests()[0].system).unwrap();
    for part in ["concisely", "key information", "decisions made", "tool call results"] {
        assert!(prompt.contains(part), "{prompt}");
    }
}

/// Tests the section "CompositeStrategy" of neuron's book.
#[tokio::test]
async fn composite_strategy_stops_when_the_budget_is_met() {
    let strategy = CompositeStrategy::new(
        vec![
            // First: clear old tool results (cheap, often sufficient)
            BoxedStrategy::new(ToolResultClearingStrategy::new(2, 100_000)),
            // Second: drop old messages if still over budget
            BoxedStrategy::new(SlidingWindowStrategy::new(10, 100_000)),
        ],
        100_000,
    );
    assert!(strategy.should_compact(&[], 100_001));

    let chain = |max_tokens| {
        CompositeStrategy::new(
            vec![
                BoxedStrategy::new(ToolResultClearingStrategy::new(2, max_tokens)),
                BoxedStrategy::new(SlidingWindowStrategy::new(4, max_tokens)),
                BoxedStrategy::new(KeepLast),
            ],
            max_tokens,
        )
    };
    let cleared = ToolResultClearingStrategy::new(2, 0).compact(work()).await.unwrap();
    assert_eq!(chain(2_500).compact(work()).await.unwrap(), cleared, "the first was enough");
    let windowed = chain(1_500).compact(work()).await.unwrap();
    assert_eq!(windowed.len(), 4, "then the second: {windowed:?}");
}

/// Tests the section "SystemInjector" of neuron's book.
#[test]
fn injector_triggers_by_turns_and_tokens() {
    let mut injector = SystemInjector::new();

    // Remind the model to be concise every 5 turns
    injector.add_rule(InjectionTrigger::EveryNTurns(5), "Reminder: keep responses concise.".into());

    // Warn when context is getting large
    injector.add_rule(
        InjectionTrigger::OnTokenThreshold(50_000),
        "Context is getting long. Summarize when possible.".into(),
    );

    // Check each turn -- returns a Vec of triggered content strings
    let check = |turn_number: usize, token_count: usize| {
        let injections: Vec<String> = injector.check(turn_number, token_count);
        injections
    };
    let (concise, long) =
        ("Reminder: keep responses concise.", "Context is getting long. Summarize when possible.");
    assert_eq!(check(5, 60_000), [concise, long]);
    assert_eq!(check(10, 100), [concise]);
    assert_eq!(check(7, 60_000), [long]);
    assert!(check(7, 100).is_empty());
}

/// Tests the section "PersistentContext" of neuron's book.
#[test]
fn sections_are_rendered_as_printed() {
    let mut ctx = PersistentContext::new();
    ctx.add_section(ContextSection {
        label: "Role".into(),
        content: "You are a senior Rust engineer.".into(),
        priority: 0, // lower = rendered first
    });
    ctx.add_section(ContextSection {
        label: "Output rules".into(),
        content: "Always include code examples.".into(),
        priority: 10,
    });

    let system_prompt = ctx.render();
    assert_eq!(
        system_prompt,
        "## Role\nYou are a senior Rust engineer.\n\n## Output rules\nAlways include code examples."
    );
}

#[test]
fn window_accepts_a_custom_counter() {
    // Keep last 20 non-system messages, trigger at 100k tokens
    let strategy = SlidingWindowStrategy::new(20, 100_000);
    let default = strategy.token_estimate(&[Message::user("x".repeat(35))]);

    // With a custom token counter (e.g. different chars-per-token ratio)
    let counter = TokenCounter::with_ratio(3.5);
    let strategy = SlidingWindowStrategy::with_counter(20, 100_000, counter);
    let custom = strategy.token_estimate(&[Message::user("x".repeat(35))]);
    assert_eq!((default, custom), (4 + 9, 4 + 10));
}

#[tokio::test]
async fn printed_compaction_has_the_printed_result() {
    let before = vec![
        Message::system("You are a helpful assistant."),
        Message::user("What is Rust?"),
        Message::assistant("Rust is a systems programming language..."),
        Message::user("How about memory safety?"),
        Message::assistant("Rust uses ownership and borrowing..."),
        Message::user("What about async?"),
        Message::assistant("Rust supports async/await via futures..."),
    ];
    let strategy = SlidingWindowStrategy::new(2, 500);
    assert!(strategy.should_compact(&before, 800), "~800 tokens");
    assert_eq!(
        strategy.compact(before).await.unwrap(),
        [
            Message::system("You are a helpful assistant."),
            Message::user("What about async?"),
            Message::assistant("Rust supports async/await via futures..."),
        ]
    );
}

/// Tests the section "TokenCounter" of neuron's book.
#[test]
fn counter_estimates_texts_messages_and_tools() {
    let (messages, tool_definitions) =
        (vec![Message::user("12345678")], Vec::<ToolDefinition>::new());

    let counter = TokenCounter::new(); // 4.0 chars/token (default)
    // Estimate tokens for plain text
    let tokens = counter.estimate_text("Hello, world!");
    assert_eq!(tokens, 4, "13 characters, rounded up");
    // Estimate tokens for a message list
    let tokens = counter.estimate_messages(&messages);
    assert_eq!(tokens, 2 + 4, "and 4 for the role");
    // Estimate tokens for tool definitions
    let tokens = counter.estimate_tools(&tool_definitions);
    assert_eq!(tokens, 0);

    let counter = TokenCounter::with_ratio(3.5); // Custom ratio
    assert_eq!(counter.estimate_text("1234567"), 2);
}

#[test]
fn content_is_estimated_as_the_table_says() {
    #[track_caller]
    fn check(block: ContentBlock, tokens: usize) {
        let message = Message { role: Role::Assistant, content: vec![block] };
        let estimate = TokenCounter::new().estimate_messages(&[message]);
        assert_eq!(estimate, tokens + 4, "4 for the role markers");
    }
    let text = || "x".repeat(40);
    check(ContentBlock::Text(text()), 10);
    let (thinking, signature) = (text(), text());
    check(ContentBlock::Thinking { thinking, signature }, 10);
    let (id, name, input) = (text(), "n".repeat(4), json!({ "a": "bcd" }));
    check(ContentBlock::ToolUse { id, name, input }, 1 + 3);
    check(
        ContentBlock::ToolResult {
            tool_use_id: text(),
            content: vec![ContentItem::Text(text()), ContentItem::Text(text())],
            is_error: false,
        },
        20,
    );
    let source = ImageSource::Url { url: text() };
    check(ContentBlock::Image { source }, 300);
    let source = DocumentSource::PlainText { data: text() };
    check(ContentBlock::Document { source }, 500);
    check(ContentBlock::Compaction { content: text() }, 10);
}

/// Tests the section "Server-side context management" of neuron's book.
#[test]
fn request_enables_server_side_compaction() {
    let request = CompletionRequest {
        context_management: Some(ContextManagement {
            edits: vec![ContextEdit::Compact { strategy: "compact_20260112".into() }],
        }),
        ..Default::default()
    };
    assert_eq!(
        serde_json::to_value(request.context_management).unwrap(),
        json!({ "edits": [{ "type": "compact", "strategy": "compact_20260112" }] })
    );
}
