//! Tests of tower's `buffer` layer, which requires owned requests.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures_util::future::join_all;
use neuron_model::{Provider, ProviderError};
use neuron_testing::Reply;
use neuron_tower::{
    ModelCall, ModelResponseFuture, OwnedRequestLayer, RetryTransient, ServiceProvider,
};
use tokio::time::Instant;
use tower::{Service, ServiceBuilder};

use crate::support::{
    CallRecorder, ask, ask_streamed, limited, poll_once, request, script, seconds, unavailable,
};

#[tokio::test(start_paused = true)]
async fn buffer_shares_a_rate_limit() {
    let inner = CallRecorder::new((0..5).map(|_| Reply::text("yes").delay(seconds(1))));
    let layers = ServiceBuilder::new()
        .layer(OwnedRequestLayer)
        .retry(RetryTransient::new())
        .buffer::<ModelCall<'static>>(16)
        .rate_limit(2, seconds(10))
        .timeout(seconds(60));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let answers = join_all((0..5).map(|_| ask(&provider))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(inner.begun(start), [0, 0, 10, 10, 20]);
}

#[tokio::test(start_paused = true)]
async fn errors_behind_buffer_keep_class_and_are_retried() {
    let inner = script([
        Reply::error(limited(seconds(3))),
        Reply::error(unavailable()),
        Reply::text("yes"),
        Reply::error(ProviderError::Authentication("no".into())),
    ]);
    let layers = ServiceBuilder::new()
        .layer(OwnedRequestLayer)
        .retry(RetryTransient::new())
        .buffer::<ModelCall<'static>>(1);
    let provider = ServiceProvider::layered(layers, inner.clone());
    assert_eq!(ask_streamed(&provider).await.unwrap(), "yes");
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, ProviderError::Authentication(_)), "{error}");
    inner.assert_complete();
}

#[tokio::test(start_paused = true)]
async fn dropped_call_is_dropped_behind_buffer() {
    let inner = script([Reply::hang(), Reply::text("second")]);
    let layers = ServiceBuilder::new()
        .layer(OwnedRequestLayer)
        .buffer::<ModelCall<'static>>(1)
        .concurrency_limit(1);
    let provider = ServiceProvider::layered(layers, inner.clone());
    let request = request();
    let mut hanging = Box::pin(provider.complete_ref(request.view()));
    while inner.calls() == 0 {
        assert!(poll_once(&mut hanging).await.is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(inner.open_streams(), 1);
    drop(hanging);
    assert_eq!(inner.open_streams(), 0);
    assert_eq!(ask(&provider).await.unwrap(), "second");
}

#[tokio::test(start_paused = true)]
async fn closed_buffer_error_is_not_retried() {
    let service = ServiceBuilder::new()
        .layer(OwnedRequestLayer)
        .retry(RetryTransient::new())
        .buffer::<ModelCall<'static>>(4)
        .service(Broken);
    let provider = ServiceProvider::new(service);
    // The first call closes the buffer, and the second call finds the closed buffer.
    for _ in 0..2 {
        let error = ask(&provider).await.unwrap_err();
        let ProviderError::Other(source) = error else { panic!("{error}") };
        assert!(source.is::<tower::buffer::error::ServiceError>(), "{source}");
    }
}

/// A service whose `poll_ready` fails with an error that would be retryable without a buffer.
struct Broken;

impl Service<ModelCall<'static>> for Broken {
    type Response = ModelResponseFuture;
    type Error = ProviderError;
    type Future = Ready<Result<ModelResponseFuture, ProviderError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ProviderError>> {
        Poll::Ready(Err(unavailable()))
    }

    fn call(&mut self, _: ModelCall<'static>) -> Self::Future {
        ready(Err(unavailable()))
    }
}
