//! Cancelled and dropped runs. They end immediately, leave nothing running, keep a valid history, and can be continued.

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::time::Duration;

use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, Message, Provider, ProviderError, StreamHandle,
    ToolContext,
};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::support::*;
use crate::waiting::{TO_THE_END, poll_times};

/// Drives `work`, and cancels the token of `ctx` after the time `after`. Returns the output of `work` and its total
/// duration.
async fn cancelled_after<T>(
    ctx: &ToolContext,
    after: Duration,
    work: impl Future<Output = T>,
) -> (T, Duration) {
    let token = ctx.cancellation_token.clone();
    let started = Instant::now();
    let cancel = async {
        sleep(after).await;
        token.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = work => (result, started.elapsed()),
        () = cancel => unreachable!("pending"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn cancel_ends_a_hanging_provider_or_stream_immediately() {
    let replies: [fn() -> Reply; 3] = [
        Reply::hang,
        || Reply::text("some text").hang_after(1),
        || calls([json!({"text": "never"})]).hang_after(2),
    ];
    for reply in replies {
        for way in WAYS {
            let setup = setup([reply(), Reply::text("recovered")]);
            let hook = Recorder::default();
            let mut agent = setup.builder.hook(hook.clone()).build();
            let ctx = ToolContext::default();
            let (result, took) = cancelled_after(&ctx, SECOND, run(way, &mut agent, &ctx)).await;
            assert_eq!((result.unwrap_err().as_str(), took), ("cancelled", SECOND));
            assert_eq!(setup.provider.open_streams(), 0, "the request is dropped");
            assert_eq!(agent.messages(), [Message::user("go")], "no half answer is kept");
            check_pairs(&hook.log.lines());
            assert_eq!(hook.log.count("LlmError cancelled"), 1);
            let ctx = ToolContext::default();
            assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_a_hanging_tool_and_keeps_finished_results() {
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup([
                calls([json!({"text": "done"}), json!({"hang": true}), json!({"delay": 5000})]),
                Reply::text("recovered"),
            ]);
            let hook = Recorder::default();
            let mut agent =
                setup.builder.parallel_tool_execution(parallel).hook(hook.clone()).build();
            let ctx = ToolContext::default();
            let (result, took) = cancelled_after(&ctx, SECOND, run(way, &mut agent, &ctx)).await;
            assert_eq!((result.unwrap_err().as_str(), took), ("cancelled", SECOND));
            let interrupted =
                "![interrupted: the run was cancelled; whether the call took effect is unknown]";
            let third =
                if parallel { interrupted } else { "![not executed: the run was cancelled]" };
            assert_eq!(
                last_results(agent.messages()),
                ["c0: done".to_owned(), format!("c1: {interrupted}"), format!("c2: {third}")]
            );
            assert_eq!(setup.log.count("dropped"), if parallel { 2 } else { 1 });
            check_pairs(&hook.log.lines());
            check_valid(agent.messages());

            // Another process with another provider accepts the stored history, and runs no finished tool again.
            let stored = serde_json::to_string(agent.messages()).unwrap();
            let provider = ScriptedProvider::new([Reply::text("resumed")]);
            let mut other = Chat::builder(provider.clone(), window())
                .messages(serde_json::from_str(&stored).unwrap())
                .build();
            let ctx = ToolContext::default();
            other.run_text("go on", &ctx).await.unwrap();
            assert_eq!(provider.requests()[0].messages[..3], *agent.messages());
            assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "recovered");
            assert_eq!(setup.log.count("start c0"), 1);
        }
    }
}

/// A hook that cancels the run at the first event whose log line starts with the given prefix.
struct CancelAt(&'static str, tokio_util::sync::CancellationToken, Recorder);

impl neuron_types::ObservabilityHook for CancelAt {
    async fn on_event(
        &self,
        _: neuron_types::HookEvent<'_>,
    ) -> Result<neuron_types::HookAction, neuron_types::HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: neuron_types::HookEvent<'_>,
        scope: &neuron_types::HookScope<'_>,
    ) -> Result<neuron_types::HookAction, neuron_types::HookError> {
        let action = self.2.on_event_in(event, scope).await;
        if self.2.log.lines().last().unwrap().starts_with(self.0) {
            self.1.cancel();
        }
        action
    }
}

#[tokio::test]
async fn nothing_begins_after_a_hook_cancelled_the_run() {
    let not = "![not executed: the run was cancelled]";
    for (event, calls_made, tools_run, results) in [
        ("RunStart", 0, 0, vec![]),
        ("PreLlm", 0, 0, vec![]),
        ("PostLlm", 1, 0, vec![format!("c0: {not}"), format!("c1: {not}")]),
        ("PostTool act c0", 1, 1, vec!["c0: ok".to_owned(), format!("c1: {not}")]),
    ] {
        for way in WAYS {
            let ctx = ToolContext::default();
            let setup = setup([calls([json!({}), json!({})]), Reply::text("done")]);
            let recorder = Recorder::default();
            let hook = CancelAt(event, ctx.cancellation_token.clone(), recorder.clone());
            let mut agent = setup.builder.hook(hook).build();
            assert_eq!(run(way, &mut agent, &ctx).await.unwrap_err(), "cancelled");
            assert_eq!(setup.provider.calls(), calls_made, "{event}");
            assert_eq!(setup.log.count("start"), tools_run, "{event}");
            check_pairs(&recorder.log.lines());
            check_valid(agent.messages());
            if !results.is_empty() {
                assert_eq!(last_results(agent.messages()), results);
            }
        }
    }
}

#[tokio::test]
async fn cancel_between_response_and_tools_runs_no_tool() {
    let ctx = ToolContext::default();
    let setup = setup([calls([json!({})])]);
    let mut agent = setup.builder.build();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let mut last = None;
    while let Some(event) = events.recv().await {
        if matches!(event, neuron_types::StreamEvent::MessageComplete(_)) {
            ctx.cancellation_token.cancel();
        }
        last = Some(event);
    }
    drop(events);
    let Some(neuron_types::StreamEvent::Error(error)) = last else { panic!("{last:?}") };
    assert_eq!(error.kind(), "Cancelled");
    assert_eq!(setup.log.lines(), Vec::<String>::new());
    assert_eq!(last_results(agent.messages()), ["c0: ![not executed: the run was cancelled]"]);
}

#[tokio::test(start_paused = true)]
async fn stream_that_is_always_ready_is_cancelled() {
    let setup = setup([Reply::text("x".repeat(10_000)).chunk_chars(1)]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let mut count = 0;
    while let Some(event) = events.recv().await {
        count += 1;
        if count == 100 {
            ctx.cancellation_token.cancel();
        }
        if let neuron_types::StreamEvent::Error(error) = event {
            assert_eq!(error.kind(), "Cancelled");
        }
    }
    assert!(count < 110, "{count}");
}

#[tokio::test(start_paused = true)]
async fn dropped_run_keeps_finished_results_and_stops_everything() {
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup([
                calls([json!({"text": "done"}), json!({"hang": true}), json!({"hang": true})]),
                Reply::text("recovered"),
            ]);
            let mut agent = setup.builder.parallel_tool_execution(parallel).build();
            let ctx = ToolContext::default();
            let timeout = tokio::time::timeout(SECOND, run(way, &mut agent, &ctx)).await;
            assert!(timeout.is_err(), "it hangs");
            check_valid(agent.messages());
            let interrupted =
                "![interrupted: the run was interrupted; whether the call took effect is unknown]";
            let third =
                if parallel { interrupted } else { "![not executed: the run was interrupted]" };
            assert_eq!(
                last_results(agent.messages()),
                ["c0: done".to_owned(), format!("c1: {interrupted}"), format!("c2: {third}")]
            );
            assert_eq!(setup.log.count("dropped"), if parallel { 2 } else { 1 });
            assert!(!ctx.cancellation_token.is_cancelled(), "the caller's token is the caller's");
            assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "recovered");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn drop_cancels_the_token_of_a_running_tool() {
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
    let mut agent = setup.builder.tools(tools).build();
    let ctx = ToolContext::default();
    tokio::time::timeout(SECOND, agent.run_text("go", &ctx)).await.unwrap_err();
    assert!(receiver.await.unwrap().is_cancelled());
}

#[tokio::test]
async fn token_of_an_ended_call_is_not_cancelled() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let setup = setup([calls([json!({})]), Reply::text("done")]);
    let mut tools = registry(&setup.log);
    tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
        if let Some(sender) = sender.lock().unwrap().take() {
            sender.send(ctx.cancellation_token.clone()).ok();
        }
        next.run(call, ctx)
    }));
    let mut agent = setup.builder.tools(tools).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert!(!receiver.await.unwrap().is_cancelled(), "what a tool started may outlive its call");
}

