//! Tests of concurrent tools, agents, nested agents and hooks.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::AgentBuilder;
use neuron_otel::SemanticConventions;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::{Value, json};
use tracing::instrument::WithSubscriber;
use tracing::{Instrument, info_span};

use crate::support::agents::{
    Chat, MODES, WAYS, Way, bare, hook, looks, parallel, run, scout, scout_of,
};
use crate::support::memory::{Memory, attribute, parent_of};
use crate::support::tools::{Act, registry};

const RUN: &str = "invoke_agent scout";

#[tokio::test(start_paused = true)]
async fn spans_of_parallel_tools_are_children_of_their_calls() {
    for conventions in MODES {
        for way in WAYS {
            let memory = Memory::new();
            let inputs = (0..20).map(|index| {
                json!({"text": index.to_string(), "delay": (index * 7) % 20, "polls": index % 3})
            });
            let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
            let mut agent = Chat::new(
                scout_of(provider)
                    .hook(hook(&memory).with_conventions(conventions))
                    .config(parallel),
            );
            run(way, &mut agent, &ToolContext::default()).await;
            memory.check_closed();
            let spans = memory.spans();
            let tools: Vec<_> =
                spans.iter().filter(|span| span.name.contains("execute_tool")).collect();
            assert_eq!(tools.len(), 20);
            for tool in tools {
                let id = attribute(tool, "gen_ai.tool.call.id").unwrap();
                let mut below: Vec<&str> = spans
                    .iter()
                    .filter(|span| span.parent_span_id == tool.span_context.span_id())
                    .map(|span| span.name.as_ref())
                    .collect();
                below.sort_unstable();
                let index = id.trim_start_matches('c');
                assert_eq!(below, [format!("more {index}"), format!("work {index}")]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn early_tool_is_child_of_run() {
    for conventions in MODES {
        let memory = Memory::new();
        let calls = ["a", "b", "c"].map(|text| {
            (format!("call-{text}"), "read".to_owned(), json!({"text": text, "delay": 50}))
        });
        let replies =
            [Reply::tool_calls(calls).event_delay(Duration::from_millis(100)), Reply::text("done")];
        let provider = ScriptedProvider::new(replies);
        let mut agent = Chat::new(
            bare(provider)
                .name("scout")
                .tools(registry([Act::pure("read")]))
                .config(parallel)
                .config(|config| config.early_tools = true)
                .hook(hook(&memory).with_conventions(conventions)),
        );
        run(Way::Stream, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        let spans = memory.spans();
        let around = match conventions {
            SemanticConventions::Book => "gen_ai.loop.iteration",
            _ => RUN,
        };
        let chat = spans
            .iter()
            .filter(|span| span.name.contains("chat"))
            .min_by_key(|span| span.start_time)
            .unwrap();
        let tools: Vec<_> =
            spans.iter().filter(|span| span.name.contains("execute_tool")).collect();
        assert_eq!(tools.len(), 3);
        assert!(tools.iter().any(|tool| tool.start_time < chat.end_time), "one started early");
        for tool in tools {
            assert_eq!(parent_of(tool, &spans), around, "{}", memory.tree());
            assert_eq!(attribute(tool, "error.type"), None);
        }
        assert_eq!(parent_of(chat, &spans), around);
        for span in spans.iter().filter(|span| span.name.starts_with("work")) {
            assert!(parent_of(span, &spans).contains("execute_tool"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stream_with_early_tools_dropped_at_any_event_ends_its_spans() {
    for conventions in MODES {
        for events in 0.. {
            let memory = Memory::new();
            let calls = ["a", "b"].map(|id| (id, "read", json!({"delay": 1_000})));
            let replies = [
                Reply::tool_calls(calls).event_delay(Duration::from_millis(100)),
                Reply::text("done"),
            ];
            let mut agent = Chat::new(
                bare(ScriptedProvider::new(replies))
                    .name("scout")
                    .tools(registry([Act::pure("read")]))
                    .config(parallel)
                    .config(|config| config.early_tools = true)
                    .hook(hook(&memory).with_conventions(conventions)),
            );
            let ctx = ToolContext::default();
            let mut stream = agent.run("go", &ctx).stream();
            let mut has_ended = false;
            for _ in 0..events {
                has_ended |= stream.next().await.is_none();
            }
            drop(stream);
            // A tool that started before the response was complete ends with the run. The tool may therefore end after
            // the response that called it.
            memory.check_closed();
            if has_ended {
                assert!(events > 5);
                break;
            }
        }
    }
}

/// A tool that calls a model through [`OtelProvider`](neuron_otel::OtelProvider) and records the current trace.
struct Asks(neuron_otel::OtelProvider<ScriptedProvider>);

impl ToolDyn for Asks {
    fn name(&self) -> &str {
        "read"
    }

    fn effect(&self) -> neuron_types::ToolEffect {
        neuron_types::ToolEffect::Pure
    }

    fn definition(&self) -> ToolDefinition {
        Act::new("read").definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        use neuron_types::{CompletionRequest, Message, Provider};
        Box::pin(async move {
            let messages = vec![Message::user("inner")];
            let request = CompletionRequest {
                model: "inner".into(),
                messages,
                ..CompletionRequest::default()
            };
            let answer = self.0.complete(request).await.unwrap();
            Ok(ToolOutput::text(answer.message.text()))
        })
    }
}

// A tool that starts early is polled within a poll of the model's response. Regression test. The tool's own model call
// was treated as a part of that response and had no span.
#[tokio::test(start_paused = true)]
async fn model_call_of_early_tool_has_its_own_span() {
    for conventions in MODES {
        for early in [false, true] {
            let memory = Memory::new();
            let hook = hook(&memory).with_conventions(conventions);
            let inner = hook.provider(ScriptedProvider::new(["fine"; 2]));
            let mut tools = ToolRegistry::new();
            tools.register_dyn(Arc::new(Asks(inner)));
            let calls = ["a", "b"].map(|id| (id, "read", json!({})));
            let replies = [
                Reply::tool_calls(calls).event_delay(Duration::from_millis(100)),
                Reply::text("done"),
            ];
            let mut agent = Chat::new(
                bare(ScriptedProvider::new(replies))
                    .name("scout")
                    .tools(tools)
                    .config(parallel)
                    .config(|config| config.early_tools = early)
                    .hook(hook),
            );
            run(Way::Stream, &mut agent, &ToolContext::default()).await;
            memory.check_closed();
            let spans = memory.spans();
            let inner: Vec<_> = spans
                .iter()
                .filter(|span| attribute(span, "gen_ai.request.model").as_deref() == Some("inner"))
                .collect();
            assert_eq!(inner.len(), 2, "{}", memory.tree());
            for chat in inner {
                assert!(parent_of(chat, &spans).contains("execute_tool"), "{}", memory.tree());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn agents_that_share_a_hook_keep_separate_runs() {
    for conventions in MODES {
        let memory = Memory::new();
        let hook = hook(&memory).with_conventions(conventions);
        let runs: Vec<_> = (0..40)
            .map(|index| {
                let inputs = ["a", "b", "c"]
                    .map(|text| json!({"text": format!("{index}{text}"), "delay": 1}));
                let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
                let mut agent = Chat::new(scout_of(provider).hook(hook.clone()).config(parallel));
                let ctx = ToolContext { session_id: format!("s-{index}"), ..Default::default() };
                let run = async move { agent.run("go", &ctx).await.unwrap() };
                tokio::spawn(run.with_current_subscriber())
            })
            .collect();
        for run in runs {
            run.await.unwrap();
        }
        memory.check_closed();
        let spans = memory.spans();
        let per_run = if conventions == SemanticConventions::Book { 14 } else { 12 };
        assert_eq!(spans.len(), 40 * per_run);
        for run in memory.named(RUN) {
            let session = attribute(&run, "gen_ai.conversation.id").unwrap();
            let index = session.trim_start_matches("s-");
            let trace = run.span_context.trace_id();
            let of_run: Vec<_> =
                spans.iter().filter(|span| span.span_context.trace_id() == trace).collect();
            assert_eq!(of_run.len(), per_run);
            let mut works: Vec<&str> =
                of_run.iter().filter_map(|span| span.name.strip_prefix("work ")).collect();
            works.sort_unstable();
            assert_eq!(works, ["a", "b", "c"].map(|text| format!("{index}{text}")));
            for chat in of_run.iter().filter(|span| span.name.contains("chat")) {
                let recorded = attribute(chat, "gen_ai.conversation.id");
                assert_eq!(recorded.as_ref(), Some(&session));
            }
        }
        let durations = memory.measured("gen_ai.client.operation.duration");
        if conventions != SemanticConventions::Latest {
            assert_eq!(durations.values().sum::<u64>(), 40 * 6);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn timed_out_runs_on_many_threads_end_their_spans() {
    let memory = Memory::new();
    let hook = hook(&memory);
    let tasks: Vec<_> = (0..40)
        .map(|index| {
            let inputs = [json!({"delay": index % 3}), json!({"do": "hang"})];
            let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
            let builder = scout_of(provider).hook(hook.clone()).config(parallel);
            let mut agent = Chat::new(builder);
            // The run is dropped while its subscriber is the current subscriber. The registry of `tracing` closes
            // parent spans in the current subscriber.
            let run = async move {
                let ctx = ToolContext::default();
                let run = agent.run("go", &ctx);
                tokio::time::timeout(Duration::from_millis(20), run).await.is_err()
            };
            tokio::spawn(run.with_current_subscriber())
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap(), "it hangs");
    }
    memory.check_closed();
    assert_eq!(memory.named(RUN).len(), 40);
    for run in memory.named(RUN) {
        assert_eq!(attribute(&run, "error.type").as_deref(), Some("Cancelled"));
    }
    // No span may remain current on these threads.
    let after = tokio::spawn(async { neuron_otel::current_trace_context().is_none() });
    assert!(after.await.unwrap());
}

/// Returns an agent `scout` whose tool is an agent `helper`, which uses the tool `look`.
fn with_helper(hooks: impl FnOnce(AgentBuilder) -> AgentBuilder) -> Chat {
    let inner = ScriptedProvider::new([
        Reply::tool_call("i1", "look", json!({"text": "inner"})),
        Reply::text("found"),
    ]);
    let mut agents = SubAgentManager::new();
    let config = SubAgentConfig {
        system_prompt: "Look.".into(),
        tools: vec!["look".into()],
        ..SubAgentConfig::default()
    };
    agents.register("helper", config);
    let mut tools = registry([Act::new("look")]);
    agents.add_to(&mut tools, inner).unwrap();
    let outer = ScriptedProvider::new([
        Reply::tool_call("o1", "helper", json!({"prompt": "look"})),
        Reply::text("done"),
    ]);
    Chat::new(hooks(bare(outer).name("scout").tools(tools)))
}

#[tokio::test]
async fn nested_agent_is_child_of_its_tool_call() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = with_helper(|builder| builder.hook(hook(&memory)));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        assert_eq!(
            memory.tree(),
            "invoke_agent scout\n  chat scripted-model\n  execute_tool helper\n    \
             invoke_agent helper\n      chat scripted-model\n      execute_tool look\n        \
             work inner\n        more inner\n      chat scripted-model\n  chat scripted-model\n"
        );
    }
}

#[tokio::test]
async fn nested_agent_has_its_own_turns_with_book_names() {
    let memory = Memory::new();
    let hook = hook(&memory).with_conventions(SemanticConventions::Book);
    let mut agent = with_helper(|builder| builder.hook(hook));
    agent.run("go", &ToolContext::default()).await.unwrap();
    memory.check_closed();
    assert_eq!(
        memory.tree(),
        "invoke_agent scout
  gen_ai.loop.iteration
    gen_ai.chat
    gen_ai.execute_tool
      invoke_agent helper
        gen_ai.loop.iteration
          gen_ai.chat
          gen_ai.execute_tool
            work inner
            more inner
        gen_ai.loop.iteration
          gen_ai.chat
  gen_ai.loop.iteration
    gen_ai.chat
"
    );
}

/// A tool that starts a background task with a span and does not wait for it.
struct Spawns(tokio::sync::mpsc::UnboundedSender<tokio::task::JoinHandle<()>>);

impl ToolDyn for Spawns {
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
        Box::pin(async move {
            let task = tokio::time::sleep(Duration::from_millis(60));
            let task = task.instrument(info_span!("background")).with_current_subscriber();
            self.0.send(tokio::spawn(task)).unwrap();
            Ok(ToolOutput::text("begun"))
        })
    }
}

#[tokio::test]
async fn background_task_of_tool_does_not_extend_run() {
    for conventions in MODES {
        let memory = Memory::new();
        let (send, mut tasks) = tokio::sync::mpsc::unbounded_channel();
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Spawns(send)));
        let provider = ScriptedProvider::new([looks([json!({})]), Reply::text("done")]);
        let mut agent = Chat::new(
            bare(provider)
                .name("scout")
                .tools(tools)
                .hook(hook(&memory).with_conventions(conventions)),
        );
        agent.run("go", &ToolContext::default()).await.unwrap();
        let ended = std::time::SystemTime::now();
        tasks.recv().await.unwrap().await.unwrap();
        assert_eq!(memory.open.names(), Vec::<&str>::new());
        let spans = memory.spans();
        let background = memory.one("background");
        assert!(background.end_time > ended, "it outlived the run");
        assert!(parent_of(&background, &spans).contains("execute_tool"));
        for span in spans.iter().filter(|span| span.name != "background") {
            assert!(span.end_time <= ended, "{}", span.name);
        }
    }
}

#[tokio::test]
async fn two_runs_of_one_agent_have_two_traces() {
    let memory = Memory::new();
    let mut agent = Chat::new(scout(&memory, ["one", "two"]));
    let ctx = ToolContext::default();
    agent.run("go", &ctx).await.unwrap();
    agent.run("go", &ctx).await.unwrap();
    memory.check_closed();
    let runs = memory.named(RUN);
    assert_ne!(runs[0].span_context.trace_id(), runs[1].span_context.trace_id());
    // Below a span of the application, both runs belong to one trace.
    memory.clear();
    let mut agent = Chat::new(scout(&memory, ["one", "two"]));
    let both = async {
        agent.run("go", &ctx).await.unwrap();
        agent.run("go", &ctx).await.unwrap();
    };
    both.instrument(info_span!("job")).await;
    memory.check_closed();
    assert!(memory.tree().starts_with("job\n  invoke_agent scout\n"), "{}", memory.tree());
}
