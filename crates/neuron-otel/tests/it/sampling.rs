//! Tests of unsampled traces, and of applications without `tracing` or without an OpenTelemetry layer.

use std::fmt;
use std::sync::{Arc, Mutex};

use neuron_otel::{OtelHook, current_trace_context, set_trace_parent};
use neuron_runtime::TracingHook;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    Provider, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, TraceContext,
    WasmBoxedFuture,
};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TraceState};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::support::agents::{Chat, MODES, hook, look, scout, scout_of};
use crate::support::memory::Memory;
use crate::support::tools::Act;

const RUN: &str = "invoke_agent scout";

/// A tool that stores the trace context that is current during its call.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<Option<TraceContext>>>>);

impl ToolDyn for Traced {
    fn name(&self) -> &str {
        "look"
    }

    fn definition(&self) -> ToolDefinition {
        Act::new("look").definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.0.lock().unwrap().push(current_trace_context());
            Ok(ToolOutput::text("ok"))
        })
    }
}

/// Runs an agent with a tool call, and returns the trace context that was current in the tool.
async fn traced(hook: OtelHook) -> Option<TraceContext> {
    let tool = Traced::default();
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(tool.clone()));
    let provider = ScriptedProvider::new([look(), Reply::text("done")]);
    let builder = scout_of(provider).tools(tools).hook(hook);
    Chat::new(builder).run("go", &ToolContext::default()).await.unwrap();
    let mut traces = tool.0.lock().unwrap();
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

/// Checks that all metrics of a run with a tool call were recorded.
#[track_caller]
fn check_all_measured(memory: &Memory) {
    let durations = memory.measured("gen_ai.client.operation.duration");
    for (operation, count) in [("chat", 2), ("execute_tool", 1), ("invoke_agent", 1)] {
        let of = |name: &&String| name.contains(&format!("gen_ai.operation.name={operation}"));
        let found: u64 =
            durations.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum();
        assert_eq!(found, count, "{operation}: {durations:?}");
    }
    assert_eq!(memory.measured("gen_ai.client.token.usage").len(), 2);
}

#[tokio::test]
async fn unsampled_run_is_measured_and_propagates_the_trace() {
    for unsampled in [false, true] {
        let memory = Memory::sampling(Sampler::AlwaysOff);
        let hook = hook(&memory);
        let hook = if unsampled { hook.with_unsampled_spans() } else { hook };
        let trace = traced(hook).await.expect("a trace, not sampled");
        assert!(trace.traceparent.ends_with("-00"), "{}", trace.traceparent);
        assert!(!trace.traceparent.contains(&"0".repeat(16)), "{}", trace.traceparent);
        assert_eq!(memory.tree(), "");
        check_all_measured(&memory);
        memory.check_closed();
    }
}

#[tokio::test]
async fn unsampled_parent_has_no_children_unless_enabled() {
    for unsampled in [false, true] {
        let memory = Memory::sampling(Sampler::AlwaysOff);
        let seen = Log::default();
        let subscriber = tracing_subscriber::registry().with(memory.layer()).with(seen.clone());
        let _guard = tracing::subscriber::set_default(subscriber);
        let hook = hook(&memory);
        let hook = if unsampled { hook.with_unsampled_spans() } else { hook };
        traced(hook).await;
        // The sampler is called for the root span, and its children follow the decision.
        let expected: &[&str] = match unsampled {
            true => &["invoke_agent", "chat", "execute_tool", "chat"],
            false => &["invoke_agent"],
        };
        assert_eq!(seen.names(), expected);
        memory.check_closed();
    }
}

fn remote(flags: &str) -> TraceContext {
    TraceContext::new(format!("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-{flags}"))
}

