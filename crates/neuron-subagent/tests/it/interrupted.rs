//! Tests of runs that call sub-agents and are cancelled or dropped at any point. The history must stay valid, all
//! tokens must count once, and a new run must be able to continue the conversation.

use std::pin::pin;

use neuron_loop::{Budget, LoopError};
use neuron_types::{ApprovalDecisions, ToolContext, UsageLimits, transcript};
use serde_json::json;

use crate::support::*;

fn scripts() -> Scripts {
    let worker = || vec![calls([("x", "act", json!({}))]), text("done")];
    Scripts::new([
        ("main", vec![asks(&["a", "b"]), text("done")]),
        ("a", worker()),
        ("b", vec![asks(&["c"]), text("done")]),
        ("c", worker()),
    ])
}

fn built(scripts: &Scripts, log: &Log, parallel: bool, budget: &Budget) -> Chat {
    let mut c = with_tools("c", &["act"]);
    c.max_depth = 2;
    let agents = [("a", with_tools("a", &["act"])), ("b", with_tools("b", &["c"])), ("c", c)];
    let builder = pausing(parent(scripts, log, agents)).budget(budget.clone());
    Chat::new(builder.config(|config| config.parallel_tool_execution = parallel))
}

/// Checks that the token counts of the conversation, the context and the budget include each response once. Every
/// scripted response has 10 input tokens and 1 output token. `at` names the case in panic messages.
#[track_caller]
fn check(agent: &Chat, ctx: &ToolContext, budget: &Budget, at: &str) {
    assert_eq!(transcript::validate(agent.messages()), Ok(()), "{at}");
    let sum = agent.conversation.usage();
    assert_eq!(sum.input_tokens, 10 * sum.output_tokens, "{at}");
    assert_eq!(agent.conversation.total_usage(), sum, "{at}");
    assert_eq!(&ctx.usage.total(), sum, "{at}");
    assert_eq!(budget.reserved_tokens(), 0, "{at}");
    // A call that was still running counts with its estimate.
    assert!(budget.usage().total_tokens() >= sum.total_tokens(), "{at}");
}

#[test]
fn interrupted_at_any_point_counts_everything_once() {
    for parallel in [false, true] {
        for cancels in [false, true] {
            let mut most = 0;
            for polls in 0.. {
                let at = format!("parallel: {parallel}, cancels: {cancels}, after {polls} polls");
                let (scripts, log) = (scripts(), Log::default());
                let budget = Budget::new(UsageLimits::default());
                let mut agent = built(&scripts, &log, parallel, &budget);
                let ctx = ToolContext::default();
                let ended = {
                    let mut whole = pin!(agent.run("start", &ctx).into_future());
                    let mut ended = poll_times(whole.as_mut(), polls);
                    if ended.is_none() && cancels {
                        ctx.cancellation_token.cancel();
                        ended = poll_times(whole.as_mut(), 50);
                        // Finished work counts, even if a cancellation comes immediately after it.
                        let is_cancelled = matches!(ended, Some(Err(LoopError::Cancelled)));
                        assert!(is_cancelled || matches!(ended, Some(Ok(_))), "{at}: {ended:?}");
                        ended = ended.filter(Result::is_ok);
                    }
                    ended
                };
                check(&agent, &ctx, &budget, &at);
                assert!(
                    agent.conversation.usage().output_tokens >= most,
                    "{at}: more polls, more answers"
                );
                most = agent.conversation.usage().output_tokens;
                if let Some(ended) = ended {
                    assert_eq!(ended.unwrap().usage, usage(80, 8), "{at}");
                    assert!(polls > 5, "there was something to interrupt");
                    break;
                }
                // The run continues, and unfinished agents start again.
                for (name, script) in [("main", "done"), ("a", "done"), ("b", "done")] {
                    scripts.of(name).push(text(script));
                }
                let again = ToolContext::default();
                let next = {
                    let mut next = pin!(agent.run("again", &again).into_future());
                    poll_times(next.as_mut(), 1_000).expect("it ends")
                };
                assert!(next.is_ok(), "{at}: {next:?}");
                assert_eq!(transcript::validate(agent.messages()), Ok(()), "{at}");
            }
        }
    }
}

/// Checks that no tool call begins twice if a run is dropped after it was resumed with approval decisions.
#[test]
fn interrupted_after_an_approval_runs_no_call_twice() {
    for parallel in [false, true] {
        for polls in 0.. {
            let at = format!("parallel: {parallel}, after {polls} polls");
            let (scripts, log) = (scripts(), Log::default());
            let mut c = with_tools("c", &["act"]);
            c.max_depth = 2;
            let agents =
                [("a", with_tools("a", &["act"])), ("b", with_tools("b", &["c"])), ("c", c)];
            let builder =
                pausing(parent(&scripts, &log, agents)).permission_policy(AsksAbout(&["act"]));
            let mut agent =
                Chat::new(builder.config(|config| config.parallel_tool_execution = parallel));
            let ctx = ToolContext::default();
            let waiting = {
                let mut whole = pin!(agent.run("start", &ctx).into_future());
                match poll_times(whole.as_mut(), 1_000) {
                    Some(Err(LoopError::ApprovalRequired(waiting))) => waiting,
                    other => panic!("{other:?}"),
                }
            };
            assert!(log.lines().is_empty(), "{at}");
            let ended = {
                let decisions = ApprovalDecisions::approve_all(&waiting);
                let mut whole = pin!(agent.run(decisions, &ctx).into_future());
                poll_times(whole.as_mut(), polls)
            };
            assert_eq!(transcript::validate(agent.messages()), Ok(()), "{at}");
            assert_eq!(agent.conversation.total_usage(), agent.conversation.usage(), "{at}");
            assert_eq!(&ctx.usage.total(), agent.conversation.usage(), "{at}");
            let mut keys = log.lines();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{at}: no call began twice");
            if let Some(ended) = ended {
                assert_eq!(ended.unwrap().usage, usage(80, 8), "{at}");
                assert_eq!(count, 2);
                break;
            }
        }
    }
}
