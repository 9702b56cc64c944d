//! Tests of [`SemanticConventions::Book`](neuron_otel::SemanticConventions::Book), the names in neuron's book
//! (the published description of neuron's API).

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentBuilder;
use neuron_otel::SemanticConventions;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{Message, ProviderError, StopReason, TokenUsage, ToolContext};
use opentelemetry::trace::SpanKind;
use serde_json::json;

use crate::support::agents::{Chat, WAYS, hook, looks, run, scout_of};
use crate::support::memory::{Memory, attribute};

fn book(memory: &Memory, replies: impl IntoIterator<Item = Reply>) -> AgentBuilder {
    scout_of(ScriptedProvider::new(replies))
        .hook(hook(memory).with_conventions(SemanticConventions::Book))
}

#[tokio::test]
async fn turns_are_parents_of_model_and_tool_calls() {
    for way in WAYS {
        let memory = Memory::new();
        let replies = [
            looks([json!({"text": "a"}), json!({"text": "b", "do": "say no"})]),
            looks([json!({"text": "c"})]),
            Reply::text("done"),
        ];
        let mut agent = Chat::new(book(&memory, replies));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        assert_eq!(
            memory.tree(),
            "invoke_agent scout
  gen_ai.loop.iteration
    gen_ai.chat
    gen_ai.execute_tool
      work a
      more a
    gen_ai.execute_tool ! \n      work b
      more b
  gen_ai.loop.iteration
    gen_ai.chat
    gen_ai.execute_tool
      work c
      more c
  gen_ai.loop.iteration
    gen_ai.chat
",
            "{way:?}"
        );
        let turns: Vec<_> = memory
            .named("gen_ai.loop.iteration")
            .iter()
            .map(|turn| attribute(turn, "gen_ai.loop.turn").unwrap())
            .collect();
        assert_eq!(turns, ["0", "1", "2"]);
        // The spans of the turns must not overlap.
        let turns = memory.named("gen_ai.loop.iteration");
        assert!(turns.windows(2).all(|pair| pair[0].end_time <= pair[1].start_time));
    }
}

#[tokio::test]
async fn attributes_have_the_books_names() {
    let memory = Memory::new();
    let usage = TokenUsage {
        input_tokens: 10,
        output_tokens: 2,
        cache_read_tokens: Some(4),
        cache_creation_tokens: Some(3),
        ..TokenUsage::default()
    };
    let replies = [
        looks([json!({"text": "a"}), json!({"do": "say no"})]).usage(usage.clone()),
        Reply::text("done").usage(usage),
    ];
    let mut agent = Chat::new(book(&memory, replies));
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    agent.run("go", &ctx).await.unwrap();
    memory.check_closed();

    let run = memory.one("invoke_agent scout");
    let recorded = |name| attribute(&run, name);
    assert_eq!(run.span_kind, SpanKind::Internal);
    assert_eq!(recorded("gen_ai.system").as_deref(), Some("scripted"));
    assert_eq!(recorded("gen_ai.provider.name"), None);
    assert_eq!(recorded("gen_ai.agent.name").as_deref(), Some("scout"));
    assert_eq!(recorded("gen_ai.conversation.id").as_deref(), Some("s-1"));
    assert_eq!(recorded("gen_ai.response.stop_reason").as_deref(), Some("end_turn"));
    assert_eq!(recorded("gen_ai.response.finish_reasons"), None);
    assert_eq!(recorded("gen_ai.usage.input_tokens").as_deref(), Some("20"));

    let chats = memory.named("gen_ai.chat");
    let reasons = ["tool_use", "end_turn"];
    assert_eq!(chats.len(), 2);
    for (chat, reason) in chats.iter().zip(reasons) {
        let recorded = |name| attribute(chat, name);
        assert_eq!(chat.span_kind, SpanKind::Client);
        assert_eq!(recorded("gen_ai.operation.name").as_deref(), Some("chat"));
        assert_eq!(recorded("gen_ai.system").as_deref(), Some("scripted"));
        assert_eq!(recorded("gen_ai.provider.name"), None);
        assert_eq!(recorded("gen_ai.request.model").as_deref(), Some("scripted-model"));
        assert_eq!(recorded("gen_ai.response.model").as_deref(), Some("scripted-model"));
        assert_eq!(recorded("gen_ai.response.stop_reason").as_deref(), Some(reason));
        assert_eq!(recorded("gen_ai.response.finish_reasons"), None);
        assert_eq!(recorded("gen_ai.usage.input_tokens").as_deref(), Some("10"));
        assert_eq!(recorded("gen_ai.usage.output_tokens").as_deref(), Some("2"));
        assert_eq!(recorded("gen_ai.usage.cache_read.input_tokens").as_deref(), Some("4"));
        assert_eq!(recorded("gen_ai.usage.cache_creation.input_tokens").as_deref(), Some("3"));
    }

    let tools = memory.named("gen_ai.execute_tool");
    for (tool, is_error) in tools.iter().zip(["false", "true"]) {
        let recorded = |name| attribute(tool, name);
        assert_eq!(tool.span_kind, SpanKind::Internal);
        assert_eq!(recorded("gen_ai.operation.name").as_deref(), Some("execute_tool"));
        assert_eq!(recorded("gen_ai.tool.name").as_deref(), Some("look"));
        assert_eq!(recorded("gen_ai.conversation.id").as_deref(), Some("s-1"));
        assert_eq!(recorded("gen_ai.tool.is_error").as_deref(), Some(is_error));
        assert_eq!(recorded("error.type").is_some(), is_error == "true");
    }
}

