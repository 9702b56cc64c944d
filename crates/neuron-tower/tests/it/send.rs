//! Tests that providers with layers have `Send` futures, even around a generic provider.

use std::future::IntoFuture as _;
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, Conversation};
use neuron_model::{BoxedProvider, Provider};
use neuron_testing::ScriptedProvider;
use neuron_tower::{
    CallLimit, CallLimitLayer, EmbeddingService, ModelCall, ModelResponseFuture, OwnRequest,
    OwnedRequestLayer, ProviderService, RetryTransient, ServiceProvider, SharedService,
    SharedServiceLayer,
};
use tower::limit::{ConcurrencyLimit, RateLimit};
use tower::retry::Retry;
use tower::timeout::Timeout;
use tower::{BoxError, ServiceBuilder};

use crate::support::ask;

/// The type of a provider with layers, written out.
type Typed<P> = ServiceProvider<
    ConcurrencyLimit<Retry<RetryTransient, SharedService<RateLimit<Timeout<ProviderService<P>>>>>>,
>;

fn typed<P: Provider + 'static>(provider: P) -> Typed<P> {
    let layers = ServiceBuilder::new()
        .concurrency_limit(4)
        .retry(RetryTransient::new())
        .layer(SharedServiceLayer)
        .rate_limit(100, Duration::from_secs(60))
        .timeout(Duration::from_secs(60));
    ServiceProvider::layered(layers, provider)
}

/// Wraps any provider with layers.
fn generic<P: Provider + 'static>(provider: P) -> impl Provider + 'static {
    typed(typed(provider))
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test(start_paused = true)]
async fn agent_with_generic_stack_runs_on_other_tasks() {
    let provider = generic(ScriptedProvider::new(["one", "two"]));
    let context = SlidingWindowStrategy::new(20, 100_000);
    let agent = Agent::builder(provider).context(context).build();
    let mut conversation = Conversation::new();
    let run = is_send(agent.run(&mut conversation, "hello").into_future());
    assert_eq!(run.await.unwrap().response, "one");
    let last = tokio::spawn(agent.run_owned(conversation, "again").into_future());
    assert_eq!(last.await.unwrap().1.unwrap().response, "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_from_many_threads_share_the_layers() {
    let provider = typed(ScriptedProvider::new((0..200).map(|n| n.to_string())));
    let owned = ServiceProvider::layered(
        ServiceBuilder::new()
            .layer(OwnedRequestLayer)
            .buffer::<ModelCall<'static>>(8)
            .layer(CallLimitLayer::new(3)),
        provider,
    );
    let provider = BoxedProvider::new(owned);
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let provider = provider.clone();
            tokio::spawn(async move { ask(&provider).await.unwrap().parse::<usize>().unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, (0..100).collect::<Vec<_>>());
}

#[test]
fn types_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Typed<ScriptedProvider>>();
    check::<ServiceProvider<OwnRequest<CallLimit<ProviderService<ScriptedProvider>>>>>();
    check::<EmbeddingService<()>>();
    check::<ModelCall<'static>>();
    check::<ModelResponseFuture>();
    check::<RetryTransient>();
    check::<BoxError>();
}
