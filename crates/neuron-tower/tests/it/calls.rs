//! Tests of the request that the provider receives, and of the response that the caller receives.

use std::future::{pending, ready};
use std::sync::LazyLock;

use neuron_model::{
    BoxedProvider, CompletionRequest, CompletionResponse, Provider, ProviderError, ProviderInfo,
    RouteModel, StreamEvent, StreamHandle, StreamReceiver,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tower::{
    ModelCall, ModelResponseFuture, OwnedRequestLayer, RetryTransient, ServiceProvider,
};
use tower::{ServiceBuilder, service_fn};

use crate::support::{
    CallRecorder, ask, ask_streamed, history, millis, request, rest, seconds, unavailable,
};

fn failing_twice() -> CallRecorder {
    CallRecorder::new([
        Reply::error(unavailable()),
        Reply::error(unavailable()),
        Reply::text("yes"),
        Reply::error(unavailable()),
        Reply::error(unavailable()),
        Reply::text("yes"),
    ])
}

#[tokio::test(start_paused = true)]
async fn borrowed_request_is_not_copied_in_any_attempt() {
    let inner = failing_twice();
    let layers = ServiceBuilder::new()
        .concurrency_limit(4)
        .retry(RetryTransient::new())
        .timeout(seconds(60));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let request = request();
    provider.complete_ref(request.view()).await.unwrap();
    provider.complete_stream_ref(request.view()).await.unwrap();
    assert_eq!(inner.histories(), [history(request.view()); 6]);
}

#[tokio::test(start_paused = true)]
async fn owned_history_is_not_copied() {
    let inner = failing_twice();
    let layers = ServiceBuilder::new().layer(OwnedRequestLayer).retry(RetryTransient::new());
    let provider = ServiceProvider::layered(layers, inner.clone());
    for streamed in [false, true] {
        let request = request();
        let expected = history(request.view());
        match streamed {
            false => assert!(provider.complete(request).await.is_ok()),
            true => assert!(provider.complete_stream(request).await.is_ok()),
        }
        let seen = inner.histories();
        assert_eq!(seen[seen.len() - 3..], [expected; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn own_request_layer_copies_once_for_all_attempts() {
    let inner = failing_twice();
    let layers = ServiceBuilder::new().layer(OwnedRequestLayer).retry(RetryTransient::new());
    let provider = ServiceProvider::layered(layers, inner.clone());
    let request = request();
    provider.complete_ref(request.view()).await.unwrap();
    let addresses = inner.histories();
    assert_ne!(addresses[0], history(request.view()));
    assert_eq!(addresses, [addresses[0]; 3]);
    assert_eq!(inner.script().requests()[2], request);
}

#[test]
fn into_owned_keeps_shared_request() {
    let request = request();
    let owned = ModelCall::streamed(request.view()).into_owned();
    assert_ne!(history(owned.request()), history(request.view()));
    assert_eq!(owned.request(), request.view());
    let again = owned.clone().into_owned();
    assert_eq!(history(again.request()), history(owned.request()));
    assert!(again.wants_stream());
    assert!(!ModelCall::whole(request.view()).into_owned().wants_stream());
}

#[tokio::test(start_paused = true)]
async fn layer_can_replace_the_request() {
    fn ask_small_model(call: ModelCall<'_>) -> ModelCall<'_> {
        let request = CompletionRequest { model: "small".into(), ..call.request().to_request() };
        call.with_request(request)
    }
    let inner = ScriptedProvider::new(["one", "two"]);
    let layers = ServiceBuilder::new().map_request(ask_small_model);
    let provider = ServiceProvider::layered(layers, inner.clone());
    assert_eq!(ask(&provider).await.unwrap(), "one");
    assert_eq!(ask_streamed(&provider).await.unwrap(), "two");
    assert!(inner.requests().iter().all(|request| request.model == "small"));
}

#[tokio::test(start_paused = true)]
async fn streams_are_forwarded_unchanged() {
    let reply = || Reply::text("a longer text").thinking("hm", "signature").chunk_chars(3);
    let (bare, inner) = (ScriptedProvider::new([reply()]), ScriptedProvider::new([reply()]));
    let layers = ServiceBuilder::new().concurrency_limit(1).timeout(seconds(60));
    let layered = ServiceProvider::layered(layers, inner.clone());
    let expected = rest(bare.complete_stream_ref(request().view()).await.unwrap()).await;
    let handle = layered.complete_stream_ref(request().view()).await.unwrap();
    assert_eq!(inner.open_streams(), 1);
    let events = rest(handle).await;
    assert_eq!(format!("{events:?}"), format!("{expected:?}"));
    assert_eq!(inner.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_stream_is_dropped_in_provider() {
    let inner = ScriptedProvider::new([Reply::text("abc").chunk_chars(1).hang_after(1)]);
    let layers = ServiceBuilder::new().retry(RetryTransient::new()).timeout(seconds(60));
    let provider = ServiceProvider::layered(layers, inner.clone());
    let mut handle = provider.complete_stream_ref(request().view()).await.unwrap();
    assert!(handle.receiver.recv().await.is_some());
    assert_eq!(inner.open_streams(), 1);
    drop(handle);
    assert_eq!(inner.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn response_of_the_other_form_is_converted() {
    let whole = ScriptedProvider::new([Reply::text("cached").thinking("hm", "signature")]);
    let whole = whole.complete_ref(request().view()).await.unwrap();
    let answer = whole.clone();
    let cache = ServiceProvider::new(service_fn(move |_: ModelCall<'_>| {
        ready(Ok::<_, ProviderError>(ModelResponseFuture::from(answer.clone())))
    }));
    assert_eq!(cache.complete_ref(request().view()).await.unwrap(), whole);
    let events = rest(cache.complete_stream_ref(request().view()).await.unwrap()).await;
    let deltas = events.iter().filter(|event| event.is_delta()).count();
    assert_eq!(deltas, 2, "{events:?}");
    assert!(matches!(events.last(), Some(StreamEvent::ResponseComplete(last)) if **last == whole));
    let handle = cache.complete_stream_ref(request().view()).await.unwrap();
    assert_eq!(handle.into_response().await.unwrap(), whole);

    let answer = whole.clone();
    let streams = ServiceProvider::new(service_fn(move |_: ModelCall<'_>| {
        let events = [StreamEvent::ResponseComplete(Box::new(answer.clone()))];
        let handle = StreamHandle::from(StreamReceiver::new(futures_util::stream::iter(events)));
        ready(Ok::<_, ProviderError>(ModelResponseFuture::from(handle)))
    }));
    assert_eq!(streams.complete_ref(request().view()).await.unwrap(), whole);
}

#[tokio::test(start_paused = true)]
async fn stream_that_breaks_during_conversion_is_an_error() {
    let cut = ServiceProvider::new(service_fn(|_: ModelCall<'_>| {
        let events = [StreamEvent::TextDelta("half".into())];
        let handle = StreamHandle::from(StreamReceiver::new(futures_util::stream::iter(events)));
        ready(Ok::<_, ProviderError>(ModelResponseFuture::from(handle)))
    }));
    let error = ask(&cut).await.unwrap_err();
    assert!(matches!(error, ProviderError::StreamError(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn info_of_provider_is_kept_behind_layers() {
    let layers = ServiceBuilder::new().timeout(millis(1));
    let provider = ServiceProvider::layered(layers, ScriptedProvider::default());
    assert_eq!(provider.info(), ProviderInfo::new("scripted", "scripted-model"));
    assert_eq!(BoxedProvider::new(provider.clone()).info(), provider.info());
    assert_eq!(ServiceProvider::new(provider.service().clone()).info(), ProviderInfo::default());

    let served = ServiceProvider::layered(ServiceBuilder::new().timeout(millis(1)), Served);
    let expected = ProviderInfo::new("served", "m").at_server("api.example", Some(8443));
    assert_eq!(served.clone().info(), expected.with_routes(&*ROUTES));
    assert_eq!(
        format!("{provider:?}"),
        r#"ServiceProvider { name: "scripted", default_model: "scripted-model", .. }"#
    );
}

static ROUTES: LazyLock<[RouteModel; 1]> = LazyLock::new(|| [RouteModel::new("served", "m")]);

/// A provider that only implements `info`, with the address of its server.
struct Served;

impl Provider for Served {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        pending().await
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        pending().await
    }

    fn info(&self) -> ProviderInfo<'_> {
        let info = ProviderInfo::new("served", "m").at_server("api.example", Some(8443));
        info.with_routes(&*ROUTES)
    }
}
