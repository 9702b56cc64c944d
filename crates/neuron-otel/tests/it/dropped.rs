//! Tests of runs that are dropped, are cancelled or panic at any point. Every span of such a run must end at once, and
//! record the reason.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use neuron_context::SlidingWindowStrategy;
use neuron_otel::SemanticConventions;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContextError, ContextStrategy, Message, Provider,
    ProviderError, StopReason, StreamHandle, ToolContext,
};
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;

use crate::support::agents::{
    Chat, MODES, WAYS, Way, bare, hook, looks, parallel, run, scout, scout_of,
};
use crate::support::checks::{check_failed, check_fine, count, duration, error_of};
use crate::support::memory::{Memory, attribute};
use crate::support::polls::{LONG, TO_THE_END, Waiting, Waits, nothing_happens, poll_times};

const RUN: &str = "invoke_agent scout";
const CHAT: &str = "chat scripted-model";
const TOOL: &str = "execute_tool look";

#[test]
fn run_dropped_after_any_poll_ends_spans_in_one_tree() {
    sweep(|agent, way, polls| {
        let ctx = ToolContext::default();
        poll_times(pin!(run(way, agent, &ctx)), polls).is_some()
    });
}

#[test]
fn run_cancelled_after_any_poll_ends_spans_in_one_tree() {
    sweep(|agent, way, polls| {
        let ctx = ToolContext::default();
        let mut run = pin!(run(way, agent, &ctx));
        if poll_times(run.as_mut(), polls).is_some() {
            return true;
        }
        ctx.cancellation_token.cancel();
        poll_times(run.as_mut(), 500).expect("it ends soon");
        false
    });
}

/// Starts runs and calls `interrupt` for each, with a number of polls that grows by one. `interrupt` ends the run after
/// that many polls. It returns `true` if the run ended by itself before.
fn sweep(interrupt: impl Fn(&mut Chat, Way, usize) -> bool) {
    for conventions in MODES {
        for way in WAYS {
            for polls in 0.. {
                let memory = Memory::new();
                let replies = [
                    looks([json!({"polls": 3}), json!({"polls": 1})]),
                    looks([json!({"polls": 2})]),
                    Reply::text("part").stop_reason(StopReason::PauseTurn),
                    Reply::text("done"),
                ];
                let provider = Waiting(ScriptedProvider::new(replies));
                let mut agent = Chat::new(
                    scout_of(provider)
                        .context(SlowWindow::new())
                        .config(parallel)
                        .hook(hook(&memory).with_conventions(conventions)),
                );
                let has_ended = interrupt(&mut agent, way, polls);
                memory.check_closed();
                let runs = memory.named(RUN);
                // A run that was never polled, or that was cancelled before it began, has no span.
                assert!(runs.len() <= 1 && (runs.len() == 1 || polls < 2), "{polls}");
                for run in &runs {
                    match error_of(run).as_str() {
                        "" => assert!(attribute(run, "gen_ai.usage.input_tokens").is_some()),
                        kind => check_failed_cancelled(run, kind),
                    }
                }
                if has_ended {
                    assert!(polls > 10, "there was something to interrupt");
                    let tree = memory.tree();
                    assert!(tree.contains("compaction"), "{tree}");
                    assert_eq!(memory.named(RUN).len(), 1);
                    check_fine(&memory.one(RUN));
                    break;
                }
            }
        }
    }
}

#[track_caller]
fn check_failed_cancelled(span: &SpanData, kind: &str) {
    assert_eq!(kind, "Cancelled");
    check_failed(span, kind);
}

/// A context strategy with a sliding window, whose compaction waits for some polls.
struct SlowWindow(SlidingWindowStrategy);

impl SlowWindow {
    fn new() -> Self {
        Self(SlidingWindowStrategy::new(4, 1))
    }
}

impl ContextStrategy for SlowWindow {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > 4
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Waits(2).await;
        self.0.compact(messages).await
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.0.token_estimate(messages)
    }
}

/// Polls a run until it makes no more progress, waits for a while, and drops the run.
fn dropped_after_a_while(future: impl Future) {
    let mut future = Box::pin(future);
    assert!(poll_times(future.as_mut(), 20).is_none(), "it waits");
    nothing_happens();
    drop(future);
}

#[test]
fn run_dropped_in_model_call_ends_at_drop() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = Chat::new(scout(&memory, [Reply::hang()]));
        dropped_after_a_while(run(way, &mut agent, &ToolContext::default()));
        memory.check_closed();
        for name in [RUN, CHAT] {
            let span = memory.one(name);
            check_failed(&span, "Cancelled");
            assert!(duration(&span) >= LONG, "{way:?} {name}: {:?}", duration(&span));
        }
        assert_eq!(count(&memory, "chat", Some("Cancelled")), 1);
        assert_eq!(count(&memory, "invoke_agent", Some("Cancelled")), 1);
    }
}

#[test]
fn stream_dropped_in_response_ends_at_drop() {
    let memory = Memory::new();
    let answer = Reply::text("a text in pieces").chunk_chars(3).hang_after(2);
    let mut agent = Chat::new(scout(&memory, [answer]));
    dropped_after_a_while(run(Way::Stream, &mut agent, &ToolContext::default()));
    memory.check_closed();
    let chat = memory.one(CHAT);
    check_failed(&chat, "Cancelled");
    assert!(duration(&chat) >= LONG);
    assert!(attribute(&chat, "gen_ai.response.time_to_first_chunk").is_some());
    assert!(duration(&memory.one(RUN)) >= LONG);
}

