//! Runs that wait for an approval. While a run waits, its state is stored, messages are added, a limit is reached, or
//! the run is abandoned.

use std::pin::pin;
use std::sync::Arc;

use neuron_loop::{Budget, LoopError, OnLimit};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ApprovalDecisions, ContentBlock, HookAction, HookError, HookEvent, HookScope, Message,
    ObservabilityHook, PendingApproval, ProviderError, Role, ToolContext, UsageLimits,
};
use serde_json::{Value, json};

use crate::approval::{ByArguments, SubAgent};
use crate::support::*;
use crate::waiting::*;

type Agent = Chat<'static>;

fn pausing<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> (Agent, Log, ScriptedProvider) {
    let setup = setup(replies);
    let builder = setup.builder.permission_policy(ByArguments).pause_for_approval(true);
    (builder.build(), setup.log, setup.provider)
}

#[track_caller]
fn paused<T: std::fmt::Debug>(outcome: Result<T, LoopError>) -> PendingApproval {
    match outcome {
        Err(LoopError::ApprovalRequired(pending)) => *pending,
        other => panic!("{other:?} instead of a pause"),
    }
}

fn stored(pending: &PendingApproval) -> PendingApproval {
    serde_json::from_str(&serde_json::to_string(pending).unwrap()).unwrap()
}

/// Regression test. A message that is added while tool calls wait for an approval must follow their results. Before the
/// fix, the message and the waiting calls were lost.
#[tokio::test]
async fn messages_added_while_calls_wait_follow_their_results() {
    let ask = |text: &str| json!({"ask": "?", "text": text});
    let (mut agent, log, _) = pausing([calls([ask("a"), ask("b")]), Reply::text("done")]);
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    let Some(Err(LoopError::ApprovalRequired(_))) = steps.next().await else { panic!("no pause") };
    steps.inject_message(Message::user("after the pause"));
    drop(steps);
    // One call is decided. The run pauses again and is stored.
    let decisions = ApprovalDecisions::new().approve("c0").partial();
    let pending = paused(agent.resume(decisions, &ctx).await);
    check_valid(&pending.messages);
    agent.restore(stored(&pending)).unwrap();

    let mut steps = agent.resume_step(ApprovalDecisions::approve_all(&pending), &ctx);
    steps.inject_message(Message::system("before the first turn"));
    let Some(Ok(Step::Tools { calls, results })) = steps.next().await else { panic!("no tools") };
    assert_eq!((calls.len(), results.len()), (2, 2));
    assert_eq!(results[0].content[0].to_string(), "a");
    let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("no end") };
    drop(steps);
    assert_eq!(result.response, "done");
    assert_eq!(last_results(agent.messages()), ["c0: a", "c1: b"]);
    assert_eq!(log.count("start"), 2);
    let texts: Vec<_> = agent.messages()[3..].iter().map(Message::text).collect();
    assert_eq!(texts, ["after the pause", "before the first turn", "done"]);
    check_valid(agent.messages());
}

/// Another program may add content blocks to a stored message with tool results. The run keeps these blocks when it
/// resumes.
#[tokio::test]
async fn foreign_blocks_beside_results_are_kept() {
    let (mut agent, ..) = pausing([calls([json!({"ask": "?", "text": "a"})]), Reply::text("done")]);
    let ctx = ToolContext::default();
    let mut pending = paused(agent.run_text("go", &ctx).await);
    pending.messages[2].content.push(ContentBlock::Text("and hurry".into()));
    agent.restore(stored(&pending)).unwrap();
    agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["c0: a", "and hurry"]);
}

fn delegating<R: Into<Reply>>(
    replies: impl IntoIterator<Item = R>,
    inner: impl IntoIterator<Item = Reply>,
) -> (Agent, Log) {
    let (mut agent, log, _) = pausing(replies);
    let provider = ScriptedProvider::new(inner);
    agent.tools_mut().register_dyn(Arc::new(SubAgent { provider, log: log.clone() }));
    (agent, log)
}

fn delegate(input: Value) -> Reply {
    Reply::tool_calls([("out", "delegate", input)])
}

/// Regression test. A tool call whose nested agent waits for an approval must use budget only once. Before the fix, it
/// used budget again when it resumed.
#[tokio::test]
async fn call_with_a_waiting_nested_agent_is_charged_once() {
    let inner = [calls([json!({"ask": "?", "text": "x"})]), Reply::text("inner done")];
    let (mut agent, _) = delegating([delegate(json!({})), Reply::text("done")], inner);
    // One call for the outer agent, and one for the inner agent.
    let budget = Budget::new(UsageLimits::default().with_tool_calls_limit(2));
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(budget.clone());
    let pending = paused(agent.run_text("go", &ctx).await);
    assert_eq!(budget.tool_calls(), 1);
    let result = agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    assert_eq!((result.response.as_str(), budget.tool_calls()), ("done", 2));
}

