//! Tests of `SharedService`, with clones that become ready, are called, are dropped or are kept, as in tower's layers.

use std::future::{Ready, poll_fn, ready};
use std::task::{Context, Poll};

use neuron_testing::Reply;
use neuron_tower::{ServiceProvider, SharedService, SharedServiceLayer};
use tokio::time::Instant;
use tower::limit::RateLimit;
use tower::limit::rate::Rate;
use tower::{BoxError, Service, ServiceBuilder};

use crate::support::{CallRecorder, ask, in_time, seconds};

/// A service that returns its request. If `fails` is set, its `poll_ready` fails.
struct Echo {
    fails: bool,
}

impl Service<u32> for Echo {
    type Response = u32;
    type Error = BoxError;
    type Future = Ready<Result<u32, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match std::mem::take(&mut self.fails) {
            true => Poll::Ready(Err("not this time".into())),
            false => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: u32) -> Self::Future {
        ready(Ok(request))
    }
}

/// Polls the readiness of a service once.
async fn poll_ready<S: Service<u32>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await
}

#[tokio::test(start_paused = true)]
async fn ready_clone_holds_permit_until_it_is_called() {
    // If two clones were ready at the same time, the rate limit would panic at the second call.
    let limited = RateLimit::new(Echo { fails: false }, Rate::new(1, seconds(10)));
    let mut first = SharedService::new(limited);
    let mut second = first.clone();
    assert!(poll_ready(&mut first).await.is_ready());
    assert!(poll_ready(&mut first).await.is_ready(), "asked twice");
    assert!(poll_ready(&mut second).await.is_pending());

    let start = Instant::now();
    assert_eq!(first.call(1).await.unwrap(), 1);
    in_time(poll_fn(|cx| second.poll_ready(cx))).await.unwrap();
    assert_eq!(second.call(2).await.unwrap(), 2);
    assert_eq!(start.elapsed(), seconds(10));
}

#[tokio::test(start_paused = true)]
async fn dropped_or_cloned_ready_clone_releases_permit_once() {
    let mut first = SharedService::new(Echo { fails: false });
    assert!(poll_ready(&mut first).await.is_ready());
    let mut second = first.clone();
    assert!(poll_ready(&mut second).await.is_pending(), "the turn is not cloned");
    drop(first);
    in_time(poll_fn(|cx| second.poll_ready(cx))).await.unwrap();
    assert_eq!(second.call(2).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn clone_with_readiness_error_releases_permit() {
    let mut first = SharedService::new(Echo { fails: true });
    let mut second = first.clone();
    assert!(matches!(poll_ready(&mut first).await, Poll::Ready(Err(_))));
    in_time(poll_fn(|cx| second.poll_ready(cx))).await.unwrap();
    assert_eq!(second.call(2).await.unwrap(), 2);
    drop(first);
}

/// Checks that every task that waits for a shared rate limit is woken. The rate limit itself wakes only the task that
/// polled it last.
#[tokio::test(start_paused = true)]
async fn all_tasks_waiting_for_shared_rate_limit_wake() {
    let inner = CallRecorder::new((0..5).map(|_| Reply::text("yes")));
    let layers = ServiceBuilder::new().layer(SharedServiceLayer).rate_limit(1, seconds(10));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let provider = provider.clone();
            tokio::spawn(async move { ask(&provider).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "yes");
    }
    assert_eq!(inner.begun(start), [0, 10, 20, 30, 40]);
}
