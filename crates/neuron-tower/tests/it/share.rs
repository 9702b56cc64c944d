//! A shared service as tower's layers use it: clones that become ready, are called, or are kept.

use std::future::{Ready, poll_fn, ready};
use std::task::{Context, Poll};

use neuron_testing::Reply;
use neuron_tower::{ServiceProvider, Share, ShareLayer};
use tokio::time::Instant;
use tower::limit::RateLimit;
use tower::limit::rate::Rate;
use tower::{BoxError, Service, ServiceBuilder};

use crate::support::{Watched, ask, in_time, seconds};

/// Fails to become ready when it is told so, and answers the request.
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

/// Asks once whether a service is ready.
async fn poll_ready<S: Service<u32>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await
}

#[tokio::test(start_paused = true)]
async fn a_ready_clone_has_the_turn_until_it_is_called() {
    // Two that are ready at once would make the rate limit panic at the second call.
    let limited = RateLimit::new(Echo { fails: false }, Rate::new(1, seconds(10)));
    let mut first = Share::new(limited);
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
async fn a_ready_clone_that_is_dropped_or_cloned_gives_no_turn_away_twice() {
    let mut first = Share::new(Echo { fails: false });
    assert!(poll_ready(&mut first).await.is_ready());
    let mut second = first.clone();
    assert!(poll_ready(&mut second).await.is_pending(), "the turn is not cloned");
    drop(first);
    in_time(poll_fn(|cx| second.poll_ready(cx))).await.unwrap();
    assert_eq!(second.call(2).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_cannot_become_ready_passes_the_turn_on() {
    let mut first = Share::new(Echo { fails: true });
    let mut second = first.clone();
    assert!(matches!(poll_ready(&mut first).await, Poll::Ready(Err(_))));
    in_time(poll_fn(|cx| second.poll_ready(cx))).await.unwrap();
    assert_eq!(second.call(2).await.unwrap(), 2);
    drop(first);
}

/// Several tasks, each polled only when it is woken: with one timer for all of them, whoever asked
/// last would be the only one to wake.
#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_a_shared_rate_limit_all_wake() {
    let inner = Watched::new((0..5).map(|_| Reply::text("yes")));
    let layers = ServiceBuilder::new().layer(ShareLayer).rate_limit(1, seconds(10));
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