#[tokio::test]
async fn denied_or_supplied_calls_need_no_budget() {
    let ask = || json!({"ask": "?"});
    let (mut agent, log, _) = pausing([calls([ask(), ask(), ask()]), Reply::text("done")]);
    let budget = Budget::new(UsageLimits::default().with_tool_calls_limit(3));
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(budget.clone());
    paused(agent.run_text("go", &ctx).await);
    // Other runs have used up the budget.
    let used = Budget::new(UsageLimits::default().with_tool_calls_limit(1));
    ctx.extensions.insert(used.clone());
    let decisions = ApprovalDecisions::new().approve("c0").partial();
    let pending = paused(agent.resume(decisions, &ctx).await);
    assert_eq!((pending.calls.len(), used.tool_calls()), (2, 1));
    let decisions = ApprovalDecisions::new().deny("c1", "no").supply("c2", Default::default());
    assert_eq!(agent.resume(decisions, &ctx).await.unwrap().response, "done");
    assert_eq!(log.count("start"), 1);
}

/// Regression test. Approved calls that exceed the budget must stay pending. Before the fix, each got the result that
/// it did not run, and its approval was lost.
#[tokio::test]
async fn approved_calls_beyond_the_budget_stay_pending() {
    let (mut agent, log, _) =
        pausing([calls([json!({"ask": "?", "text": "a"})]), Reply::text("done")]);
    let mut ctx = ToolContext::default();
    let pending = paused(agent.run_text("go", &ctx).await);
    let decisions = ApprovalDecisions::approve_all(&pending);
    ctx.extensions.insert(Budget::new(UsageLimits::default().with_tool_calls_limit(0)));
    let error = agent.resume(decisions.clone(), &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::UsageLimitExceeded(_)), "{error}");
    assert_eq!((agent.pending_calls().len(), log.count("start")), (1, 0));
    assert_eq!(agent.messages(), pending.messages);
    agent.resume(decisions, &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["c0: a"]);
}

