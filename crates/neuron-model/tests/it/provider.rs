//! Tests of boxed providers and of the default methods of `Provider`. A borrowed request must reach the provider
//! without a copy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use neuron_model::{
    BoxedProvider, CompletionRequest, CompletionResponse, Message, Provider, ProviderError,
    ProviderInfo, RequestRef, RouteModel, StopReason, StreamEvent, StreamHandle, StreamReceiver,
    TokenUsage, WasmBoxedFuture,
};

/// A provider that records the name of each called method, and the address of the request's messages.
#[derive(Clone, Default)]
struct Direct(Arc<Mutex<Vec<(&'static str, usize)>>>);

fn response(text: &str) -> CompletionResponse {
    CompletionResponse {
        id: String::new(),
        model: String::new(),
        message: Message::assistant(text),
        usage: TokenUsage::default(),
        stop_reason: StopReason::EndTurn,
    }
}

fn handle(text: &str) -> StreamHandle {
    let event = StreamEvent::ResponseComplete(Box::new(response(text)));
    StreamReceiver::new(futures_util::stream::iter([event])).into()
}

impl Direct {
    fn note(&self, method: &'static str, request: RequestRef<'_>) {
        let address = request.messages.as_ptr().addr();
        self.0.lock().unwrap().push((method, address));
    }
}

static ROUTES: LazyLock<[RouteModel; 1]> = LazyLock::new(|| [RouteModel::new("direct", "model-1")]);

impl Provider for Direct {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.note("complete", request.view());
        Ok(response("complete"))
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.note("complete_stream", request.view());
        Ok(handle("complete_stream"))
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.note("complete_ref", request);
        Ok(response("complete_ref"))
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.note("complete_stream_ref", request);
        Ok(handle("complete_stream_ref"))
    }

    fn complete_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        self.note("complete_ref_boxed", request);
        Box::pin(async { Ok(response("complete_ref")) })
    }

    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        self.note("complete_stream_ref_boxed", request);
        Box::pin(async { Ok(handle("complete_stream_ref")) })
    }

    fn info(&self) -> ProviderInfo<'_> {
        let info = ProviderInfo::new("direct", "model-1").at_server("::1", Some(8080));
        info.with_routes(&*ROUTES)
    }
}

/// Checks that each method of `wrapper` forwards the call to the method of `direct` with the same name, or to its boxed
/// form. Also checks that a borrowed request is not copied.
async fn check<P: Provider>(wrapper: P, direct: &Direct) {
    let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
    let here = request.messages.as_ptr().addr();
    let answer = wrapper.complete(request.clone()).await.unwrap();
    assert_eq!(answer.message.text(), "complete");
    let stream = wrapper.complete_stream(request.clone()).await.unwrap();
    let answer = stream.into_response().await.unwrap();
    assert_eq!(answer.message.text(), "complete_stream");
    let answer = wrapper.complete_ref(request.view()).await.unwrap();
    assert_eq!(answer.message.text(), "complete_ref");
    let stream = wrapper.complete_stream_ref(request.view()).await.unwrap();
    let answer = stream.into_response().await.unwrap();
    assert_eq!(answer.message.text(), "complete_stream_ref");
    wrapper.complete_ref_boxed(request.view()).await.unwrap();
    wrapper.complete_stream_ref_boxed(request.view()).await.unwrap();
    let info = ProviderInfo::new("direct", "model-1").at_server("::1", Some(8080));
    assert_eq!(wrapper.info(), info.with_routes(&*ROUTES));

    let calls = std::mem::take(&mut *direct.0.lock().unwrap());
    let names: Vec<_> = calls.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..2], ["complete", "complete_stream"]);
    let unboxed: Vec<_> = names[2..4].iter().map(|name| name.trim_end_matches("_boxed")).collect();
    assert_eq!(unboxed, ["complete_ref", "complete_stream_ref"]);
    assert_eq!(names[4..], ["complete_ref_boxed", "complete_stream_ref_boxed"]);
    assert!(calls[2..].iter().all(|(_, address)| *address == here), "not a copy");
}

#[tokio::test]
async fn pointers_forward_every_method_without_a_copy() {
    let direct = Direct::default();
    check(&direct, &direct).await;
    check(&&direct, &direct).await;
    check(Arc::new(direct.clone()), &direct).await;
    check(Box::new(direct.clone()), &direct).await;
    let boxed = BoxedProvider::new(direct.clone());
    check(boxed.clone(), &direct).await;
    check(&boxed, &direct).await;
    check(BoxedProvider::new(boxed.clone()), &direct).await;
    check(BoxedProvider::new(Arc::new(Box::new(direct.clone()))), &direct).await;
    assert_eq!(format!("{boxed:?}"), format!("BoxedProvider({:?})", direct.info()));
}

