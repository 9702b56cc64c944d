//! Tests of calls that are dropped at any point, with a paused clock. A dropped call must release its permit.

use neuron_model::BoxedProvider;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tower::{CallLimitLayer, RetryTransient, ServiceProvider, SharedServiceLayer};
use tokio::time::timeout;
use tower::ServiceBuilder;

use crate::support::{ask, ask_streamed, limited, millis, poll_once, script, seconds};

/// Creates three providers that retry calls and allow one call at a time. Each has another layer for this limit.
fn one_at_a_time(inner: &ScriptedProvider) -> [BoxedProvider; 3] {
    let below = || {
        ServiceBuilder::new()
            .retry(RetryTransient::new().without_jitter())
            .timeout(seconds(3_600))
            .into_inner()
    };
    let towers = ServiceBuilder::new().concurrency_limit(1).layer(below());
    let ours = ServiceBuilder::new().layer(CallLimitLayer::new(1)).layer(below());
    let shared =
        ServiceBuilder::new().layer(SharedServiceLayer).concurrency_limit(1).layer(below());
    [
        BoxedProvider::new(ServiceProvider::layered(towers, inner.clone())),
        BoxedProvider::new(ServiceProvider::layered(ours, inner.clone())),
        BoxedProvider::new(ServiceProvider::layered(shared, inner.clone())),
    ]
}

#[tokio::test(start_paused = true)]
async fn call_dropped_in_provider_releases_permit() {
    let inner = ScriptedProvider::default();
    for provider in one_at_a_time(&inner) {
        inner.push(Reply::hang());
        inner.push("second");
        inner.push("third");
        let mut hanging = Box::pin(ask(&provider));
        let mut second = Box::pin(ask_streamed(&provider));
        assert!(poll_once(&mut hanging).await.is_pending());
        assert!(poll_once(&mut second).await.is_pending());
        assert_eq!((inner.remaining(), inner.open_streams()), (2, 1));
        drop(hanging);
        assert_eq!(inner.open_streams(), 0);
        assert_eq!(second.await.unwrap(), "second");
        assert_eq!(ask(&provider).await.unwrap(), "third");
    }
}

#[tokio::test(start_paused = true)]
async fn call_dropped_during_retry_delay_releases_permit_and_stops() {
    let inner = ScriptedProvider::default();
    for provider in one_at_a_time(&inner) {
        inner.push(Reply::error(limited(seconds(30))));
        inner.push("second");
        let mut waiting = Box::pin(ask(&provider));
        let mut second = Box::pin(ask(&provider));
        assert!(timeout(seconds(10), &mut waiting).await.is_err());
        assert!(poll_once(&mut second).await.is_pending());
        assert_eq!((inner.remaining(), inner.open_streams()), (1, 0));
        drop(waiting);
        assert_eq!(second.await.unwrap(), "second");
        tokio::time::advance(seconds(60)).await;
        inner.assert_complete();
    }
}

#[tokio::test(start_paused = true)]
async fn call_dropped_in_queue_keeps_no_permit() {
    let inner = ScriptedProvider::default();
    for provider in one_at_a_time(&inner) {
        inner.push(Reply::text("first").delay(seconds(1)));
        inner.push("third");
        let mut first = Box::pin(ask(&provider));
        let mut second = Box::pin(ask(&provider));
        let mut third = Box::pin(ask(&provider));
        for call in [&mut first, &mut second, &mut third] {
            assert!(poll_once(call).await.is_pending());
        }
        drop(second);
        assert_eq!(first.await.unwrap(), "first");
        assert_eq!(third.await.unwrap(), "third");
    }
}

/// Drops a waiting call after it was woken with a permit and before it is polled again. The next waiting call must get
/// the permit.
#[tokio::test(start_paused = true)]
async fn call_dropped_after_wakeup_passes_permit_on() {
    let inner = ScriptedProvider::default();
    for provider in one_at_a_time(&inner) {
        inner.push(Reply::text("first").delay(millis(10)));
        inner.push("third");
        let mut first = Box::pin(ask(&provider));
        let mut second = Box::pin(ask(&provider));
        let mut third = Box::pin(ask(&provider));
        for call in [&mut first, &mut second, &mut third] {
            assert!(poll_once(call).await.is_pending());
        }
        assert_eq!(first.await.unwrap(), "first");
        drop(second);
        assert_eq!(third.await.unwrap(), "third");
    }
}

#[tokio::test(start_paused = true)]
async fn unpolled_call_makes_no_request() {
    let inner = script([Reply::text("yes")]);
    for provider in one_at_a_time(&inner) {
        drop(ask(&provider));
    }
    assert_eq!((inner.calls(), inner.remaining()), (0, 1));
}
