//! Runs that end because a `stop_when` condition is met.

use neuron_testing::Reply;
use neuron_types::{Message, StopReason, ToolContext};
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
async fn met_condition_ends_the_run_after_the_tools_of_the_response() {
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup(replies());
            let hook = Recorder::default();
            let mut agent = setup
                .builder
                .parallel_tool_execution(parallel)
                .hook(hook.clone())
                .stop_when(|run| run.tool_calls >= 3)
                .build();
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!(result.stop_reason, StopReason::ToolUse);
            assert_eq!((result.response.as_str(), result.turns), ("Once more.", 2), "{way:?}");
            assert_eq!((setup.provider.calls(), setup.log.count("start")), (2, 3));
            assert_eq!(last_results(&result.messages), ["c0: ok"]);
            assert_eq!(result.messages, agent.messages());
            check_valid(agent.messages());
            check_pairs(&hook.log.lines());
            assert_eq!(hook.log.count("RunEnd ok 2"), 1);
            // The next run continues the conversation, and its counters start at zero.
            assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "done");
        }
    }
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

#[tokio::test]
async fn stop_reason_of_a_response_with_tools_is_in_the_result() {
    let reply = calls([json!({})]).stop_reason(StopReason::EndTurn);
    let provider = neuron_testing::ScriptedProvider::new([reply]);
    let mut agent = Chat::builder(provider, window())
        .tools(registry(&Log::default()))
        .stop_when(|_| true)
        .build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::EndTurn);
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
