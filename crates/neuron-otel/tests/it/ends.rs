//! Every span ends, once, with what became of it: whatever becomes of the run.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{AgentLoop, LoopError, ToolErrorPolicy};
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ApprovalDecisions, CompletionRequest, CompletionResponse, ContextError, ContextStrategy,
    Message, PermissionDecision, PermissionPolicy, Provider, ProviderError, StopReason,
    StreamHandle, TokenUsage, ToolContext, UsageLimits,
};
use opentelemetry::trace::Status;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

use crate::support::agents::{
    Builder, EndsAt, MODES, WAYS, Way, hook, look, looks, run, scout, scout_of,
};
use crate::support::memory::{Memory, attribute};
use crate::support::polls::{LONG, Waiting, Waits, nothing_happens, poll_times};
use crate::support::tools::{Act, registry};

const RUN: &str = "invoke_agent scout";
const CHAT: &str = "chat scripted-model";
const TOOL: &str = "execute_tool look";

/// More polls than any run here takes.
const TO_THE_END: usize = 10_000;

fn error_of(span: &SpanData) -> String {
    attribute(span, "error.type").unwrap_or_default()
}

/// The span failed with this `error.type`, and its status says so.
#[track_caller]
fn check_failed(span: &SpanData, kind: &str) {
    assert_eq!(error_of(span), kind, "{}", span.name);
    assert!(matches!(span.status, Status::Error { .. }), "{}: {:?}", span.name, span.status);
}

#[track_caller]
fn check_fine(span: &SpanData) {
    assert_eq!(attribute(span, "error.type"), None, "{}", span.name);
    assert_eq!(span.status, Status::Unset, "{}", span.name);
}

fn duration(span: &SpanData) -> Duration {
    span.end_time.duration_since(span.start_time).unwrap()
}

/// How many operations of this kind were measured, failed ones of this type alone if one is given.
fn count(memory: &Memory, operation: &str, error: Option<&str>) -> u64 {
    let durations = memory.measured("gen_ai.client.operation.duration");
    let of = |name: &&String| {
        name.contains(&format!("gen_ai.operation.name={operation}"))
            && error.is_none_or(|error| name.contains(&format!("error.type={error} ")))
    };
    durations.iter().filter(|(name, _)| of(name)).map(|(_, count)| count).sum()
}

#[tokio::test]
async fn a_provider_error_ends_the_call_and_the_run() {
    for way in WAYS {
        let memory = Memory::new();
        let error = ProviderError::RateLimit { retry_after: None };
        let mut agent = scout(&memory, [Reply::error(error)]).build();
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        for name in [RUN, CHAT] {
            check_failed(&memory.one(name), "RateLimit");
        }
        assert_eq!(count(&memory, "chat", Some("RateLimit")), 1, "{way:?}");
        assert_eq!(count(&memory, "invoke_agent", Some("RateLimit")), 1, "{way:?}");
        assert_eq!(memory.measured("gen_ai.client.token.usage").len(), 0);
    }
}

#[tokio::test]
async fn a_tool_that_fails_is_told_as_one_whether_or_not_the_run_goes_on() {
    for way in WAYS {
        let replies = || [looks([json!({"do": "fail", "text": "no"})]), Reply::text("done")];
        let memory = Memory::new();
        let builder = scout(&memory, replies());
        let mut agent = builder.tool_errors(ToolErrorPolicy::EndRun).build();
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(TOOL), "ExecutionFailed");
        check_failed(&memory.one(RUN), "ExecutionFailed");
        check_fine(&memory.one(CHAT));
        assert_eq!(count(&memory, "execute_tool", Some("ExecutionFailed")), 1);

        let memory = Memory::new();
        let builder = scout(&memory, replies());
        let mut agent = builder.tool_errors(ToolErrorPolicy::ReturnToModel).build();
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(TOOL), "tool_error");
        check_fine(&memory.one(RUN));
        assert_eq!(memory.named(CHAT).len(), 2);
        assert_eq!(count(&memory, "execute_tool", Some("tool_error")), 1);
    }
}