#[tokio::test(start_paused = true)]
async fn step_after_a_dropped_step_continues_the_run() {
    let setup = setup([Reply::hang(), Reply::text("done")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    assert!(tokio::time::timeout(SECOND, steps.next()).await.is_err());
    assert_eq!(setup.provider.open_streams(), 0);
    let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("the next step") };
    assert_eq!(result.response, "done");
}

/// A provider that answers its only call after the test has sent a value through the channel.
struct Gated(ScriptedProvider, Mutex<Option<oneshot::Receiver<()>>>);

impl Gated {
    async fn wait(&self) {
        let gate = self.1.lock().unwrap().take();
        gate.expect("one call").await.unwrap();
    }
}

impl Provider for Gated {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.wait().await;
        self.0.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.wait().await;
        self.0.complete_stream(request).await
    }
}

/// Drives a run (`work`) until its [`Gated`] provider waits. Then lets the provider continue by `gate`, cancels the run
/// at the same time, and returns the output of the run.
fn let_go_and_cancel<T>(
    ctx: &ToolContext,
    gate: oneshot::Sender<()>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    assert!(poll_times(work.as_mut(), 5).is_none(), "it waits");
    gate.send(()).unwrap();
    ctx.cancellation_token.cancel();
    poll_times(work, TO_THE_END).expect("it ends")
}