#[tokio::test]
async fn remote_parent_decides_sampling() {
    for is_sampled in [true, false] {
        let sampler = Sampler::ParentBased(Box::new(Sampler::AlwaysOn));
        let memory = Memory::sampling(sampler);
        let request = info_span!("request");
        set_trace_parent(&request, &remote(if is_sampled { "01" } else { "00" }));
        let trace = traced(hook(&memory)).instrument(request).await.unwrap();
        memory.check_closed_below_remote();
        assert!(trace.traceparent.starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
        assert_eq!(trace.traceparent.ends_with("-01"), is_sampled);
        check_all_measured(&memory);
        if is_sampled {
            assert_eq!(
                memory.tree(),
                format!(
                    "request\n  {RUN}\n    chat scripted-model\n    execute_tool look\n    \
                     chat scripted-model\n"
                )
            );
            let tool = memory.one("execute_tool look");
            let id = tool.span_context.span_id().to_string();
            assert!(trace.traceparent.contains(&id), "the tool's own span is handed on");
        } else {
            assert_eq!(memory.tree(), "");
        }
    }
}

#[tokio::test]
async fn opentelemetry_context_without_tracing_span_decides_sampling() {
    use opentelemetry::trace::{FutureExt, SpanContext, SpanId, TraceFlags};
    for flags in [TraceFlags::SAMPLED, TraceFlags::NOT_SAMPLED] {
        let memory = Memory::sampling(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)));
        let place = SpanContext::new(
            TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap(),
            SpanId::from_hex("00f067aa0ba902b7").unwrap(),
            flags,
            true,
            TraceState::default(),
        );
        let context = opentelemetry::Context::new().with_remote_span_context(place);
        let trace = traced(hook(&memory)).with_context(context).await.unwrap();
        assert!(trace.traceparent.contains("0af7651916cd43dd8448eb211c80319c"));
        check_all_measured(&memory);
        memory.check_closed_below_remote();
        match flags == TraceFlags::SAMPLED {
            true => assert_eq!(memory.one(RUN).parent_span_id.to_string(), "00f067aa0ba902b7"),
            false => assert_eq!(memory.tree(), ""),
        }
    }
}

#[tokio::test]
async fn run_without_subscriber_is_measured() {
    let memory = Memory::new();
    let _nobody = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::default());
    for conventions in MODES {
        assert!(traced(hook(&memory).with_conventions(conventions)).await.is_none());
    }
    assert_eq!(memory.tree(), "");
    // Version 1.41 and the book's conventions both have this metric.
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert_eq!(durations.values().sum::<u64>(), 2 * 4, "{durations:?}");
    assert_eq!(memory.measured("gen_ai.execute_tool.duration").values().sum::<u64>(), 1);
    let calls = memory.measured("gen_ai.invoke_agent.inference_calls");
    assert_eq!(calls.values().copied().collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn hook_without_metrics_exports_only_spans() {
    for conventions in MODES {
        let memory = Memory::new();
        let hook = hook(&memory).with_conventions(conventions).without_metrics();
        traced(hook).await;
        memory.check_closed();
        assert!(memory.tree().starts_with(RUN));
        assert!(!memory.all_measured().contains("gen_ai"));
    }
}

/// The id, the name and the fields of a logged span.
type Logged = (u64, &'static str, Vec<(String, String)>);

/// A layer that collects spans as a log does, and does not export them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Logged>>>);

struct Fields<'a>(&'a mut Vec<(String, String)>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name().to_owned(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name().to_owned(), format!("{value:?}")));
    }
}