// A series of measurements is stored for each name: a model that makes names up must not make series.
#[tokio::test]
async fn a_tool_that_the_model_made_up_fails_and_is_not_measured_by_its_name() {
    for conventions in MODES {
        let memory = Memory::new();
        let replies = [Reply::tool_call("c0", "invented", json!({})), Reply::text("done")];
        let hook = hook(&memory).with_conventions(conventions);
        let builder = scout_of(ScriptedProvider::new(replies)).hook(hook);
        let mut agent = builder.tool_errors(ToolErrorPolicy::EndRun).build();
        agent.run_text("go", &ToolContext::default()).await.unwrap_err();
        memory.check_closed();
        let spans = memory.spans();
        let tool = spans.iter().find(|span| span.name.contains("execute_tool")).unwrap();
        check_failed(tool, "NotFound");
        assert_eq!(attribute(tool, "gen_ai.tool.name").as_deref(), Some("invented"));
        let measured = memory.all_measured();
        assert!(measured.contains("_OTHER") && !measured.contains("invented"));
    }
}

#[tokio::test]
async fn results_that_are_errors_hints_and_panics_are_failures_of_the_call_alone() {
    for deed in ["say no", "retry", "panic"] {
        for way in WAYS {
            let memory = Memory::new();
            let replies = [looks([json!({"do": deed})]), Reply::text("done")];
            let builder = scout(&memory, replies).tool_errors(ToolErrorPolicy::ReturnToModel);
            run(way, &mut builder.build(), &ToolContext::default()).await;
            memory.check_closed();
            check_failed(&memory.one(TOOL), "tool_error");
            check_fine(&memory.one(RUN));
        }
    }
}

#[tokio::test]
async fn a_hook_that_ends_the_run_at_any_event_ends_every_span() {
    for conventions in MODES {
        for way in WAYS {
            for index in 0.. {
                let memory = Memory::new();
                let ends = EndsAt::new(index, "enough");
                let provider =
                    ScriptedProvider::new([looks([json!({}), json!({})]), Reply::text("done")]);
                let mut agent = scout_of(provider)
                    .hook(hook(&memory).with_conventions(conventions))
                    .hook(ends)
                    .build();
                run(way, &mut agent, &ToolContext::default()).await;
                memory.check_closed();
                let spans = memory.spans();
                let run = spans.iter().find(|span| span.name == RUN);
                let Some(run) = run else {
                    panic!("{way:?} {index}: no run");
                };
                if attribute(run, "error.type").is_none() {
                    assert!(index > 5, "there was something to end it at");
                    break;
                }
                check_failed(run, "HookTerminated");
            }
        }
    }
}

#[test]
fn whenever_a_run_is_dropped_its_spans_end_and_stand_in_one_tree() {
    sweep(|agent, way, polls| {
        let ctx = ToolContext::default();
        poll_times(pin!(run_waiting(way, agent, &ctx)), polls).is_some()
    });
}

#[test]
fn whenever_a_run_is_cancelled_its_spans_end_and_stand_in_one_tree() {
    sweep(|agent, way, polls| {
        let ctx = ToolContext::default();
        let mut run = pin!(run_waiting(way, agent, &ctx));
        if poll_times(run.as_mut(), polls).is_some() {
            return true;
        }
        ctx.cancellation_token.cancel();
        poll_times(run.as_mut(), 500).expect("it ends soon");
        false
    });
}

type WaitingAgent = AgentLoop<Waiting<ScriptedProvider>, SlowWindow>;

async fn run_waiting(way: Way, agent: &mut WaitingAgent, ctx: &ToolContext) {
    let message = Message::user("go");
    match way {
        Way::Run => drop(agent.run(message, ctx).await),
        Way::Stream => {
            let mut events = agent.run_stream(message, ctx).await;
            while events.recv().await.is_some() {}
        }
        Way::Step => {
            let mut steps = agent.run_step(message, ctx);
            while steps.next().await.is_some() {}
        }
    }
}

