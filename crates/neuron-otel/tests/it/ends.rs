//! Tests that check that every span ends exactly once and with its result, however the operation ends.

use std::pin::pin;

use neuron_loop::{AgentBuilder, LoopError, Start, ToolErrorPolicy};
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ApprovalDecisions, PermissionDecision, PermissionPolicy, ProviderError, TokenUsage,
    ToolContext, UsageLimits,
};
use serde_json::{Value, json};

use crate::support::agents::{
    Chat, EndsAt, MODES, WAYS, Way, hook, look, looks, run, scout, scout_of,
};
use crate::support::checks::{check_failed, check_fine, count, duration};
use crate::support::memory::{Memory, attribute};
use crate::support::polls::{LONG, TO_THE_END, Waiting, nothing_happens, poll_times};

const RUN: &str = "invoke_agent scout";
const CHAT: &str = "chat scripted-model";
const TOOL: &str = "execute_tool look";

#[tokio::test]
async fn provider_error_ends_call_and_run() {
    for way in WAYS {
        let memory = Memory::new();
        let error = ProviderError::RateLimit { retry_after: None };
        let mut agent = Chat::new(scout(&memory, [Reply::error(error)]));
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
async fn failed_tool_is_recorded_whether_or_not_the_run_continues() {
    for way in WAYS {
        let replies = || [looks([json!({"do": "fail", "text": "no"})]), Reply::text("done")];
        let memory = Memory::new();
        let builder = scout(&memory, replies());
        let mut agent =
            Chat::new(builder.config(|config| config.tool_errors = ToolErrorPolicy::EndRun));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(TOOL), "ExecutionFailed");
        check_failed(&memory.one(RUN), "ExecutionFailed");
        check_fine(&memory.one(CHAT));
        assert_eq!(count(&memory, "execute_tool", Some("ExecutionFailed")), 1);

        let memory = Memory::new();
        let builder = scout(&memory, replies());
        let mut agent =
            Chat::new(builder.config(|config| config.tool_errors = ToolErrorPolicy::ReturnToModel));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(TOOL), "tool_error");
        check_fine(&memory.one(RUN));
        assert_eq!(memory.named(CHAT).len(), 2);
        assert_eq!(count(&memory, "execute_tool", Some("tool_error")), 1);
    }
}

// If a tool does not exist, the model has written its name, so the name may contain anything. Each new name would also
// use more memory in the metrics.
#[tokio::test]
async fn invented_tool_fails_without_its_name() {
    for conventions in MODES {
        let memory = Memory::new();
        let replies = [Reply::tool_call("c0", "invented", json!({})), Reply::text("done")];
        let hook = hook(&memory).with_conventions(conventions);
        let builder = scout_of(ScriptedProvider::new(replies)).hook(hook);
        let mut agent =
            Chat::new(builder.config(|config| config.tool_errors = ToolErrorPolicy::EndRun));
        agent.run("go", &ToolContext::default()).await.unwrap_err();
        memory.check_closed();
        let spans = memory.spans();
        let tool = spans.iter().find(|span| span.name.contains("execute_tool")).unwrap();
        check_failed(tool, "NotFound");
        assert_eq!(attribute(tool, "gen_ai.tool.name").as_deref(), Some("_OTHER"));
        assert!(!tool.name.contains("invented"));
        let measured = memory.all_measured();
        assert!(measured.contains("_OTHER") && !measured.contains("invented"));
    }
}

#[tokio::test]
async fn failed_results_hints_and_panics_fail_only_the_call() {
    for deed in ["say no", "retry", "panic"] {
        for way in WAYS {
            let memory = Memory::new();
            let replies = [looks([json!({"do": deed})]), Reply::text("done")];
            let builder = scout(&memory, replies)
                .config(|config| config.tool_errors = ToolErrorPolicy::ReturnToModel);
            run(way, &mut Chat::new(builder), &ToolContext::default()).await;
            memory.check_closed();
            check_failed(&memory.one(TOOL), "tool_error");
            check_fine(&memory.one(RUN));
        }
    }
}