impl Log {
    fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|span| span.1).collect()
    }

    fn field(&self, span: &str, field: &str) -> Option<String> {
        let spans = self.0.lock().unwrap();
        let (_, _, fields) = spans.iter().find(|(_, name, _)| *name == span)?;
        fields.iter().rev().find(|(name, _)| name == field).map(|(_, value)| value.clone())
    }
}

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if span.metadata().target() == "neuron_otel" {
            let mut fields = Vec::new();
            span.record(&mut Fields(&mut fields));
            self.0.lock().unwrap().push((id.into_u64(), span.metadata().name(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        let span = spans.iter_mut().rev().find(|span| span.0 == id.into_u64());
        if let Some((_, _, fields)) = span {
            values.record(&mut Fields(fields));
        }
    }
}

#[tokio::test]
async fn log_layer_receives_spans_with_all_attributes() {
    let memory = Memory::new();
    let log = Log::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let provider = ScriptedProvider::new([look(), Reply::text("done")]);
    let mut agent = Chat::new(
        scout_of(provider)
            .hook(hook(&memory))
            .request(|request| request.stop_sequences = vec!["stop".into()]),
    );
    agent.run("go", &ToolContext::default()).await.unwrap();
    assert_eq!(log.names(), ["invoke_agent", "chat", "execute_tool", "chat"]);
    let field = |span, name| log.field(span, name);
    assert_eq!(field("invoke_agent", "otel.name").as_deref(), Some(RUN));
    assert_eq!(field("chat", "gen_ai.request.model").as_deref(), Some("scripted-model"));
    // Lists are recorded as JSON, because a field of `tracing` cannot be a list.
    assert_eq!(
        field("chat", "gen_ai.response.finish_reasons").as_deref(),
        Some(r#"["tool_call"]"#)
    );
    assert_eq!(field("chat", "gen_ai.request.stop_sequences").as_deref(), Some(r#"["stop"]"#));
    assert_eq!(
        field("invoke_agent", "gen_ai.response.finish_reasons").as_deref(),
        Some(r#"["stop"]"#)
    );
    assert_eq!(field("execute_tool", "gen_ai.tool.name").as_deref(), Some("look"));
    assert!(field("chat", "gen_ai.usage.input_tokens").is_some());
    assert_eq!(memory.tree(), "");
    check_all_measured(&memory);
}

#[tokio::test]
async fn wrapped_provider_has_no_span_below_unsampled_span() {
    let memory = Memory::sampling(Sampler::AlwaysOff);
    let provider = hook(&memory).provider(ScriptedProvider::new(["one"]));
    let seen = Log::default();
    let subscriber = tracing_subscriber::registry().with(memory.layer()).with(seen.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let request = neuron_types::CompletionRequest {
        messages: vec![neuron_types::Message::user("go")],
        ..Default::default()
    };
    provider.complete(request).instrument(info_span!("job")).await.unwrap();
    assert_eq!(seen.names(), Vec::<&str>::new());
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert_eq!(durations.values().sum::<u64>(), 1);
}

/// A sampler that samples only traces whose root is a run of neuron-otel.
#[derive(Debug, Clone)]
struct Ours;

impl ShouldSample for Ours {
    fn should_sample(
        &self,
        parent: Option<&opentelemetry::Context>,
        _: TraceId,
        name: &str,
        _: &SpanKind,
        _: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        let around = parent.map(|parent| parent.span().span_context().clone());
        let is_sampled = match around.filter(|around| around.is_valid()) {
            Some(around) => around.is_sampled(),
            None => name == RUN,
        };
        SamplingResult {
            decision: match is_sampled {
                true => SamplingDecision::RecordAndSample,
                false => SamplingDecision::Drop,
            },
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

// Without an enclosing span, each hook has a separate trace. Regression test. The sampling decision of one hook
// affected the calls of the other hook.
#[tokio::test]
async fn sampling_of_another_hooks_trace_has_no_effect() {
    for is_first in [true, false] {
        let memory = Memory::sampling(Ours);
        let provider = ScriptedProvider::new([look(), Reply::text("done")]);
        let builder = scout_of(provider);
        let builder = match is_first {
            true => builder.hook(hook(&memory)).hook(TracingHook::new()),
            false => builder.hook(TracingHook::new()).hook(hook(&memory)),
        };
        Chat::new(builder).run("go", &ToolContext::default()).await.unwrap();
        memory.check_closed();
        assert_eq!(memory.named("chat scripted-model").len(), 2, "{}", memory.tree());
        assert_eq!(memory.named("execute_tool look").len(), 1);
    }
}

#[tokio::test]
async fn errors_in_unsampled_traces_are_measured() {
    let memory = Memory::sampling(Sampler::AlwaysOff);
    let inputs = [json!({"do": "say no"})];
    let replies = [crate::support::agents::looks(inputs), Reply::hang()];
    let mut agent = Chat::new(scout(&memory, replies));
    let ctx = ToolContext::default();
    crate::support::polls::poll_times(std::pin::pin!(agent.run("go", &ctx).into_future()), 20);
    memory.check_closed();
    let durations = memory.measured("gen_ai.client.operation.duration");
    for (operation, error) in
        [("chat", "Cancelled"), ("execute_tool", "tool_error"), ("invoke_agent", "Cancelled")]
    {
        let is = |name: &&String| {
            name.contains(&format!("gen_ai.operation.name={operation}"))
                && name.contains(&format!("error.type={error}"))
        };
        assert_eq!(durations.keys().filter(is).count(), 1, "{durations:?}");
    }
}