/// Interrupts a run after each number of polls. `interrupt` says whether it had ended by then.
fn sweep(interrupt: impl Fn(&mut WaitingAgent, Way, usize) -> bool) {
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
                let mut agent = AgentLoop::builder(provider, SlowWindow::new())
                    .name("scout")
                    .tools(registry([Act::new("look")]))
                    .parallel_tool_execution(true)
                    .hook(hook(&memory).with_conventions(conventions))
                    .build();
                let has_ended = interrupt(&mut agent, way, polls);
                memory.check_closed();
                let runs = memory.named(RUN);
                // A run that no poll reached, and one that was cancelled before it began, is none.
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

/// A window that waits.
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

/// Polls a run until it waits for good, lets a while pass, and drops it.
fn dropped_after_a_while(future: impl Future) {
    let mut future = Box::pin(future);
    assert!(poll_times(future.as_mut(), 20).is_none(), "it waits");
    nothing_happens();
    drop(future);
}

#[test]
fn a_run_that_is_dropped_while_the_model_is_asked_lasts_until_then() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = scout(&memory, [Reply::hang()]).build();
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
fn a_stream_that_is_dropped_in_the_middle_of_an_answer_lasts_until_then() {
    let memory = Memory::new();
    let answer = Reply::text("a text in pieces").chunk_chars(3).hang_after(2);
    let mut agent = scout(&memory, [answer]).build();
    dropped_after_a_while(run(Way::Stream, &mut agent, &ToolContext::default()));
    memory.check_closed();
    let chat = memory.one(CHAT);
    check_failed(&chat, "Cancelled");
    assert!(duration(&chat) >= LONG);
    assert!(attribute(&chat, "gen_ai.response.time_to_first_chunk").is_some());
    assert!(duration(&memory.one(RUN)) >= LONG);
}

#[test]
fn a_run_that_is_dropped_while_tools_run_lasts_until_then_and_so_do_the_tools() {
    for conventions in MODES {
        for parallel in [false, true] {
            let memory = Memory::new();
            let hangs = json!({"do": "hang"});
            let provider = ScriptedProvider::new([looks([hangs.clone(), json!({}), hangs])]);
            let hook = hook(&memory).with_conventions(conventions);
            let builder = scout_of(provider).hook(hook).parallel_tool_execution(parallel);
            let mut agent = builder.build();
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

/// A strategy that never ends.
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
fn a_run_that_is_dropped_in_a_compaction_lasts_until_then() {
    let memory = Memory::new();
    let provider = ScriptedProvider::new(["never"]);
    let history = vec![Message::user("one"), Message::assistant("two")];
    let mut agent = AgentLoop::builder(provider, Hangs)
        .name("scout")
        .hook(hook(&memory))
        .messages(history)
        .build();
    dropped_after_a_while(agent.run_text("go", &ToolContext::default()));
    memory.check_closed();
    for name in [RUN, "neuron.context.compaction"] {
        let span = memory.one(name);
        check_failed(&span, "Cancelled");
        assert!(duration(&span) >= LONG);
    }
}

/// A strategy that cannot.
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
async fn a_compaction_that_fails_is_told() {
    let memory = Memory::new();
    let provider = ScriptedProvider::new(["never"]);
    let history = vec![Message::user("one"), Message::assistant("two")];
    let builder = AgentLoop::builder(provider, Fails).name("scout").hook(hook(&memory));
    let mut agent = builder.messages(history).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    memory.check_closed();
    check_failed(&memory.one("neuron.context.compaction"), "Context");
    check_failed(&memory.one(RUN), "Context");
}

#[tokio::test]
async fn a_cancelled_run_lasts_until_it_was_cancelled_wherever_it_was() {
    for (replies, inner) in
        [(vec![Reply::hang()], CHAT), (vec![looks([json!({"do": "hang"})])], TOOL)]
    {
        for way in WAYS {
            let memory = Memory::new();
            let mut agent = scout(&memory, replies.clone()).build();
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
async fn a_run_that_is_cancelled_before_it_begins_is_none() {
    let memory = Memory::new();
    let mut agent = scout(&memory, ["never"]).build();
    let ctx = ToolContext::default();
    ctx.cancellation_token.cancel();
    agent.run_text("go", &ctx).await.unwrap_err();
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
fn a_provider_that_panics_ends_the_spans_and_leaves_nothing_current() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = scout_of(Panics).hook(hook(&memory)).build();
        let ctx = ToolContext::default();
        let whole = AssertUnwindSafe(|| poll_times(pin!(run(way, &mut agent, &ctx)), TO_THE_END));
        catch_unwind(whole).unwrap_err();
        memory.check_closed();
        // Nobody dropped it, as was told.
        check_failed(&memory.one(RUN), "panic");
        check_failed(&memory.one("chat"), "panic");
        assert!(neuron_otel::current_trace_context().is_none(), "something is current still");
        // The next run is a trace of its own.
        memory.clear();
        let mut agent = scout(&memory, ["done"]).build();
        poll_times(pin!(agent.run_text("go", &ctx)), TO_THE_END).unwrap().unwrap();
        memory.check_closed();
        assert_eq!(memory.tree(), format!("{RUN}\n  {CHAT}\n"));
    }
}

#[tokio::test]
async fn a_run_at_its_limits_says_which() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = scout(&memory, [look(), look(), look()]).max_turns(1).build();
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(RUN), "MaxTurns");
        check_fine(&memory.one(TOOL));

        let memory = Memory::new();
        let limits = UsageLimits { total_tokens_limit: Some(1), ..UsageLimits::default() };
        let mut agent = scout(&memory, [look(), look()]).usage_limits(limits).build();
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(RUN), "UsageLimitExceeded");
    }
}

/// Asks about every call.
struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("may it?".into())
    }
}