#[test]
fn run_and_tools_dropped_in_tool_calls_end_at_drop() {
    for conventions in MODES {
        for parallel in [false, true] {
            let memory = Memory::new();
            let hangs = json!({"do": "hang"});
            let provider = ScriptedProvider::new([looks([hangs.clone(), json!({}), hangs])]);
            let hook = hook(&memory).with_conventions(conventions);
            let builder = scout_of(provider)
                .hook(hook)
                .config(|config| config.parallel_tool_execution = parallel);
            let mut agent = Chat::new(builder);
            dropped_after_a_while(run(Way::Run, &mut agent, &ToolContext::default()));
            memory.check_closed();
            let name = match conventions {
                SemanticConventions::Book => "gen_ai.execute_tool",
                _ => TOOL,
            };
            let tools = memory.named(name);
            let (hung, fine): (Vec<_>, Vec<_>) =
                tools.iter().partition(|span| error_of(span) == "Cancelled");
            assert_eq!((hung.len(), fine.len()), if parallel { (2, 1) } else { (1, 0) });
            for span in hung.into_iter().chain([&memory.one(RUN)]) {
                assert!(duration(span) >= LONG, "{}: {:?}", span.name, duration(span));
            }
            if conventions == SemanticConventions::Book {
                assert!(duration(&memory.one("gen_ai.loop.iteration")) >= LONG);
            }
        }
    }
}

/// A context strategy whose compaction never ends.
struct Hangs;

impl ContextStrategy for Hangs {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        true
    }

    async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        std::future::pending().await
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

#[test]
fn run_dropped_in_compaction_ends_at_drop() {
    let memory = Memory::new();
    let provider = ScriptedProvider::new(["never"]);
    let history = vec![Message::user("one"), Message::assistant("two")];
    let builder = bare(provider).context(Hangs).name("scout").hook(hook(&memory));
    let mut agent = Chat::new(builder);
    agent.conversation = history.into();
    dropped_after_a_while(run(Way::Run, &mut agent, &ToolContext::default()));
    memory.check_closed();
    for name in [RUN, "neuron.context.compaction"] {
        let span = memory.one(name);
        check_failed(&span, "Cancelled");
        assert!(duration(&span) >= LONG);
    }
}

/// A context strategy whose compaction fails.
struct Fails;

impl ContextStrategy for Fails {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        true
    }

    async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Err(ContextError::CompactionFailed("no".into()))
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

#[tokio::test]
async fn failed_compaction_is_recorded() {
    let memory = Memory::new();
    let provider = ScriptedProvider::new(["never"]);
    let history = vec![Message::user("one"), Message::assistant("two")];
    let builder = bare(provider).context(Fails).name("scout").hook(hook(&memory));
    let mut agent = Chat::new(builder);
    agent.conversation = history.into();
    agent.run("go", &ToolContext::default()).await.unwrap_err();
    memory.check_closed();
    check_failed(&memory.one("neuron.context.compaction"), "Context");
    check_failed(&memory.one(RUN), "Context");
}

#[tokio::test]
async fn cancelled_run_ends_at_cancellation() {
    for (replies, inner) in
        [(vec![Reply::hang()], CHAT), (vec![looks([json!({"do": "hang"})])], TOOL)]
    {
        for way in WAYS {
            let memory = Memory::new();
            let mut agent = Chat::new(scout(&memory, replies.clone()));
            let ctx = ToolContext::default();
            {
                let mut run = pin!(run(way, &mut agent, &ctx));
                assert!(poll_times(run.as_mut(), 20).is_none());
                nothing_happens();
                ctx.cancellation_token.cancel();
                poll_times(run, 20).expect("it ends");
            }
            memory.check_closed();
            for name in [RUN, inner] {
                let span = memory.one(name);
                check_failed(&span, "Cancelled");
                assert!(duration(&span) >= LONG, "{name}");
            }
        }
    }
}

#[tokio::test]
async fn run_cancelled_before_it_begins_has_no_span() {
    let memory = Memory::new();
    let mut agent = Chat::new(scout(&memory, ["never"]));
    let ctx = ToolContext::default();
    ctx.cancellation_token.cancel();
    agent.run("go", &ctx).await.unwrap_err();
    memory.check_closed();
    assert_eq!(memory.tree(), "");
    assert_eq!(count(&memory, "invoke_agent", None), 0);
}

/// A provider that panics.
struct Panics;

impl Provider for Panics {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        panic!("a planned panic")
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        panic!("a planned panic")
    }
}

#[test]
fn panicking_provider_ends_spans_and_restores_current_span() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = Chat::new(scout_of(Panics).hook(hook(&memory)));
        let ctx = ToolContext::default();
        let whole = AssertUnwindSafe(|| poll_times(pin!(run(way, &mut agent, &ctx)), TO_THE_END));
        catch_unwind(whole).unwrap_err();
        memory.check_closed();
        // The panic must be recorded, and not the drop of the run.
        check_failed(&memory.one(RUN), "panic");
        check_failed(&memory.one("chat"), "panic");
        assert!(neuron_otel::current_trace_context().is_none(), "something is current still");
        // The next run must begin a new trace.
        memory.clear();
        let mut agent = Chat::new(scout(&memory, ["done"]));
        poll_times(pin!(agent.run("go", &ctx).into_future()), TO_THE_END).unwrap().unwrap();
        memory.check_closed();
        assert_eq!(memory.tree(), format!("{RUN}\n  {CHAT}\n"));
    }
}
