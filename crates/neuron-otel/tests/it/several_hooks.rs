//! Tests of agents with several hooks. Each hook must record all operations, and spans of different hooks must not be
//! mixed.

use neuron_otel::SemanticConventions;
use neuron_runtime::TracingHook;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::ToolContext;
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;

use crate::support::agents::{Chat, WAYS, Way, hook, looks, parallel, run, scout_of};
use crate::support::memory::{Memory, attribute, parent_of};

const RUN: &str = "invoke_agent scout";

/// Returns the spans of one hook, each as its name and the name of its parent.
fn edges(spans: &[SpanData], is_ours: impl Fn(&SpanData) -> bool) -> Vec<(&str, &str)> {
    let mut ours: Vec<&SpanData> = spans.iter().filter(|span| is_ours(span)).collect();
    ours.sort_by_key(|span| span.start_time);
    ours.iter().map(|span| (span.name.as_ref(), parent_of(span, spans))).collect()
}

// Regression test. With two hooks of the same type, the first hook's calls were children of the second hook's run.
#[tokio::test]
async fn two_hooks_on_one_agent_have_complete_trees() {
    use SemanticConventions::{Book, V1_41};
    for order in [[Book, V1_41], [V1_41, Book]] {
        for way in WAYS {
            let memory = Memory::new();
            let inputs = [json!({"text": "a"}), json!({"text": "b"})];
            let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
            let mut builder = scout_of(provider).config(parallel);
            for conventions in order {
                builder = builder.hook(hook(&memory).with_conventions(conventions));
            }
            run(way, &mut Chat::new(builder), &ToolContext::default()).await;
            memory.check_closed();
            let spans = memory.spans();
            assert_eq!(memory.named(RUN).len(), 2);
            let book = edges(&spans, |span| span.name.starts_with("gen_ai."));
            let turn = "gen_ai.loop.iteration";
            assert_eq!(
                book,
                [
                    (turn, RUN),
                    ("gen_ai.chat", turn),
                    ("gen_ai.execute_tool", turn),
                    ("gen_ai.execute_tool", turn),
                    (turn, RUN),
                    ("gen_ai.chat", turn),
                ],
                "{order:?} {way:?}"
            );
            let plain = edges(&spans, |span| {
                span.name.starts_with("chat") || span.name.starts_with("exec")
            });
            let (chat, tool) = ("chat scripted-model", "execute_tool look");
            assert_eq!(plain, [(chat, RUN), (tool, RUN), (tool, RUN), (chat, RUN)], "{order:?}");
            let has_chunk =
                |span: &&SpanData| attribute(span, "gen_ai.response.time_to_first_chunk").is_some();
            let chunks = spans.iter().filter(has_chunk).count();
            assert_eq!(chunks, if way == Way::Stream { 4 } else { 0 }, "{order:?}");
            // Each call must be a child of its own hook's run.
            for span in &spans {
                let Some(parent) = spans
                    .iter()
                    .find(|parent| parent.span_context.span_id() == span.parent_span_id)
                    .filter(|parent| parent.name == RUN && span.name != RUN)
                else {
                    continue;
                };
                let is_book = span.name.starts_with("gen_ai.");
                assert_eq!(attribute(parent, "gen_ai.system").is_some(), is_book, "{}", span.name);
            }
        }
    }
}

#[tokio::test]
async fn tracing_hook_in_either_order_keeps_spans_below_run() {
    for is_first in [true, false] {
        for way in WAYS {
            let memory = Memory::new();
            let inputs = [json!({"text": "a"}), json!({"text": "b"})];
            let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
            let builder = scout_of(provider).config(parallel);
            let builder = match is_first {
                true => builder.hook(hook(&memory)).hook(TracingHook::new()),
                false => builder.hook(TracingHook::new()).hook(hook(&memory)),
            };
            run(way, &mut Chat::new(builder), &ToolContext::default()).await;
            memory.check_closed();
            let spans = memory.spans();
            assert_eq!(memory.named("neuron.run").len(), 1);
            assert_eq!(memory.named("neuron.llm.call").len(), 2);
            assert_eq!(memory.named("neuron.tool.call").len(), 2);
            assert_eq!(memory.named("chat scripted-model").len(), 2);
            assert_eq!(memory.named("execute_tool look").len(), 2);
            // Spans of the other hook may be in between, but must not replace the spans of this hook.
            let is_ours = |span: &SpanData| {
                ["invoke_agent", "chat", "execute_tool"]
                    .iter()
                    .any(|name| span.name.starts_with(name))
            };
            let ours = edges(&spans, is_ours);
            let (chat, tool) = ("chat scripted-model", "execute_tool look");
            let expected = [(RUN, ""), (chat, RUN), (tool, RUN), (tool, RUN), (chat, RUN)];
            assert_eq!(ours, expected, "{is_first} {way:?}\n{}", memory.tree());
            for text in ["a", "b"] {
                let work = memory.one(&format!("work {text}"));
                let parent = parent_of(&work, &spans);
                assert!(["execute_tool look", "neuron.tool.call"].contains(&parent), "{parent}");
            }
        }
    }
}