#[test]
fn response_that_is_ready_at_cancellation_counts() {
    for way in [Way::Run, Way::Step] {
        let (gate, gated) = oneshot::channel();
        let script = ScriptedProvider::new([Reply::text("whole")]);
        let provider = Gated(script, Mutex::new(Some(gated)));
        let mut agent = Chat::builder(provider, window()).build();
        let ctx = ToolContext::default();
        let result = let_go_and_cancel(&ctx, gate, run(way, &mut agent, &ctx));
        assert_eq!(result.unwrap().response, "whole", "{way:?}");
    }
    // A stream has only begun at this point.
    let (gate, gated) = oneshot::channel();
    let script = ScriptedProvider::new([Reply::text("whole")]);
    let provider = Gated(script.clone(), Mutex::new(Some(gated)));
    let mut agent = Chat::builder(provider, window()).build();
    let ctx = ToolContext::default();
    let result = let_go_and_cancel(&ctx, gate, run(Way::Stream, &mut agent, &ctx));
    assert_eq!(result.unwrap_err(), "cancelled");
    assert_eq!((script.calls(), script.open_streams()), (1, 0));
}

#[test]
fn result_that_is_ready_at_cancellation_is_kept() {
    for way in WAYS {
        for parallel in [false, true] {
            let (gate, gated) = oneshot::channel::<()>();
            let gated = Mutex::new(Some(gated));
            let setup = setup([calls([json!({"text": "done"}), json!({"hang": true})])]);
            let mut tools = registry(&setup.log);
            tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
                let gate = gated.lock().unwrap().take();
                Box::pin(async move {
                    if let Some(gate) = gate {
                        gate.await.unwrap();
                    }
                    next.run(call, ctx).await
                })
            }));
            let mut agent = setup.builder.tools(tools).parallel_tool_execution(parallel).build();
            let ctx = ToolContext::default();
            let result = let_go_and_cancel(&ctx, gate, run(way, &mut agent, &ctx));
            assert_eq!(result.unwrap_err(), "cancelled");
            let results = last_results(agent.messages());
            assert_eq!(results[0], "c0: done", "{way:?}, parallel: {parallel}");
            check_valid(agent.messages());
        }
    }
}