#[tokio::test]
async fn hook_that_ends_run_at_any_event_ends_every_span() {
    for conventions in MODES {
        for way in WAYS {
            for index in 0.. {
                let memory = Memory::new();
                let ends = EndsAt::new(index, "enough");
                let provider =
                    ScriptedProvider::new([looks([json!({}), json!({})]), Reply::text("done")]);
                let mut agent = Chat::new(
                    scout_of(provider).hook(hook(&memory).with_conventions(conventions)).hook(ends),
                );
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

#[tokio::test]
async fn exceeded_limit_is_recorded() {
    for way in WAYS {
        let memory = Memory::new();
        let mut agent = Chat::new(scout(&memory, [look(), look(), look()]).max_turns(1));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(RUN), "MaxTurns");
        check_fine(&memory.one(TOOL));

        let memory = Memory::new();
        let limits = UsageLimits { total_tokens_limit: Some(1), ..UsageLimits::default() };
        let mut agent = Chat::new(scout(&memory, [look(), look()]).usage_limits(limits));
        run(way, &mut agent, &ToolContext::default()).await;
        memory.check_closed();
        check_failed(&memory.one(RUN), "UsageLimitExceeded");
    }
}

/// A permission policy that requires approval for every call.
struct AlwaysRequiresApproval;

impl PermissionPolicy for AlwaysRequiresApproval {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("may it?".into())
    }
}

fn pausing(memory: &Memory) -> AgentBuilder {
    let builder = scout(memory, [look(), Reply::text("done")]);
    builder
        .permission_policy(AlwaysRequiresApproval)
        .config(|config| config.pause_for_approval = true)
}

#[tokio::test]
async fn pending_approval_is_no_failure_and_resumes_as_new_run() {
    let memory = Memory::new();
    let mut agent = Chat::new(pausing(&memory));
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    let error = agent.run("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {CHAT}\n"));
    check_fine(&memory.one(RUN));
    assert_eq!(count(&memory, "invoke_agent", None), 1);
    assert_eq!(count(&memory, "execute_tool", None), 0);

    memory.clear();
    agent.run(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {TOOL}\n    work ok\n    more ok\n  {CHAT}\n"));
    let run = memory.one(RUN);
    check_fine(&run);
    assert_eq!(attribute(&run, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    // The run after the approval replays nothing.
    assert_eq!(attribute(&run, "neuron.run.resumed"), None);
}

#[tokio::test]
async fn call_approved_by_another_process_is_recorded() {
    let memory = Memory::new();
    let ctx = ToolContext::default();
    let error = Chat::new(pausing(&memory)).run("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    memory.clear();
    let builder = scout(&memory, ["done"])
        .permission_policy(AlwaysRequiresApproval)
        .config(|config| config.pause_for_approval = true);
    let mut agent = Chat::new(builder);
    let decisions = ApprovalDecisions::approve_all(&pending);
    agent.conversation = (*pending).try_into().unwrap();
    agent.run(decisions, &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.tree(), format!("{RUN}\n  {TOOL}\n    work ok\n    more ok\n  {CHAT}\n"));
    let description = attribute(&memory.one(TOOL), "gen_ai.tool.description");
    assert_eq!(description.as_deref(), Some("does what look does"));
    let durations = memory.measured("gen_ai.client.operation.duration");
    assert!(durations.keys().any(|name| name.contains("gen_ai.tool.name=look")), "{durations:?}");
}

#[tokio::test]
async fn denied_call_has_no_span() {
    let memory = Memory::new();
    let mut agent = Chat::new(pausing(&memory));
    let ctx = ToolContext::default();
    let error = agent.run("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    let id = pending.calls[0].call.id.clone();
    agent.run(ApprovalDecisions::new().deny(&id, "no"), &ctx).await.unwrap();
    memory.check_closed();
    assert_eq!(memory.named(TOOL).len(), 0);
}

#[tokio::test]
async fn steps_share_one_run_that_ends_with_the_last_step() {
    for conventions in MODES {
        let memory = Memory::new();
        let provider = ScriptedProvider::new([look(), Reply::text("done")]);
        let mut agent =
            Chat::new(scout_of(provider).hook(hook(&memory).with_conventions(conventions)));
        let ctx = ToolContext::default();
        let mut steps = agent.run("go", &ctx).steps();
        steps.next().await.unwrap().unwrap();
        // Between two steps, the run's span must not be the current span.
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
async fn dropped_steps_end_the_run_at_drop() {
    let memory = Memory::new();
    let mut agent = Chat::new(scout(&memory, [look(), Reply::text("done")]));
    let ctx = ToolContext::default();
    let mut steps = agent.run("go", &ctx).steps();
    steps.next().await.unwrap().unwrap();
    nothing_happens();
    drop(steps);
    memory.check_closed();
    let run = memory.one(RUN);
    check_failed(&run, "Cancelled");
    assert!(duration(&run) >= LONG);
    check_fine(&memory.one(TOOL));
}

#[test]
fn step_dropped_after_any_poll_belongs_to_run_of_later_steps() {
    for conventions in MODES {
        for polls in 0.. {
            let memory = Memory::new();
            let replies = [looks([json!({"polls": 2}), json!({"polls": 1})]), Reply::text("done")];
            let provider = Waiting(ScriptedProvider::new(
                replies.into_iter().chain([Reply::text("done"), Reply::text("done")]),
            ));
            let mut agent =
                Chat::new(scout_of(provider).hook(hook(&memory).with_conventions(conventions)));
            let ctx = ToolContext::default();
            let mut steps = agent.run("go", &ctx).steps();
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
async fn stream_dropped_at_any_event_ends_its_spans() {
    for events in 0.. {
        let memory = Memory::new();
        let replies = [look().with_text("a text in pieces").chunk_chars(3), Reply::text("done")];
        let mut agent = Chat::new(scout(&memory, replies));
        let ctx = ToolContext::default();
        let mut stream = agent.run("go", &ctx).stream();
        let mut has_ended = false;
        for _ in 0..events {
            has_ended |= stream.next().await.is_none();
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
async fn repeated_model_call_has_span_for_each_attempt() {
    let memory = Memory::new();
    let error = ProviderError::ServiceUnavailable("529".into());
    let replies = [Reply::text("broken").fail_after(1, error), Reply::text("done")];
    let mut agent = Chat::new(scout(&memory, replies).config(|config| config.retries = 1));
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
async fn continued_run_has_a_span_of_its_own() {
    let memory = Memory::new();
    let error = ProviderError::ServiceUnavailable("529".into());
    let mut agent = Chat::new(scout(&memory, [Reply::error(error), Reply::text("done")]));
    let ctx = ToolContext::default();
    agent.run("go", &ctx).await.unwrap_err();
    agent.run(Start::Continue, &ctx).await.unwrap();
    memory.check_closed();
    let runs = memory.named(RUN);
    assert_eq!(runs.len(), 2);
    check_failed(&runs[0], "ServiceUnavailable");
    check_fine(&runs[1]);
    assert_ne!(runs[0].span_context.trace_id(), runs[1].span_context.trace_id());
}

#[tokio::test]
async fn run_records_total_usage_of_its_calls() {
    let memory = Memory::new();
    let usage = TokenUsage { input_tokens: 10, output_tokens: 3, ..TokenUsage::default() };
    let replies = [look().usage(usage.clone()), Reply::text("done").usage(usage)];
    let mut agent = Chat::new(scout(&memory, replies));
    agent.run("go", &ToolContext::default()).await.unwrap();
    let run = memory.one(RUN);
    assert_eq!(attribute(&run, "gen_ai.usage.input_tokens").as_deref(), Some("20"));
    assert_eq!(attribute(&run, "gen_ai.usage.output_tokens").as_deref(), Some("6"));
    let tokens = memory.measured("gen_ai.client.token.usage");
    let sums: Vec<u64> = tokens.values().copied().collect();
    assert_eq!(sums, [20, 6]);
}

#[test]
fn run_works_with_hook_without_metrics_and_subscriber() {
    // This thread has no `tracing` subscriber.
    let provider = ScriptedProvider::new([look(), Reply::text("done")]);
    let mut agent = Chat::new(scout_of(provider).hook(OtelHook::new().without_metrics()));
    let ctx = ToolContext::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let result = runtime.block_on(agent.run("go", &ctx).into_future()).unwrap();
    assert_eq!(result.response, "done");
}