#[tokio::test]
async fn every_stop_reason_has_neurons_name() {
    let reasons = [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::MaxTokens, "max_tokens"),
        (StopReason::StopSequence, "stop_sequence"),
        (StopReason::ContentFilter, "content_filter"),
        (StopReason::Refusal, "refusal"),
        (StopReason::Other("odd".into()), "odd"),
    ];
    for (reason, text) in reasons {
        assert_eq!(
            serde_json::to_value(&reason).unwrap_or_default().as_str().unwrap_or(text),
            text
        );
        let memory = Memory::new();
        let mut agent = Chat::new(book(&memory, [Reply::text("done").stop_reason(reason)]));
        drop(agent.run("go", &ToolContext::default()).await);
        let chat = memory.one("gen_ai.chat");
        assert_eq!(attribute(&chat, "gen_ai.response.stop_reason").as_deref(), Some(text));
    }
}

#[tokio::test]
async fn compaction_records_sizes_before_and_after() {
    let memory = Memory::new();
    let history: Vec<_> = (0..10)
        .flat_map(|_| [Message::user("a question"), Message::assistant("an answer")])
        .collect();
    let strategy = SlidingWindowStrategy::new(3, 20);
    let mut agent = Chat::new(book(&memory, ["done".into()]).context(strategy));
    agent.conversation = history.into();
    agent.run("go", &ToolContext::default()).await.unwrap();
    memory.check_closed();
    let compactions = memory.named("gen_ai.context.compaction");
    assert!(!compactions.is_empty());
    let number = |name| -> u64 { attribute(&compactions[0], name).unwrap().parse().unwrap() };
    assert!(number("gen_ai.context.new_tokens") < number("gen_ai.context.old_tokens"));
    assert_eq!(compactions[0].span_kind, SpanKind::Internal);
    let turn = memory.one("gen_ai.loop.iteration");
    assert_eq!(compactions[0].parent_span_id, turn.span_context.span_id());
}

#[tokio::test]
async fn metrics_equal_those_of_the_conventions() {
    let memory = Memory::new();
    let mut agent = Chat::new(book(&memory, [looks([json!({})]), Reply::text("done")]));
    agent.run("go", &ToolContext::default()).await.unwrap();
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert_eq!(durations.values().sum::<u64>(), 4);
    let chat = durations.keys().find(|name| name.contains("operation.name=chat")).unwrap();
    assert!(chat.contains("gen_ai.provider.name=scripted"), "{chat}");
}

#[tokio::test]
async fn turn_with_failed_call_ends_with_the_run() {
    let memory = Memory::new();
    let error = ProviderError::Authentication("no".into());
    let mut agent = Chat::new(book(&memory, [Reply::error(error)]));
    agent.run("go", &ToolContext::default()).await.unwrap_err();
    memory.check_closed();
    assert_eq!(
        memory.tree(),
        "invoke_agent scout ! \n  gen_ai.loop.iteration\n    gen_ai.chat ! \n"
    );
}