/// Regression test. A person approves a call with edited arguments, and then an agent inside the call waits for another
/// approval. Before the fix, the edited arguments were lost, and the stored state was rejected.
#[tokio::test]
async fn edited_arguments_apply_to_a_call_with_a_waiting_nested_agent() {
    for is_stored in [false, true] {
        let inner = [calls([json!({"ask": "inner?", "text": "x"})]), Reply::text("inner done")];
        let outer = [delegate(json!({"ask": "outer?", "task": "a"})), Reply::text("done")];
        let (mut agent, _) = delegating(outer, inner);
        let hook = Recorder::default();
        agent.add_hook(hook.clone());
        let ctx = ToolContext::default();
        paused(agent.run_text("go", &ctx).await);
        let decisions = ApprovalDecisions::new().approve_edited("out", json!({"task": "b"}));
        let pending = paused(agent.resume(decisions, &ctx).await);
        assert_eq!(pending.calls[0].call.input, json!({"task": "b"}));
        if is_stored {
            agent.restore(stored(&pending)).unwrap();
        }
        agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
        assert_eq!(hook.log.count(r#"PreTool delegate out {"task":"b"}"#), 2);
        let ContentBlock::ToolResult { content, .. } = &agent.messages()[2].content[0] else {
            panic!("no result")
        };
        let texts: Vec<_> = content.iter().map(ToString::to_string).collect();
        assert_eq!(texts, [r#"[approved with other arguments: {"task":"b"}]"#, "inner done"]);
    }
}

/// The agent inside a tool call waits for an approval, and the outer run is abandoned. The call has begun, so its
/// result says that it was interrupted and may have had an effect.
#[tokio::test]
async fn abandoned_call_with_a_nested_agent_is_reported_as_interrupted() {
    let inner = || [calls([json!({"ask": "inner?"}), json!({"text": "deed"})])];
    let ctx = ToolContext::default();
    let (mut agent, log) = delegating([delegate(json!({})), Reply::text("never mind")], inner());
    paused(agent.run_text("go", &ctx).await);
    assert_eq!(log.count("end"), 1, "the agent inside did something");
    agent.run_text("something else", &ctx).await.unwrap();
    let result = last_results(agent.messages()).remove(0);
    assert!(result.contains("interrupted") && !result.contains("not executed"), "{result}");

    // Another call of the same response fails.
    let both = [("out", "delegate", json!({})), ("c1", "act", json!({"fail": "boom"}))];
    let (mut agent, _) = delegating([Reply::tool_calls(both)], inner());
    agent.run_text("go", &ctx).await.unwrap_err();
    let result = last_results(agent.messages()).remove(0);
    assert!(result.contains("interrupted") && !result.contains("not executed"), "{result}");
}

/// Regression test. Huge counters in a stored state of a waiting run must not overflow. Before the fix, they did.
#[tokio::test]
async fn restored_state_with_huge_numbers_does_not_overflow() {
    let (mut agent, ..) =
        pausing([calls([json!({"ask": "?"})]), Reply::text("done"), Reply::text("done")]);
    let ctx = ToolContext::default();
    let mut pending = paused(agent.run_text("go", &ctx).await);
    (pending.run_number, pending.turn) = (usize::MAX, usize::MAX);
    (pending.turns, pending.requests, pending.tool_calls) = (usize::MAX, usize::MAX, usize::MAX);
    (pending.usage.input_tokens, pending.usage.output_tokens) = (usize::MAX, usize::MAX);
    agent.restore(stored(&pending)).unwrap();
    let pending = agent.conversation.pending().unwrap();
    agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    agent.run_text("again", &ctx).await.unwrap();
}

/// A hook that logs the model that each event names.
struct Models(Log);

impl ObservabilityHook for Models {
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        _event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.0.push(scope.model);
        Ok(HookAction::Continue)
    }
}

/// Regression test. The hooks of a restored run must receive the model name of this run. Before the fix, they received
/// the provider's default model until the first model call.
#[tokio::test]
async fn hooks_of_a_restored_run_see_its_model() {
    let (mut agent, ..) = pausing([calls([json!({"ask": "?"})])]);
    let ctx = ToolContext::default();
    let pending = paused(agent.run_text("go", &ctx).await);
    let (mut agent, ..) = pausing([Reply::text("done")]);
    let log = Log::default();
    agent.add_hook(Models(log.clone()));
    agent.config_mut().request.model = "large".into();
    agent.restore(stored(&pending)).unwrap();
    agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    assert!(log.lines().iter().all(|model| model == "large"), "{:?}", log.lines());
}

#[tokio::test]
async fn limit_at_decided_calls_is_followed_by_a_last_call() {
    for has_budget in [false, true] {
        let (mut agent, log, provider) =
            pausing([calls([json!({"ask": "?", "text": "a"})]), Reply::text("as far as I know")]);
        agent.config_mut().on_limit = OnLimit::Finalize;
        let mut ctx = ToolContext::default();
        let pending = paused(agent.run_text("go", &ctx).await);
        let none = UsageLimits::default().with_tool_calls_limit(0);
        match has_budget {
            true => ctx.extensions.insert(Budget::new(none)),
            false => agent.config_mut().usage_limits = Some(none),
        }
        let decisions = ApprovalDecisions::approve_all(&pending);
        let result = agent.resume(decisions, &ctx).await.unwrap();
        assert_eq!(result.response, "as far as I know");
        assert!(result.limit_reached.is_some() && agent.pending_calls().is_empty());
        let result = last_results(agent.messages()).remove(0);
        assert!(result.starts_with("c0: ![not executed: usage limit exceeded"), "{result}");
        assert_eq!((log.count("start"), provider.requests().len()), (0, 2));
        check_valid(agent.messages());
    }
}

/// Regression test. A run must be able to continue a response that the provider paused. Before the fix, the run ended
/// with the text before the pause.
#[tokio::test]
async fn run_continues_a_turn_that_the_provider_paused() {
    use neuron_types::StopReason;
    let pause = || Reply::text("so far ").stop_reason(StopReason::PauseTurn);
    let failure = Reply::error(ProviderError::Authentication("no key".into()));
    let (mut agent, _, provider) = pausing([pause(), failure, Reply::text("and so on")]);
    agent.config_mut().max_turns = Some(1);
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::MaxTurns(1)));
    assert_eq!(agent.messages().last().unwrap().role, Role::Assistant);
    // A run that failed to continue it can be repeated.
    agent.continue_run(&ctx).await.unwrap_err();
    let result = agent.continue_run(&ctx).await.unwrap();
    assert_eq!(result.response, "so far and so on");
    assert_eq!(provider.requests()[2].messages.len(), 2);
    // The turn has ended, so there is nothing to continue.
    agent.continue_run(&ctx).await.unwrap_err();
}

/// Interrupts a resumed run at every point where it waits. Afterwards each call is pending or has a result that says
/// what happened. No call runs twice, even if another agent continues the run.
#[test]
fn interrupted_resumed_run_leaves_a_valid_history() {
    let script = || {
        vec![
            Reply::tool_calls([
                ("out", "delegate", json!({})),
                ("c1", "act", json!({"ask": "?", "text": "b"})),
                ("c2", "act", json!({"text": "c"})),
                ("c3", "act", json!({"ask": "?", "text": "d"})),
            ]),
            Reply::text("done"),
            Reply::text("later"),
        ]
    };
    for (parallel, cancels, partly) in (0..8).map(|case| (case & 1 > 0, case & 2 > 0, case & 4 > 0))
    {
        for polls in 0.. {
            let at = format!("parallel: {parallel}, cancels: {cancels}, {partly}, {polls} polls");
            let (events, log) = (Recorder::default(), Log::default());
            let mut agent = Chat::builder(Strict::new(script()), SlowWindow::new())
                .tools(registry(&log))
                .permission_policy(ByArguments)
                .pause_for_approval(true)
                .parallel_tool_execution(parallel)
                .hook(SlowRecorder(events.clone()))
                .build();
            let inner = [
                calls([json!({"ask": "inner?", "text": "x"}), json!({"text": "y"})]),
                Reply::text("inner done"),
            ];
            let provider = ScriptedProvider::new(inner);
            agent.tools_mut().register_dyn(Arc::new(SubAgent { provider, log: log.clone() }));
            let ctx = ToolContext::default();
            let first = poll_times(pin!(agent.run_text("go", &ctx)), TO_THE_END);
            let pending = paused(first.expect("it pauses"));
            let decisions = match partly {
                true => ApprovalDecisions::new().approve("c1").partial(),
                false => ApprovalDecisions::approve_all(&pending),
            };
            let ended = {
                let mut run = pin!(agent.resume(decisions, &ctx));
                let ended = poll_times(run.as_mut(), polls).is_some();
                if !ended && cancels {
                    ctx.cancellation_token.cancel();
                    assert!(poll_times(run, 500).is_some(), "{at}: it ends soon");
                }
                ended
            };
            check_valid(agent.messages());
            if ended || cancels {
                check_pairs(&events.log.lines());
            }
            // If calls are still pending, they are decided, possibly in another process. Otherwise the next message
            // follows.
            let again = ToolContext::default();
            let ids: Vec<_> = agent.pending_calls().iter().map(|of| of.call.id.clone()).collect();
            if ids.is_empty() {
                let next = poll_times(pin!(agent.run_text("and then", &again)), TO_THE_END);
                next.expect("it ends").unwrap();
            } else {
                let is_waiting = |id: &str| ids.iter().any(|waiting| waiting == id);
                // Calls that have begun are not pending any more.
                let has_begun = |id: &str| {
                    let is_inner = usize::from(id == "c1");
                    log.count(&format!("start {id}")) > is_inner
                };
                for id in ["c1", "c3"] {
                    assert_eq!(is_waiting(id), !has_begun(id), "{at}: {ids:?}");
                }
                let mut all = ApprovalDecisions::new();
                for waiting in &pending.calls {
                    let id = &waiting.call.id;
                    all = match &waiting.nested {
                        _ if !is_waiting(id) => all,
                        Some(nested) => all.nested(id, ApprovalDecisions::approve_all(nested)),
                        None => all.approve(id),
                    };
                }
                let next = poll_times(pin!(agent.resume(all, &again)), TO_THE_END);
                next.expect("it ends").unwrap();
                let results: Vec<_> = last_results(agent.messages());
                let whole = ["out: inner done", "c1: b", "c2: c", "c3: d"];
                for ((result, whole), id) in
                    results.iter().zip(whole).zip(["out", "c1", "c2", "c3"])
                {
                    let was_left = !is_waiting(id) && result.contains("[interrupted: ");
                    assert!(was_left || result == whole, "{at}: {results:?}");
                }
            }
            check_valid(agent.messages());
            for call in ["start c1", "start c2", "start c3"] {
                // The inner agent also has a call with the id `c1`.
                let most = if call == "start c1" { 2 } else { 1 };
                assert!(log.count(call) <= most, "{at}: {:?}", log.lines());
            }
            assert!(log.count("start c0") <= 1, "{at}: {:?}", log.lines());
            if ended {
                assert!(polls > 10, "there was something to leave");
                break;
            }
        }
    }
}
