//! Tests of an agent whose provider has layers, with a paused clock.

use std::sync::{Arc, Mutex};

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_model::{Message, Provider, ProviderError, StreamEvent, transcript};
use neuron_testing::Reply;
use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider, SharedServiceLayer};
use neuron_types::{HookAction, HookError, HookEvent, LoopError, ObservabilityHook, ToolContext};
use tokio::time::Instant;
use tower::ServiceBuilder;

use crate::support::{CallRecorder, history, limited, millis, seconds, unavailable};

fn layered(inner: &CallRecorder) -> impl Provider + Clone + use<> {
    let layers = ServiceBuilder::new()
        .layer(CallLimitLayer::new(2))
        .concurrency_limit(2)
        .retry(RetryTransient::new().without_jitter())
        .layer(SharedServiceLayer)
        .rate_limit(100, seconds(60))
        .timeout(seconds(60));
    ServiceProvider::layered(layers, inner.clone())
}

fn agent<P: Provider>(provider: P) -> AgentLoop<P, SlidingWindowStrategy> {
    AgentLoop::builder(provider, SlidingWindowStrategy::new(20, 100_000)).build()
}

fn bad_day() -> [Reply; 3] {
    [Reply::error(unavailable()), Reply::error(limited(seconds(3))), Reply::text("well again")]
}

#[tokio::test(start_paused = true)]
async fn retried_errors_do_not_reach_run_and_run_stream() {
    let ctx = ToolContext::default();
    let inner = CallRecorder::new(bad_day());
    let mut ran = agent(layered(&inner));
    let start = Instant::now();
    let result = ran.run_text("hello", &ctx).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("well again", 1));
    assert_eq!(start.elapsed(), millis(500 + 3_000));

    let inner = CallRecorder::new(bad_day());
    let mut streamed = agent(layered(&inner));
    let mut events = streamed.run_stream(Message::user("hello"), &ctx).await;
    let mut text = String::new();
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::TextDelta(delta) => text.push_str(&delta),
            StreamEvent::RunComplete(complete) => assert_eq!(complete.usage, result.usage),
            StreamEvent::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
    drop(events);
    assert_eq!(text, "well again");
    assert_eq!(streamed.messages(), ran.messages());
}

/// A provider that records the address of the messages of each call.
#[derive(Clone, Default)]
struct Addresses(Arc<Mutex<Vec<usize>>>);

impl ObservabilityHook for Addresses {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if let HookEvent::PreLlmCall { request } = event {
            self.0.lock().unwrap().push(history(*request));
        }
        Ok(HookAction::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn request_of_loop_reaches_provider_without_copy() {
    let inner = CallRecorder::new(bad_day().into_iter().chain(bad_day()));
    let addresses = Addresses::default();
    let mut agent = agent(layered(&inner));
    agent.add_hook(addresses.clone());
    let ctx = ToolContext::default();
    agent.run_text("hello", &ctx).await.unwrap();
    let mut events = agent.run_stream(Message::user("again"), &ctx).await;
    while events.recv().await.is_some() {}
    let [first, second] = addresses.0.lock().unwrap()[..] else { panic!("two calls") };
    assert_eq!(inner.histories(), [first, first, first, second, second, second]);
}

#[tokio::test(start_paused = true)]
async fn error_after_all_retries_keeps_class_and_agent_can_run_again() {
    let inner = CallRecorder::new((0..3).map(|_| Reply::error(unavailable())));
    let mut agent = agent(layered(&inner));
    let ctx = ToolContext::default();
    let error = agent.run_text("hello", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Provider(ProviderError::ServiceUnavailable(_))), "{error}");
    inner.script().push("well again");
    assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "well again");
}

#[tokio::test(start_paused = true)]
async fn cancelled_agent_stops_during_retry_delay() {
    let inner = CallRecorder::new([
        Reply::error(limited(seconds(30))),
        Reply::error(limited(seconds(30))),
        Reply::text("well again"),
    ]);
    let mut agent = agent(layered(&inner));
    for streamed in [false, true] {
        let ctx = ToolContext::default();
        let start = Instant::now();
        let run = async {
            match streamed {
                false => agent.run_text("hello", &ctx).await.unwrap_err().to_string(),
                true => {
                    let mut events = agent.run_stream(Message::user("hello"), &ctx).await;
                    match events.recv().await {
                        Some(StreamEvent::Error(error)) => error.to_string(),
                        other => panic!("{other:?}"),
                    }
                }
            }
        };
        let cancel = async {
            tokio::time::sleep(seconds(10)).await;
            ctx.cancellation_token.cancel();
        };
        let (error, ()) = tokio::join!(run, cancel);
        assert_eq!(error, LoopError::Cancelled.to_string());
        assert_eq!(start.elapsed(), seconds(10));
        assert!(transcript::validate(agent.messages()).is_ok());
    }
    assert_eq!(inner.script().calls(), 2);
    let result = agent.run_text("and now?", &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "well again");
}

#[tokio::test(start_paused = true)]
async fn agents_with_cloned_provider_share_its_limits() {
    let inner = CallRecorder::new((0..6).map(|_| Reply::text("yes").delay(seconds(1))));
    let provider = layered(&inner);
    let start = Instant::now();
    let runs = (0..6).map(|_| {
        let mut agent = agent(provider.clone());
        tokio::spawn(async move { agent.run_text("hello", &ToolContext::default()).await })
    });
    for run in runs.collect::<Vec<_>>() {
        assert_eq!(run.await.unwrap().unwrap().response, "yes");
    }
    assert_eq!((inner.most_open(), start.elapsed()), (2, seconds(3)));
}
