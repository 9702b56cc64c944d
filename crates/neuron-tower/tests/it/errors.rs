//! Tests of the conversion of layers' errors to `ProviderError`.

use std::error::Error;
use std::fmt;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use neuron_model::{Provider, ProviderError};
use neuron_testing::Reply;
use neuron_tower::{ModelCall, ModelResponseFuture, RetryTransient, ServiceProvider};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder};

use crate::support::{
    ask, ask_streamed, limited, millis, poll_once, request, script, seconds, unavailable,
};

#[tokio::test(start_paused = true)]
async fn elapsed_timeout_becomes_timeout_with_duration() {
    let inner = script([Reply::hang(), Reply::hang()]);
    let layers = ServiceBuilder::new().timeout(millis(1_500));
    let provider = ServiceProvider::layered(layers, inner.clone());
    for streamed in [false, true] {
        let error = match streamed {
            true => ask_streamed(&provider).await.unwrap_err(),
            false => ask(&provider).await.unwrap_err(),
        };
        assert!(matches!(error, ProviderError::Timeout(after) if after == millis(1_500)));
        assert!(error.is_retryable());
    }
    assert_eq!(inner.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn overload_error_is_retryable() {
    let inner = script([Reply::hang()]);
    let layers = ServiceBuilder::new().load_shed().concurrency_limit(1);
    let provider = ServiceProvider::layered(layers, inner.clone());
    let request = request();
    let mut first = Box::pin(provider.complete_ref(request.view()));
    assert!(poll_once(&mut first).await.is_pending());
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, ProviderError::ServiceUnavailable(_)), "{error}");
    assert!(error.is_retryable());
    assert_eq!(inner.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn shed_calls_are_retried() {
    let inner = script([Reply::text("slow").delay(seconds(1)), Reply::text("second")]);
    let layers = ServiceBuilder::new()
        .retry(RetryTransient::new().without_jitter())
        .load_shed()
        .concurrency_limit(1);
    let provider = ServiceProvider::layered(layers, inner.clone());
    let start = Instant::now();
    let (first, second) = tokio::join!(ask(&provider), ask(&provider));
    assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("slow", "second"));
    assert_eq!(start.elapsed(), millis(1_500), "turned away at 0 s and at 0.5 s");
}

#[tokio::test(start_paused = true)]
async fn boxed_provider_error_keeps_class_and_source() {
    let source: BoxError = Box::new(Odd);
    let inner =
        script([Reply::error(limited(seconds(7))), Reply::error(ProviderError::Network(source))]);
    let layers = ServiceBuilder::new().load_shed().timeout(seconds(60)).concurrency_limit(2);
    let provider = ServiceProvider::layered(layers, inner);
    assert_eq!(ask(&provider).await.unwrap_err().retry_after(), Some(seconds(7)));
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(error, ProviderError::Network(_)), "{error}");
    assert_eq!(error.source().unwrap().to_string(), "odd");
}

#[tokio::test(start_paused = true)]
async fn custom_layer_error_becomes_source() {
    let layers = ServiceBuilder::new().map_err(|_: ProviderError| BoxError::from(Odd));
    let inner = script([Reply::error(unavailable())]);
    let error = ask(&ServiceProvider::layered(layers, inner)).await.unwrap_err();
    assert!(!error.is_retryable());
    let ProviderError::Other(source) = error else { panic!("{error}") };
    assert!(source.is::<Odd>());
}

#[tokio::test(start_paused = true)]
async fn readiness_error_fails_the_call() {
    let inner = ServiceProvider::new(NeverReady);
    for error in [ask(&inner).await.unwrap_err(), ask_streamed(&inner).await.unwrap_err()] {
        assert!(matches!(error, ProviderError::ServiceUnavailable(_)), "{error}");
    }
}

/// A service whose `poll_ready` fails.
#[derive(Clone)]
struct NeverReady;

impl Service<ModelCall<'_>> for NeverReady {
    type Response = ModelResponseFuture;
    type Error = ProviderError;
    type Future = Ready<Result<ModelResponseFuture, ProviderError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ProviderError>> {
        Poll::Ready(Err(unavailable()))
    }

    fn call(&mut self, _: ModelCall<'_>) -> Self::Future {
        ready(Err(ProviderError::InvalidRequest("called without being ready".into())))
    }
}

#[derive(Debug)]
struct Odd;

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("odd")
    }
}

impl Error for Odd {}
