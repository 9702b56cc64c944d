//! Tests of the number and the delays of retries, with a paused clock.

use std::time::Duration;

use neuron_model::{Provider, ProviderError, StreamEvent};
use neuron_testing::Reply;
use neuron_tower::{RetryTransient, ServiceProvider};
use tokio::time::Instant;
use tower::ServiceBuilder;

use crate::support::{
    ask, ask_streamed, limited, millis, request, rest, script, seconds, unavailable,
};

fn policy() -> RetryTransient {
    RetryTransient::new().without_jitter()
}

#[tokio::test(start_paused = true)]
async fn retry_waits_exactly_the_requested_delay() {
    for asked in [millis(1), millis(250), seconds(7), seconds(60)] {
        let inner = script([Reply::error(limited(asked)), Reply::text("yes")]);
        let layers = ServiceBuilder::new().retry(policy());
        let provider = ServiceProvider::layered(layers, inner.clone());
        let start = Instant::now();
        assert_eq!(ask(&provider).await.unwrap(), "yes");
        assert_eq!(start.elapsed(), asked);
        inner.assert_complete();
    }
}

#[tokio::test(start_paused = true)]
async fn requested_delay_above_maximum_is_not_retried() {
    let inner = script([Reply::error(limited(millis(60_001))), Reply::text("no")]);
    let provider = ServiceProvider::layered(ServiceBuilder::new().retry(policy()), inner.clone());
    let start = Instant::now();
    let error = ask(&provider).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(millis(60_001)));
    assert_eq!((start.elapsed(), inner.calls()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn delays_double_and_last_error_is_returned() {
    let replies = (1..=4).map(|n| Reply::error(ProviderError::ModelLoading(format!("{n}"))));
    let inner = script(replies.chain([Reply::text("too late")]));
    let layers = ServiceBuilder::new().retry(policy().max_retries(3));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(&error, ProviderError::ModelLoading(text) if text == "4"), "{error}");
    assert_eq!((start.elapsed(), inner.calls()), (millis(500 + 1_000 + 2_000), 4));
}

#[tokio::test(start_paused = true)]
async fn jittered_delay_is_within_the_bound() {
    for _ in 0..32 {
        let inner = script([Reply::error(unavailable()), Reply::text("yes")]);
        let layers = ServiceBuilder::new().retry(RetryTransient::new());
        let start = Instant::now();
        assert_eq!(ask(&ServiceProvider::layered(layers, inner)).await.unwrap(), "yes");
        // tokio's timers have a resolution of one millisecond, so a delay may be 1 ms longer.
        assert!(start.elapsed() <= millis(501));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_per_call() {
    let inner = script([
        Reply::error(unavailable()),
        Reply::error(unavailable()),
        Reply::text("first"),
        Reply::error(unavailable()),
        Reply::error(unavailable()),
        Reply::text("second"),
    ]);
    let provider = ServiceProvider::layered(ServiceBuilder::new().retry(policy()), inner.clone());
    assert_eq!(ask(&provider).await.unwrap(), "first");
    let start = Instant::now();
    assert_eq!(ask(&provider).await.unwrap(), "second");
    assert_eq!(start.elapsed(), millis(1_500), "the bound begins anew");
    inner.assert_complete();
}

/// Checks the number of calls and the returned error for each variant of `ProviderError`. In the second run of each
/// case, a timeout layer boxes the errors.
#[tokio::test(start_paused = true)]
async fn only_temporary_errors_are_retried() {
    use ProviderError as E;
    type Make = fn() -> E;
    let cases: [(Make, usize); 11] = [
        (|| E::Network("reset".into()), 3),
        (|| limited(millis(5)), 3),
        (|| E::ModelLoading("m".into()), 3),
        (|| E::Timeout(millis(7)), 3),
        (unavailable, 3),
        (|| E::Authentication("no".into()), 1),
        (|| E::InvalidRequest("no".into()), 1),
        (|| E::ModelNotFound("m".into()), 1),
        (|| E::InsufficientResources("pay".into()), 1),
        (|| E::StreamError("cut".into()), 1),
        (|| E::Other("odd".into()), 1),
    ];
    for (make, calls) in cases {
        let failing = || script((0..3).map(|_| Reply::error(make())));
        let (plain, boxed) = (failing(), failing());
        let layers = ServiceBuilder::new().retry(policy());
        let error = ask(&ServiceProvider::layered(layers, plain.clone())).await.unwrap_err();
        check(&error, &make(), plain.calls(), calls);
        let layers = ServiceBuilder::new().retry(policy()).timeout(seconds(60));
        let error = ask(&ServiceProvider::layered(layers, boxed.clone())).await.unwrap_err();
        check(&error, &make(), boxed.calls(), calls);
    }
}

#[track_caller]
fn check(error: &ProviderError, expected: &ProviderError, calls: usize, expected_calls: usize) {
    assert_eq!((error.kind(), error.to_string()), (expected.kind(), expected.to_string()));
    assert_eq!(error.retry_after(), expected.retry_after());
    assert_eq!(calls, expected_calls, "{error}");
}

#[tokio::test(start_paused = true)]
async fn inner_timeout_limits_each_attempt() {
    let inner = script([Reply::hang(), Reply::hang(), Reply::text("yes")]);
    let layers = ServiceBuilder::new().retry(policy()).timeout(seconds(2));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    assert_eq!(ask(&provider).await.unwrap(), "yes");
    assert_eq!(start.elapsed(), millis(2_000 + 500 + 2_000 + 1_000));
    assert_eq!(inner.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn outer_timeout_limits_all_attempts() {
    let inner = script([Reply::error(unavailable()), Reply::hang()]);
    let layers = ServiceBuilder::new().timeout(seconds(2)).retry(policy());
    let provider = ServiceProvider::layered(layers, inner.clone());
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, ProviderError::Timeout(after) if after == seconds(2)), "{error}");
    assert_eq!((inner.calls(), inner.open_streams()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn beginning_of_stream_is_retried() {
    let inner = script([Reply::error(unavailable()), Reply::hang(), Reply::text("yes")]);
    let layers = ServiceBuilder::new().retry(policy()).timeout(seconds(2));
    let provider = ServiceProvider::layered(layers, inner.clone());
    assert_eq!(ask_streamed(&provider).await.unwrap(), "yes");
    inner.assert_complete();
}

#[tokio::test(start_paused = true)]
async fn stream_that_has_begun_is_neither_retried_nor_timed_out() {
    let inner = script([
        Reply::text("one two").chunk_chars(4).event_delay(seconds(10)).fail_after(2, unavailable()),
        Reply::text("no"),
    ]);
    let layers = ServiceBuilder::new().retry(policy()).timeout(seconds(2));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let events = rest(provider.complete_stream_ref(request().view()).await.unwrap()).await;
    let [StreamEvent::TextDelta(one), StreamEvent::TextDelta(two), StreamEvent::Error(error)] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((one.as_str(), two.as_str()), ("one ", "two"));
    assert!(error.is_retryable());
    assert_eq!(inner.calls(), 1);
}
