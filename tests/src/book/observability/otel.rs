//! Tests the section "neuron-otel – OpenTelemetry instrumentation" of neuron's book. Checks each snippet, and the
//! listed names of spans and attributes.

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ContextStrategy, Provider, ToolContext, ToolError};
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use tracing_subscriber::prelude::*;

/// Adds two numbers
#[neuron_tool]
async fn add(a: i64, b: i64) -> Result<i64, ToolError> {
    a.checked_add(b).ok_or_else(|| ToolError::ModelRetry("too large".into()))
}

fn context() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(20, 100_000)
}

fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(AddTool);
    registry
}

/// Returns scripted responses with two tool calls and a final text. The second tool call fails.
fn script() -> [Reply; 3] {
    [
        Reply::tool_call("call_1", "add", json!({ "a": 1, "b": 2 })),
        Reply::tool_call("call_2", "add", json!({ "a": i64::MAX, "b": 1 })),
        Reply::text("3, and too much"),
    ]
}

/// Returns an OpenTelemetry pipeline that stores its spans in memory.
fn pipeline() -> (SdkTracerProvider, InMemorySpanExporter) {
    let exporter = InMemorySpanExporter::default();
    (SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build(), exporter)
}

/// Runs an agent with a tracing subscriber for this thread only, and returns the OpenTelemetry spans of the run.
async fn spans_of<P: Provider, C: ContextStrategy>(mut agent: AgentLoop<P, C>) -> Vec<SpanData> {
    let (traces, exporter) = pipeline();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("neuron"));
    // tracing caches for each call site if a subscriber is interested. With a single subscriber, the thread that
    // reaches a call site first decides for all threads.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing_subscriber::registry().with(layer).set_default();
    agent.run_text("What is 1 + 2?", &ToolContext::default()).await.unwrap();
    exporter.get_finished_spans().unwrap()
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string())
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_ref()).collect()
}

#[tokio::test]
async fn quick_example() {
    let (provider, context, registry) = (ScriptedProvider::new(script()), context(), registry());

    use neuron_loop::AgentLoop;
    use neuron_otel::OtelHook;

    let agent =
        AgentLoop::builder(provider, context).tools(registry).hook(OtelHook::default()).build();

    // By default the spans have the names of the current conventions, which have a span for the run and none for a
    // turn.
    let spans = spans_of(agent).await;
    let (chat, tool) = ("chat scripted-model", "execute_tool add");
    assert_eq!(names(&spans), [chat, tool, chat, tool, chat, "invoke_agent"]);
}

#[tokio::test]
async fn configuration() {
    let (provider, context) = (ScriptedProvider::new([Reply::text("hi")]), context());
    let (tracer_provider, exporter) = pipeline();

    use neuron_otel::OtelHook;
    use opentelemetry::trace::TracerProvider;
    use tracing_subscriber::prelude::*;

    // Install tracing-opentelemetry layer
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(tracer_provider.tracer("neuron")))
        .init();

    // Add the hook to your agent
    let mut agent = AgentLoop::builder(provider, context).hook(OtelHook::default()).build();

    // The subscriber is for the whole process, so it may also receive spans of other tests. The session id selects the
    // spans of this run.
    let ctx = ToolContext { session_id: "configured".into(), ..Default::default() };
    agent.run_text("hi", &ctx).await.unwrap();
    let mut spans = exporter.get_finished_spans().unwrap();
    let is_ours = |span: &SpanData| {
        attribute(span, "gen_ai.conversation.id").is_some_and(|id| id == "configured")
    };
    spans.retain(is_ours);
    assert_eq!(names(&spans), ["chat scripted-model", "invoke_agent"]);
    assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id());
}

/// Checks the table of spans and attributes in neuron's book. The hook uses the names of this table with
/// `SemanticConventions::Book`.
#[tokio::test]
async fn what_gets_traced() {
    // The limit is so low that the conversation is compacted.
    let (provider, context) = (ScriptedProvider::new(script()), SlidingWindowStrategy::new(2, 60));
    let hook = OtelHook::default().with_conventions(SemanticConventions::Book);
    let agent = AgentLoop::builder(provider, context).tools(registry()).hook(hook).build();
    let spans = spans_of(agent).await;

    // Returns the values of the attributes `keys` of all spans with this name, in order.
    let told = |name: &str, keys: &[&str]| -> Vec<Vec<String>> {
        let named = spans.iter().filter(|span| span.name == name);
        let told = |span| keys.iter().map(|key| attribute(span, key).unwrap()).collect();
        named.map(told).collect()
    };
    assert_eq!(told("gen_ai.loop.iteration", &["gen_ai.loop.turn"]), [["0"], ["1"], ["2"]]);
    assert_eq!(
        told(
            "gen_ai.chat",
            &["gen_ai.system", "gen_ai.request.model", "gen_ai.response.stop_reason"],
        ),
        [
            ["scripted", "scripted-model", "tool_use"],
            ["scripted", "scripted-model", "tool_use"],
            ["scripted", "scripted-model", "end_turn"],
        ]
    );
    let tokens = told("gen_ai.chat", &["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"]);
    assert!(tokens.iter().flatten().all(|count| count.parse::<u64>().unwrap() > 0), "{tokens:?}");
    assert_eq!(
        told("gen_ai.execute_tool", &["gen_ai.tool.name", "gen_ai.tool.is_error"]),
        [["add", "false"], ["add", "true"]]
    );
    let compactions = told(
        "gen_ai.context.compaction",
        &["gen_ai.context.old_tokens", "gen_ai.context.new_tokens"],
    );
    assert!(!compactions.is_empty());
    for tokens in compactions {
        let [old, new] = [0, 1].map(|at| tokens[at].parse::<u64>().unwrap());
        assert!(old > 60 && new <= old, "{old} {new}");
    }
    let failed = spans.iter().filter(|span| matches!(span.status, Status::Error { .. }));
    assert_eq!(failed.count(), 1);
}

#[tokio::test]
async fn using_with_tracing_hook() {
    let (provider, context) = (ScriptedProvider::new([Reply::text("hi")]), context());

    use neuron_otel::OtelHook;
    use neuron_runtime::TracingHook;

    let agent = AgentLoop::builder(provider, context)
        .hook(TracingHook::default()) // Local debug logging
        .hook(OtelHook::default()) // Production OTel export
        .build();

    // Both hooks create their spans.
    let spans = spans_of(agent).await;
    for name in ["invoke_agent", "chat scripted-model", "neuron.run", "neuron.llm.call"] {
        assert!(names(&spans).contains(&name), "{name}");
    }
}

/// Checks the book's statement "Or use the umbrella crate with the otel feature".
#[test]
fn installation() {
    let hook: OtelHook = neuron::otel::OtelHook::default();
    assert!(format!("{hook:?}").starts_with("OtelHook"));
}
