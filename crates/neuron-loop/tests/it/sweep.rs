//! The run dropped and cancelled at every point at which it can be: with hooks, tools and a provider
//! that wait, a compaction, hints, a pause, and batches that fail.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::StreamExt;
use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContextError, ContextStrategy, HookAction, HookError,
    HookEvent, HookScope, Message, ObservabilityHook, Provider, ProviderError, StopReason,
    StreamHandle, StreamReceiver, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput,
    WasmBoxedFuture, transcript,
};
use serde_json::{Value, json};

use crate::support::*;

/// Pending so often.
struct Waits(u64);

impl Future for Waits {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A provider that waits, and rejects an invalid history.
struct Strict(ScriptedProvider);

impl Provider for Strict {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        transcript::validate(&request.messages).unwrap();
        Waits(2).await;
        self.0.complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        transcript::validate(&request.messages).unwrap();
        Waits(1).await;
        let events = self.0.complete_stream(request).await?.receiver;
        let slow = events.then(|event| async {
            Waits(1).await;
            event
        });
        Ok(StreamReceiver::new(slow).into())
    }
}

/// A tool that waits as told, and logs the keys under which it began.
struct Waiting(Log);

impl ToolDyn for Waiting {
    fn name(&self) -> &str {
        "act"
    }

    fn definition(&self) -> ToolDefinition {
        Act { name: "act", log: Log::default() }.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.0.push(&ctx.idempotency_key);
            Waits(input["waits"].as_u64().unwrap()).await;
            if input["retry"].is_boolean() {
                return Err(ToolError::ModelRetry("again".into()));
            }
            if input["fail"].is_boolean() {
                return Err(ToolError::InvalidInput("no".into()));
            }
            Ok(ToolOutput::text("fine"))
        })
    }
}

/// A window that waits.
struct SlowWindow(SlidingWindowStrategy);

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

/// A recorder that waits.
struct SlowRecorder(Recorder);

impl ObservabilityHook for SlowRecorder {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let action = self.0.on_event_in(event, scope).await;
        Waits(2).await;
        action
    }
}

struct Swept {
    agent: AgentLoop<Strict, SlowWindow>,
    keys: Log,
    events: Recorder,
}

fn swept(fails: bool, parallel: bool) -> Swept {
    let done = || Reply::text("done");
    let mut replies = if fails {
        vec![calls([json!({"waits": 3}), json!({"waits": 1, "fail": true}), json!({"waits": 2})])]
    } else {
        vec![
            calls([json!({"waits": 3}), json!({"waits": 1, "retry": true}), json!({"waits": 2})])
                .with_text("a text that comes in pieces"),
            Reply::tool_call("d0", "act", json!({"waits": 1})),
            Reply::text("part").stop_reason(StopReason::PauseTurn),
            calls([json!({"waits": 1}), json!({"waits": 5})]),
        ]
    };
    replies.extend((0..6).map(|_| done()));
    let (keys, events) = (Log::default(), Recorder::default());
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Waiting(keys.clone())));
    let strategy = SlowWindow(SlidingWindowStrategy::new(4, 1));
    let agent = AgentLoop::builder(Strict(ScriptedProvider::new(replies)), strategy)
        .tools(tools)
        .parallel_tool_execution(parallel)
        .hook(SlowRecorder(events.clone()))
        .build();
    Swept { agent, keys, events }
}

/// Polls so often, and drops.
fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// More polls than any run here takes.
const TO_THE_END: usize = 10_000;

#[track_caller]
fn check_after(swept: &mut Swept, way: Way, at: &str) {
    check_valid(swept.agent.messages());
    let keys = swept.keys.lines();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{at}: a call began twice: {keys:?}");
    let ctx = ToolContext::default();
    let next = poll_times(pin!(run(way, &mut swept.agent, &ctx)), TO_THE_END);
    match next.expect("the next run ends") {
        Ok(_) => {}
        // The script's failing batch, if it had not come yet.
        Err(error) => assert_eq!(error, "tool error: invalid input: no", "{at}"),
    }
    check_valid(swept.agent.messages());
}

fn each_case(mut check: impl FnMut(bool, bool, Way)) {
    for fails in [false, true] {
        for parallel in [false, true] {
            for way in WAYS {
                check(fails, parallel, way);
            }
        }
    }
}

#[test]
fn dropped_at_any_point_a_run_leaves_a_valid_history_and_the_next_one_works() {
    each_case(|fails, parallel, way| {
        for polls in 0.. {
            let mut swept = swept(fails, parallel);
            let ctx = ToolContext::default();
            let ended = poll_times(pin!(run(way, &mut swept.agent, &ctx)), polls).is_some();
            check_after(&mut swept, way, &format!("{way:?}, dropped after {polls} polls"));
            if ended {
                assert!(polls > 20, "there was something to drop");
                return;
            }
        }
    });
}

#[test]
fn cancelled_at_any_point_a_run_ends_with_every_event_paired() {
    each_case(|fails, parallel, way| {
        for polls in 0.. {
            let mut swept = swept(fails, parallel);
            let ctx = ToolContext::default();
            let at = format!("{way:?}, cancelled after {polls} polls");
            let ended = {
                let mut run = pin!(run(way, &mut swept.agent, &ctx));
                let ended = poll_times(run.as_mut(), polls).is_some();
                if !ended {
                    ctx.cancellation_token.cancel();
                    // Its outcome is an answer if that was complete.
                    let soon = poll_times(run.as_mut(), 500);
                    assert!(soon.is_some(), "{at}: it ends soon");
                }
                ended
            };
            check_pairs(&swept.events.log.lines());
            check_after(&mut swept, way, &at);
            if ended {
                return;
            }
        }
    });
}
