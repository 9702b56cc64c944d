//! Runs with [`CancelMode::AfterTurn`], which finish their turn when they are cancelled.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{CancelMode, OnLimit};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{Message, StopReason, StreamEvent, ToolContext, UsageLimits};
use serde_json::json;

use crate::support::*;
use crate::waiting::*;

const SECOND: Duration = Duration::from_secs(1);

/// Runs `work` to its end, and cancels `ctx` after one second.
async fn cancelled_after_a_second<T>(ctx: &ToolContext, work: impl Future<Output = T>) -> T {
    let token = ctx.cancellation_token.clone();
    let cancel = async {
        tokio::time::sleep(SECOND).await;
        token.cancel();
    };
    tokio::join!(work, cancel).0
}

#[tokio::test(start_paused = true)]
async fn cancelled_turn_finishes_its_response_and_tools() {
    // Cancelled during the model call, within a stream, and within a batch of tools.
    let replies: [fn() -> Reply; 3] = [
        || calls([json!({"text": "a"}), json!({"text": "b"})]).delay(SECOND * 2),
        || {
            calls([json!({"text": "a"}), json!({"text": "b"})])
                .with_text("slowly")
                .event_delay(SECOND / 2)
        },
        || calls([json!({"text": "a", "delay": 3000}), json!({"text": "b", "delay": 3000})]),
    ];
    for (index, reply) in replies.into_iter().enumerate() {
        for way in WAYS {
            if index == 1 && way != Way::Stream {
                continue;
            }
            for parallel in [false, true] {
                let setup = setup([reply(), Reply::text("went on")]);
                let hook = Recorder::default();
                let mut agent = setup
                    .builder
                    .cancel_mode(CancelMode::AfterTurn)
                    .parallel_tool_execution(parallel)
                    .hook(hook.clone())
                    .build();
                let ctx = ToolContext::default();
                let ended = cancelled_after_a_second(&ctx, run(way, &mut agent, &ctx)).await;
                assert_eq!(ended.unwrap_err(), "cancelled", "{way:?}");
                assert_eq!(last_results(agent.messages()), ["c0: a", "c1: b"]);
                assert_eq!((setup.provider.calls(), setup.log.count("dropped")), (1, 0));
                assert_eq!(hook.log.count("Turn"), 1, "no other turn is announced");
                check_pairs(&hook.log.lines());
                check_valid(agent.messages());
                let ctx = ToolContext::default();
                assert_eq!(run(way, &mut agent, &ctx).await.unwrap().response, "went on");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_cancelled_by_a_drop_and_not_by_the_cancellation() {
    for way in WAYS {
        // This tool ends when its token is cancelled.
        let setup = setup([calls([json!({"cancelled": true})])]);
        let mut agent = setup.builder.cancel_mode(CancelMode::AfterTurn).build();
        let ctx = ToolContext::default();
        let whole = cancelled_after_a_second(&ctx, run(way, &mut agent, &ctx));
        assert!(tokio::time::timeout(SECOND * 5, whole).await.is_err(), "it goes on");
        assert_eq!((setup.log.count("told"), setup.log.count("dropped")), (0, 1));
        check_valid(agent.messages());
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let setup = setup([calls([json!({})])]);
    let mut tools = registry(&setup.log);
    tools.add_middleware(neuron_tool::tool_middleware_fn(move |_, ctx, _| {
        let sender = sender.lock().unwrap().take();
        Box::pin(async move {
            sender.unwrap().send(ctx.cancellation_token.clone()).ok();
            std::future::pending().await
        })
    }));
    let mut agent = setup.builder.tools(tools).cancel_mode(CancelMode::AfterTurn).build();
    let ctx = ToolContext::default();
    tokio::time::timeout(SECOND, agent.run_text("go", &ctx)).await.unwrap_err();
    assert!(receiver.await.unwrap().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn response_without_tools_is_returned() {
    for way in WAYS {
        let setup = setup([Reply::text("whole").delay(SECOND * 2)]);
        let mut agent = setup.builder.cancel_mode(CancelMode::AfterTurn).build();
        let ctx = ToolContext::default();
        let result = cancelled_after_a_second(&ctx, run(way, &mut agent, &ctx)).await.unwrap();
        assert_eq!(result.response, "whole");
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_makes_no_call_after_a_pause_or_at_a_limit() {
    let limits = UsageLimits::default().with_tool_calls_limit(0);
    let paused = Reply::text("half").stop_reason(StopReason::PauseTurn);
    for (first, messages) in [(paused, 2), (calls([json!({})]), 3)] {
        for way in WAYS {
            let setup = setup([first.clone().delay(SECOND * 2), Reply::text("never")]);
            let mut agent = setup
                .builder
                .cancel_mode(CancelMode::AfterTurn)
                .usage_limits(limits.clone())
                .on_limit(OnLimit::Finalize)
                .build();
            let ctx = ToolContext::default();
            let ended = cancelled_after_a_second(&ctx, run(way, &mut agent, &ctx)).await;
            assert_eq!(ended.unwrap_err(), "cancelled");
            assert_eq!((setup.provider.calls(), agent.messages().len()), (1, messages));
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn stream_sends_results_before_it_ends() {
    let setup = setup([calls([json!({"text": "a"})]).with_text("Let me see."), Reply::text("no")]);
    let mut agent = setup.builder.cancel_mode(CancelMode::AfterTurn).build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let (mut shown, mut last) = (0, None);
    while let Some(event) = events.recv().await {
        match &event {
            StreamEvent::TextDelta(_) => ctx.cancellation_token.cancel(),
            StreamEvent::ToolResult { .. } => shown += 1,
            _ => {}
        }
        last = Some(event);
    }
    let Some(StreamEvent::Error(error)) = last else { panic!("{last:?}") };
    assert_eq!((error.kind(), shown), ("Cancelled", 1));
}

/// Cancels a run at every point where it waits. The run must finish each turn that has begun. Each part of the agent
/// returns `Poll::Pending` first, so that the run waits there.
#[test]
fn cancel_at_any_point_completes_every_begun_turn() {
    for way in WAYS {
        for parallel in [false, true] {
            for polls in 0.. {
                let (events, tool) = (Recorder::default(), Waiting::default());
                let mut tools = ToolRegistry::new();
                tools.register_dyn(Arc::new(tool.clone()));
                let script = replies(false);
                let mut agent = Chat::builder(Strict::new(script), SlowWindow::new())
                    .tools(tools)
                    .parallel_tool_execution(parallel)
                    .cancel_mode(CancelMode::AfterTurn)
                    .hook(SlowRecorder(events.clone()))
                    .build();
                let ctx = ToolContext::default();
                let (ended, outcome) = {
                    let mut run = pin!(run(way, &mut agent, &ctx));
                    let ended = poll_times(run.as_mut(), polls);
                    match ended {
                        Some(outcome) => (true, outcome),
                        None => {
                            ctx.cancellation_token.cancel();
                            (false, poll_times(run, TO_THE_END).expect("it ends"))
                        }
                    }
                };
                let at = format!("{way:?}, parallel: {parallel}, cancelled after {polls} polls");
                if let Err(error) = outcome {
                    assert_eq!(error, "cancelled", "{at}");
                }
                let text = format!("{:?}", agent.messages());
                assert!(!text.contains("not executed") && !text.contains("interrupted"), "{at}");
                let lines = events.log.lines();
                let count =
                    |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
                assert_eq!(count("PreLlm"), count("PostLlm"), "{at}");
                assert_eq!(count("PreTool"), count("PostTool"), "{at}");
                check_pairs(&lines);
                check_valid(agent.messages());
                if ended {
                    assert!(polls > 20, "there was something to cancel");
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nested_agent_finishes_with_the_turn() {
    let inner = ScriptedProvider::new([
        calls([json!({"text": "x", "delay": 3000})]),
        Reply::text("inner").delay(SECOND * 3),
    ]);
    let log = Log::default();
    let agent = Chat::builder(inner.clone(), window())
        .tools(registry(&log))
        .cancel_mode(CancelMode::AfterTurn)
        .build();
    let agent = Arc::new(tokio::sync::Mutex::new(agent));
    let setup = setup([calls([json!({})])]);
    let mut tools = registry(&setup.log);
    tools.add_middleware(neuron_tool::tool_middleware_fn(move |_, ctx, _| {
        let agent = agent.clone();
        Box::pin(async move {
            let result = agent.lock().await.run_text("go", ctx).await.unwrap();
            Ok(neuron_types::ToolOutput::text(result.response))
        })
    }));
    let mut outer = setup.builder.tools(tools).cancel_mode(CancelMode::AfterTurn).build();
    let ctx = ToolContext::default();
    let ended = cancelled_after_a_second(&ctx, outer.run_text("go", &ctx)).await;
    assert!(matches!(ended, Err(neuron_loop::LoopError::Cancelled)));
    assert_eq!(last_results(outer.messages()), ["c0: inner"]);
}