fn pausing(memory: &Memory) -> Builder {
    let builder = scout(memory, [look(), Reply::text("done")]);
    builder.permission_policy(Asks).pause_for_approval(true)
}

#[tokio::test]
async fn waiting_for_an_approval_is_no_failure_and_what_follows_is_a_run_of_its_own() {
    let memory = Memory::new();
    let mut agent = pausing(&memory).build();
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {CHAT}\n"));
    check_fine(&memory.one(RUN));
    assert_eq!(count(&memory, "invoke_agent", None), 1);
    assert_eq!(count(&memory, "execute_tool", None), 0);

    memory.clear();
    agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {TOOL}\n    work ok\n    more ok\n  {CHAT}\n"));
    let run = memory.one(RUN);
    check_fine(&run);
    assert_eq!(attribute(&run, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    // It repeats nothing.
    assert_eq!(attribute(&run, "neuron.run.resumed"), None);
}

#[tokio::test]
async fn a_call_that_another_process_approves_is_told_as_any() {
    let memory = Memory::new();
    let ctx = ToolContext::default();
    let error = pausing(&memory).build().run_text("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    memory.clear();
    let builder = scout(&memory, ["done"]).permission_policy(Asks).pause_for_approval(true);
    let mut agent = builder.build();
    let decisions = ApprovalDecisions::approve_all(&pending);
    agent.restore(*pending).unwrap();
    agent.resume(decisions, &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {TOOL}\n    work ok\n    more ok\n  {CHAT}\n"));
    let description = attribute(&memory.one(TOOL), "gen_ai.tool.description");
    assert_eq!(description.as_deref(), Some("does what look does"));
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert!(durations.keys().any(|name| name.contains("gen_ai.tool.name=look")), "{durations:?}");
}

#[tokio::test]
async fn a_denied_call_has_no_span() {
    let memory = Memory::new();
    let mut agent = pausing(&memory).build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    let id = pending.calls[0].call.id.clone();
    agent.resume(ApprovalDecisions::new().deny(&id, "no"), &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.named(TOOL).len(), 0);
}

#[tokio::test]
async fn steps_belong_to_one_run_which_ends_with_the_last() {
    for conventions in MODES {
        let memory = Memory::new();
        let provider = ScriptedProvider::new([look(), Reply::text("done")]);
        let mut agent =
            scout_of(provider).hook(hook(&memory).with_conventions(conventions)).build();
        let ctx = ToolContext::default();
        let mut steps = agent.run_step(Message::user("go"), &ctx);
        steps.next().await.unwrap();
        // What is done between steps is not of the run.
        assert!(neuron_otel::current_trace_context().is_none());
        assert_eq!(memory.named(RUN).len(), 0);
        nothing_happens();
        assert!(steps.next().await.is_some());
        assert!(steps.next().await.is_none());
        drop(steps);
        memory.check_closed();
        check_fine(&memory.one(RUN));
        assert!(duration(&memory.one(RUN)) >= LONG);
    }
}

#[tokio::test]
async fn steps_that_are_dropped_end_the_run_where_they_were_dropped() {
    let memory = Memory::new();
    let mut agent = scout(&memory, [look(), Reply::text("done")]).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    steps.next().await.unwrap();
    nothing_happens();
    drop(steps);
    memory.check_closed();
    let run = memory.one(RUN);
    check_failed(&run, "Cancelled");
    assert!(duration(&run) >= LONG);
    check_fine(&memory.one(TOOL));
}

#[test]
fn a_step_that_is_dropped_anywhere_belongs_to_the_same_run_as_those_that_follow() {
    for conventions in MODES {
        for polls in 0.. {
            let memory = Memory::new();
            let replies = [looks([json!({"polls": 2}), json!({"polls": 1})]), Reply::text("done")];
            let provider = Waiting(ScriptedProvider::new(
                replies.into_iter().chain([Reply::text("done"), Reply::text("done")]),
            ));
            let mut agent =
                scout_of(provider).hook(hook(&memory).with_conventions(conventions)).build();
            let ctx = ToolContext::default();
            let mut steps = agent.run_step(Message::user("go"), &ctx);
            let is_over = poll_times(pin!(async { while steps.next().await.is_some() {} }), polls);
            let rest = async { while steps.next().await.is_some() {} };
            poll_times(pin!(rest), TO_THE_END).expect("it ends");
            drop(steps);
            memory.check_closed();
            check_fine(&memory.one(RUN));
            assert_eq!(
                count(&memory, "invoke_agent", None),
                u64::from(conventions != SemanticConventions::Latest)
            );
            if is_over.is_some() {
                assert!(polls > 3);
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_at_any_event_ends_its_spans() {
    for events in 0.. {
        let memory = Memory::new();
        let replies = [look().with_text("a text in pieces").chunk_chars(3), Reply::text("done")];
        let mut agent = scout(&memory, replies).build();
        let ctx = ToolContext::default();
        let mut stream = agent.run_stream(Message::user("go"), &ctx).await;
        let mut has_ended = false;
        for _ in 0..events {
            has_ended |= stream.recv().await.is_none();
        }
        drop(stream);
        memory.check_closed();
        if has_ended {
            check_fine(&memory.one(RUN));
            assert!(events > 10);
            return;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_asked_for_again_has_a_span_for_each_try() {
    let memory = Memory::new();
    let error = ProviderError::ServiceUnavailable("529".into());
    let replies = [Reply::text("broken").fail_after(1, error), Reply::text("done")];
    let mut agent = scout(&memory, replies).stream_retries(1).build();
    run(Way::Stream, &mut agent, &ToolContext::default()).await;
    memory.check_closed();
    let chats = memory.named(CHAT);
    assert_eq!(chats.len(), 2);
    check_failed(&chats[0], "ServiceUnavailable");
    check_fine(&chats[1]);
    check_fine(&memory.one(RUN));
    for chat in &chats {
        assert!(attribute(chat, "gen_ai.response.time_to_first_chunk").is_some());
    }
}

#[tokio::test]
async fn a_run_that_is_continued_is_another() {
    let memory = Memory::new();
    let error = ProviderError::ServiceUnavailable("529".into());
    let mut agent = scout(&memory, [Reply::error(error), Reply::text("done")]).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap_err();
    agent.continue_run(&ctx).await.unwrap();
    memory.check_closed();
    let runs = memory.named(RUN);
    assert_eq!(runs.len(), 2);
    check_failed(&runs[0], "ServiceUnavailable");
    check_fine(&runs[1]);
    assert_ne!(runs[0].span_context.trace_id(), runs[1].span_context.trace_id());
}

#[tokio::test]
async fn a_run_tells_what_all_its_calls_took() {
    let memory = Memory::new();
    let usage = TokenUsage { input_tokens: 10, output_tokens: 3, ..TokenUsage::default() };
    let replies = [look().usage(usage.clone()), Reply::text("done").usage(usage)];
    let mut agent = scout(&memory, replies).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let run = memory.one(RUN);
    assert_eq!(attribute(&run, "gen_ai.usage.input_tokens").as_deref(), Some("20"));
    assert_eq!(attribute(&run, "gen_ai.usage.output_tokens").as_deref(), Some("6"));
    let tokens = memory.measured("gen_ai.client.token.usage");
    let sums: Vec<u64> = tokens.values().copied().collect();
    assert_eq!(sums, [20, 6]);
}

#[test]
fn a_hook_without_metrics_and_listeners_costs_no_scope() {
    // Nobody listens on this thread: the run works.
    let provider = ScriptedProvider::new([look(), Reply::text("done")]);
    let mut agent = scout_of(provider).hook(OtelHook::new().without_metrics()).build();
    let ctx = ToolContext::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let result = runtime.block_on(agent.run_text("go", &ctx)).unwrap();
    assert_eq!(result.response, "done");
}