#[tokio::test]
async fn default_methods_copy_the_request_and_have_no_info() {
    #[derive(Default)]
    struct Plain(AtomicUsize);
    impl Provider for Plain {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(response(&request.model))
        }
        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(handle(&request.model))
        }
    }
    let plain = Plain::default();
    let request = CompletionRequest { model: "m".into(), ..Default::default() };
    let answer = plain.complete_ref(request.view()).await.unwrap();
    assert_eq!(answer.message.text(), "m");
    let stream = plain.complete_stream_ref(request.view()).await.unwrap();
    assert_eq!(stream.into_response().await.unwrap(), answer);
    assert_eq!(plain.0.load(Ordering::Relaxed), 2);
    assert_eq!(plain.info(), ProviderInfo::default());
}

#[test]
fn calls_through_a_pointer_are_send() {
    fn is_send<T: Send>(_: T) {}
    fn generic<P: Provider>(provider: P, request: &CompletionRequest) {
        let shared = Arc::new(&provider);
        is_send(shared.complete_ref(request.view()));
        is_send(shared.complete_stream_ref(request.view()));
        let boxed = Box::new(&provider);
        is_send(boxed.complete(request.clone()));
        is_send(boxed.complete_stream(request.clone()));
    }
    let request = CompletionRequest::default();
    generic(Direct::default(), &request);
    let boxed = BoxedProvider::new(Direct::default());
    is_send(boxed.complete_ref(request.view()));
}

/// A provider that implements only `complete` and `complete_stream`, which take an owned request.
struct Owning;

impl Provider for Owning {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(response(&request.messages.len().to_string()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Ok(handle("streamed"))
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("owning", "")
    }
}

/// A provider that implements only `complete_ref` and `complete_stream_ref`, which take a borrowed request.
struct Borrowing;

impl Provider for Borrowing {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(response(&request.messages.len().to_string()))
    }

    async fn complete_stream_ref(&self, _: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
        Ok(handle("streamed"))
    }
}

fn request_of(messages: usize) -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user("hello"); messages], ..Default::default() }
}

#[tokio::test]
async fn provider_with_owned_or_borrowed_methods_has_both() {
    async fn check(provider: impl Provider + 'static) {
        let request = request_of(3);
        let provider = BoxedProvider::new(provider);
        assert_eq!(provider.complete(request.clone()).await.unwrap().message.text(), "3");
        assert_eq!(provider.complete_ref(request.view()).await.unwrap().message.text(), "3");
        assert_eq!(
            provider
                .complete_stream_ref(request.view())
                .await
                .unwrap()
                .into_response()
                .await
                .unwrap()
                .message
                .text(),
            "streamed"
        );
        assert_eq!(
            provider
                .complete_stream(request)
                .await
                .unwrap()
                .into_response()
                .await
                .unwrap()
                .message
                .text(),
            "streamed"
        );
    }
    check(Owning).await;
    check(Borrowing).await;
}

/// A provider that implements nothing.
struct Nothing;

impl Provider for Nothing {}

/// A provider that implements only whole responses.
struct Whole;

impl Provider for Whole {
    async fn complete_ref(&self, _: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        Ok(response("whole"))
    }
}

/// A wrapper with the address of the provider inside. It implements one method of each pair, and the provider the other.
struct Outer(Inner);
struct Inner(u8);

impl Provider for Outer {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete_ref(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.0.complete_stream_ref(request).await
    }
}

impl Provider for Inner {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Ok(response(&self.0.to_string()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Ok(handle(&self.0.to_string()))
    }
}

/// Regression test. Before the fix, such a provider compiled with `cargo check`, and `cargo build` failed with errors
/// inside this crate which named neither the provider nor the method.
#[tokio::test]
async fn missing_methods_are_named() {
    let request = CompletionRequest::default;
    let view = RequestRef::default;
    let check = |error: ProviderError, provider: &str, method: &str| {
        let error = error.to_string();
        let parts = [provider, &format!("implement `Provider::{method}`")];
        assert!(parts.iter().all(|part| error.contains(*part)), "{error}");
    };
    check(Nothing.complete(request()).await.unwrap_err(), "Nothing", "complete_ref");
    check(Nothing.complete_ref(view()).await.unwrap_err(), "Nothing", "complete_ref");
    let streamed = Nothing.complete_stream(request()).await;
    check(streamed.map(drop).unwrap_err(), "Nothing", "complete_stream_ref");
    let streamed = Nothing.complete_stream_ref(view()).await;
    check(streamed.map(drop).unwrap_err(), "Nothing", "complete_stream_ref");
    let boxed = BoxedProvider::new(Whole);
    assert_eq!(boxed.complete(request()).await.unwrap(), response("whole"));
    let streamed = boxed.complete_stream_ref(view()).await;
    check(streamed.map(drop).unwrap_err(), "Whole", "complete_stream_ref");
}

#[tokio::test]
async fn wrapper_at_the_address_of_its_provider_is_not_taken_for_it() {
    let outer = Outer(Inner(7));
    assert_eq!(outer.complete(CompletionRequest::default()).await.unwrap(), response("7"));
    assert!(outer.complete_stream(CompletionRequest::default()).await.is_ok());
}
