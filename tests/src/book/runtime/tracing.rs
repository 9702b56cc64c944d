//! Tests the code and the statements of the section "TracingHook" of neuron's book.

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{HookAction, HookEvent, ObservabilityHook, ToolContext};

#[tokio::test]
async fn tracing_hook_is_created_and_added_as_printed() {
    let context = SlidingWindowStrategy::new(20, 100_000);
    let provider = ScriptedProvider::new([Reply::text("hi")]);
    let mut agent = AgentLoop::builder(provider, context).build();

    use neuron_runtime::TracingHook;

    let hook = TracingHook::new();
    // Add to agent loop: agent.add_hook(hook);

    // It observes but never controls execution.
    let action = hook.on_event(HookEvent::SessionStart { session_id: "s" }).await;
    assert_eq!(action.unwrap(), HookAction::Continue);
    agent.add_hook(hook);
    assert_eq!(agent.run_text("hi", &ToolContext::default()).await.unwrap().response, "hi");
}

/// Checks that a subscriber receives the spans and events whose names are in the table of neuron's book.
#[tokio::test]
async fn traced_events_have_the_names_of_the_table() {
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<(String, String)>>>);

    impl ::tracing::Subscriber for Names {
        fn enabled(&self, _: &::tracing::Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &::tracing::span::Attributes<'_>) -> ::tracing::span::Id {
            let metadata = span.metadata();
            let mut names = self.0.lock().unwrap();
            names.push((metadata.level().to_string(), metadata.name().to_owned()));
            ::tracing::span::Id::from_u64(names.len() as u64)
        }

        fn record(&self, _: &::tracing::span::Id, _: &::tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &::tracing::span::Id, _: &::tracing::span::Id) {}

        fn event(&self, _: &::tracing::Event<'_>) {}

        fn enter(&self, _: &::tracing::span::Id) {}

        fn exit(&self, _: &::tracing::span::Id) {}
    }

    // tracing caches for each call site if a subscriber is interested. With a single subscriber, the thread that
    // reaches a call site first decides for all threads. Concurrent tests have no subscriber, so they would disable the
    // call sites for this test. With a second subscriber, tracing asks all subscribers.
    let _another = ::tracing::Dispatch::new(Names::default());
    let names = Names::default();
    let _guard = ::tracing::subscriber::set_default(names.clone());
    let hook = neuron_runtime::TracingHook::default();
    let (request, output) = (Default::default(), neuron_types::ToolOutput::text("ok"));
    let response = neuron_types::CompletionResponse {
        id: String::new(),
        model: String::new(),
        message: neuron_types::Message::assistant("hi"),
        usage: neuron_types::TokenUsage::default(),
        stop_reason: neuron_types::StopReason::EndTurn,
    };
    for event in [
        HookEvent::LoopIteration { turn: 0 },
        HookEvent::PreLlmCall { request: &request },
        HookEvent::PostLlmCall { response: &response },
        HookEvent::PreToolExecution { tool_name: "t", input: &serde_json::json!({}) },
        HookEvent::PostToolExecution { tool_name: "t", output: &output },
        HookEvent::ContextCompaction { old_tokens: 2, new_tokens: 1 },
        HookEvent::SessionStart { session_id: "s" },
        HookEvent::SessionEnd { session_id: "s" },
    ] {
        hook.on_event(event).await.unwrap();
    }
    let told = names.0.lock().unwrap().clone();
    let told: Vec<_> = told.iter().map(|(level, name)| (level.as_str(), name.as_str())).collect();
    assert_eq!(
        told,
        [
            ("DEBUG", "neuron.loop.iteration"),
            ("DEBUG", "neuron.llm.pre_call"),
            ("DEBUG", "neuron.llm.post_call"),
            ("DEBUG", "neuron.tool.pre_execution"),
            ("DEBUG", "neuron.tool.post_execution"),
            ("INFO", "neuron.context.compaction"),
            ("INFO", "neuron.session.start"),
            ("INFO", "neuron.session.end"),
        ]
    );
}
