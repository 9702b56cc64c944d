//! Tests of limits with concurrent calls, with a paused clock.

use futures_util::future::join_all;
use neuron_model::{Provider, ProviderError, StreamEvent};
use neuron_testing::Reply;
use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider, SharedServiceLayer};
use tokio::time::Instant;
use tower::ServiceBuilder;

use crate::support::{
    CallRecorder, ask, ask_streamed, limited, poll_once, request, script, seconds, unavailable,
};

fn slow(count: usize) -> CallRecorder {
    CallRecorder::new((0..count).map(|_| Reply::text("yes").delay(seconds(1))))
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_bounds_concurrent_calls() {
    let inner = slow(7);
    let layers = ServiceBuilder::new().concurrency_limit(2).timeout(seconds(60));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    for answer in join_all((0..7).map(|_| ask(&provider))).await {
        assert_eq!(answer.unwrap(), "yes");
    }
    assert_eq!(inner.most_open(), 2);
    assert_eq!(inner.begun(start), [0, 0, 1, 1, 2, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn layer_order_decides_whether_permit_is_held_between_attempts() {
    let replies = || [Reply::error(limited(seconds(5))), Reply::text("yes"), Reply::text("yes")];

    let inner = CallRecorder::new(replies());
    let layers = ServiceBuilder::new().concurrency_limit(1).retry(RetryTransient::new());
    let keeps = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let (first, second) = tokio::join!(ask(&keeps), ask(&keeps));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(inner.begun(start), [0, 5, 5]);

    let inner = CallRecorder::new(replies());
    let layers = ServiceBuilder::new().retry(RetryTransient::new()).concurrency_limit(1);
    let frees = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let (first, second) = tokio::join!(ask(&frees), ask(&frees));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(inner.begun(start), [0, 0, 5]);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_is_shared_by_all_calls() {
    let inner = slow(5);
    let layers = ServiceBuilder::new().layer(SharedServiceLayer).rate_limit(2, seconds(10));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let copy = provider.clone();
    let start = Instant::now();
    let (four, one) = tokio::join!(join_all((0..4).map(|_| ask(&provider))), ask(&copy));
    assert!(four.iter().all(Result::is_ok) && one.is_ok());
    assert_eq!(inner.begun(start), [0, 0, 10, 10, 20]);
    assert_eq!(inner.most_open(), 2, "calls do not wait for each other's answers");
}

#[tokio::test(start_paused = true)]
async fn timeout_starts_with_the_call_and_not_in_the_queue() {
    let inner = script([Reply::text("first"), Reply::text("second"), Reply::hang()]);
    let layers = ServiceBuilder::new()
        .timeout(seconds(2))
        .layer(SharedServiceLayer)
        .rate_limit(1, seconds(10));
    let provider = ServiceProvider::layered(layers, inner);
    let start = Instant::now();
    assert_eq!(ask(&provider).await.unwrap(), "first");
    assert_eq!(ask(&provider).await.unwrap(), "second");
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, ProviderError::Timeout(after) if after == seconds(2)), "{error}");
    assert_eq!(start.elapsed(), seconds(22));
}

#[tokio::test(start_paused = true)]
async fn retries_count_against_the_rate_limit() {
    let inner = CallRecorder::new([Reply::error(unavailable()), Reply::text("yes")]);
    let layers = ServiceBuilder::new()
        .retry(RetryTransient::new())
        .layer(SharedServiceLayer)
        .rate_limit(1, seconds(30));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    assert_eq!(ask(&provider).await.unwrap(), "yes");
    assert_eq!(inner.begun(start), [0, 30]);
}

#[tokio::test(start_paused = true)]
async fn shared_service_is_fair_and_skips_dropped_calls() {
    let inner = CallRecorder::new((1..=4).map(|n| Reply::text(n.to_string())));
    let layers = ServiceBuilder::new().layer(SharedServiceLayer).rate_limit(1, seconds(10));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    assert_eq!(ask(&provider).await.unwrap(), "1");

    let mut calls: Vec<_> = (0..5).map(|_| Box::pin(ask(&provider))).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    // The first call in the list holds the permit and waits for the rate limit. Drop the fourth, which waits for the
    // permit.
    drop(calls.remove(3));
    drop(calls.remove(0));
    let answers: Vec<String> =
        join_all(calls).await.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers, ["2", "3", "4"]);
    assert_eq!(inner.begun(start), [0, 10, 20, 30]);
}

#[tokio::test(start_paused = true)]
async fn call_limit_counts_stream_until_it_ends() {
    let inner = script([
        Reply::text("first").chunk_chars(1).event_delay(seconds(1)),
        Reply::text("second"),
        Reply::text("third"),
    ]);
    let provider = ServiceProvider::layered(CallLimitLayer::new(1), inner.clone());

    let mut stream = provider.complete_stream_ref(request().view()).await.unwrap().receiver;
    let mut second = Box::pin(ask_streamed(&provider));
    while let Some(event) = stream.recv().await {
        if matches!(event, StreamEvent::ResponseComplete(_)) {
            // The receiver of the first stream still exists, but its stream has ended and released the permit.
            assert!(poll_once(&mut second).await.is_ready());
            break;
        }
        assert!(poll_once(&mut second).await.is_pending());
        assert_eq!(inner.calls(), 1);
    }
    assert_eq!(ask(&provider).await.unwrap(), "third");
}

#[tokio::test(start_paused = true)]
async fn call_limit_is_released_if_stream_is_dropped_breaks_or_ends_early() {
    let text = || Reply::text("abc").chunk_chars(1);
    let inner = script([
        text().hang_after(1),
        text().fail_after(1, unavailable()),
        text().end_early_after(1),
        Reply::error(unavailable()),
        Reply::text("last"),
    ]);
    let provider = ServiceProvider::layered(CallLimitLayer::new(1), inner.clone());
    let mut hanging = provider.complete_stream_ref(request().view()).await.unwrap().receiver;
    assert!(hanging.recv().await.is_some());
    drop(hanging);

    // Keep both receivers until the end of the test. Their permits must be released before.
    let mut broken = provider.complete_stream_ref(request().view()).await.unwrap().receiver;
    while !matches!(broken.recv().await, Some(StreamEvent::Error(_))) {}
    let mut ended = provider.complete_stream_ref(request().view()).await.unwrap().receiver;
    while ended.recv().await.is_some() {}

    assert!(ask(&provider).await.is_err());
    assert_eq!(ask(&provider).await.unwrap(), "last");
}

#[tokio::test(start_paused = true)]
async fn call_limit_is_shared_by_services_of_its_layer() {
    let (first, second) = (slow(3), slow(3));
    let limit = CallLimitLayer::new(2);
    let one = ServiceProvider::layered(limit.clone(), first.clone());
    let other = ServiceProvider::layered(limit, second.clone());
    let start = Instant::now();
    let (ones, others) =
        tokio::join!(join_all((0..3).map(|_| ask(&one))), join_all((0..3).map(|_| ask(&other))));
    assert!(ones.iter().chain(&others).all(Result::is_ok));
    assert_eq!(start.elapsed(), seconds(3), "six calls of a second, two at once");
}

#[tokio::test(start_paused = true)]
async fn call_limit_of_zero_blocks_and_of_usize_max_does_not() {
    let inner = script([Reply::text("yes")]);
    let closed = ServiceProvider::layered(CallLimitLayer::new(0), inner.clone());
    assert!(tokio::time::timeout(seconds(3_600), ask(&closed)).await.is_err());
    let open = ServiceProvider::layered(CallLimitLayer::new(usize::MAX), inner);
    assert_eq!(ask(&open).await.unwrap(), "yes");
}
