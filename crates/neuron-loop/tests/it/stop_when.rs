//! Runs that end because a `stop_when` condition is met.

use neuron_testing::Reply;
use neuron_types::{Message, ToolContext};
use serde_json::json;

use crate::support::*;

fn replies() -> Vec<Reply> {
    vec![
        calls([json!({}), json!({"text": "b"})]).with_text("Let me see."),
        calls([json!({})]).with_text("Once more."),
        Reply::text("done"),
    ]
}

#[tokio::test]
async fn any_condition_ends_the_run_and_none_is_checked_without_tools() {
    let asked = Log::default();
    for way in WAYS {
        for met in [0, 1, 2] {
            let setup = setup(replies());
            let log = asked.clone();
            let mut agent = setup
                .builder
                .stop_when(move |run| {
                    log.push(format!("{} {}", run.turns, run.called("act")));
                    met == 1
                })
                .stop_when(move |run| met == 2 && run.usage.input_tokens < 1_000_000)
                .build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.turns, if met == 0 { 3 } else { 1 });
        }
    }
    // The condition is checked after each response with tools, and never after the response without tools.
    assert_eq!(asked.lines().len(), WAYS.len() * 4);
    assert_eq!(asked.count("3 "), 0);
    assert_eq!(asked.count("true"), asked.lines().len());
}

#[tokio::test]
async fn step_reports_the_tools_and_the_next_one_the_end() {
    let setup = setup(replies());
    let mut agent = setup.builder.stop_when(|run| run.called("act")).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    let Some(Ok(Step::Tools { results, .. })) = steps.next().await else { panic!("tools first") };
    assert_eq!(results.len(), 2);
    // The finished step counts, even if the run is cancelled now.
    ctx.cancellation_token.cancel();
    let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("then the end") };
    assert_eq!(result.response, "Let me see.");
    assert!(steps.next().await.is_none());
}

#[tokio::test]
async fn failed_or_cancelled_batch_checks_no_condition() {
    for way in WAYS {
        let failing = setup([calls([json!({"fail": "no"})]), Reply::text("done")]);
        let mut agent = failing.builder.stop_when(|_| true).build();
        let ctx = ToolContext::default();
        run(way, &mut agent, &ctx).await.unwrap_err();
        assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "done");
        let setup = setup([calls([json!({"hang": true})]), Reply::text("done")]);
        let mut agent = setup.builder.stop_when(|_| true).build();
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        let (ended, ()) = tokio::join!(run(way, &mut agent, &ctx), async { token.cancel() });
        assert_eq!(ended.unwrap_err(), "cancelled");
        check_valid(agent.messages());
        let ctx = ToolContext::default();
        assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "done", "{way:?}");
    }
}

/// Regression test. A message is added to the conversation after the last step. Before the fix, the response in the
/// result of the run was empty then.
#[tokio::test]
async fn message_added_after_the_last_step_keeps_the_response() {
    let setup = setup([calls([json!({})]).with_text("I act")]);
    let mut agent = setup.builder.stop_when(|run| run.called("act")).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    let Some(Ok(Step::Tools { .. })) = steps.next().await else { panic!("no tools") };
    steps.inject_message(Message::user("well done"));
    let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("no end") };
    assert_eq!(result.response, "I act");
    assert_eq!(result.messages.last().unwrap().text(), "well done");
}
