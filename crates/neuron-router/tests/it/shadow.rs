//! Tests of shadow calls.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use neuron_model::{
    CacheControl, CompletionRequest, CompletionResponse, Provider, ProviderError, RequestRef,
    StreamHandle,
};
use neuron_router::{Route, Router, Shadow, ShadowAnswer};
use neuron_testing::{Reply, ScriptedProvider};
use tokio::time::Instant;

use crate::support::{answering, ask, ask_streamed, busy, request, script, seconds, text};

type Answers = tokio::sync::mpsc::UnboundedReceiver<ShadowAnswer>;

/// Creates a router with a shadow for this share of its calls. Returns the answers of the shadow.
fn shadowed(shadow: &ScriptedProvider, share: f64) -> (Router, Answers) {
    let (sender, answers) = tokio::sync::mpsc::unbounded_channel();
    let shadow = Shadow::new(Route::new("shadow", shadow.clone()), share, move |answer| {
        let _ = sender.send(answer);
    });
    let route = Route::new("main", answering("main"));
    (Router::builder().route(route).shadow(shadow).seed(1).build().unwrap(), answers)
}

#[tokio::test(start_paused = true)]
async fn shadow_answers_only_to_its_callback_and_delays_nothing() {
    let shadow = script([Reply::text("shadow").delay(seconds(60))]);
    let (router, mut answers) = shadowed(&shadow, 1.0);
    let start = Instant::now();
    let asked = CompletionRequest { model: "main".into(), ..request() };
    assert_eq!(router.complete_ref(asked.view()).await.unwrap().message.text(), "main");
    assert_eq!(start.elapsed(), seconds(0));
    let answer = answers.recv().await.unwrap();
    assert_eq!(answer.result.unwrap().message.text(), "shadow");
    assert_eq!(
        (answer.route, answer.latency, answer.request),
        ("shadow".into(), seconds(60), asked)
    );
    // The model of the request is for another route.
    assert_eq!(shadow.requests()[0].model, "");
}

#[tokio::test]
async fn failure_and_panic_of_a_shadow_have_no_effect() {
    let (router, mut answers) = shadowed(&script([Reply::error(busy())]), 1.0);
    assert_eq!(ask_streamed(&router).await.unwrap().message.text(), "main");
    assert!(answers.recv().await.unwrap().result.is_err());
    let shadow = Shadow::new(Route::new("shadow", answering("s")), 1.0, |_| panic!("expected"));
    let route = Route::new("main", answering("main"));
    let router = Router::builder().route(route).shadow(shadow).build().unwrap();
    for _ in 0..3 {
        assert_eq!(text(&router).await.unwrap(), "main");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn share_of_calls_has_a_shadow() {
    let shadow = answering("shadow");
    let (router, mut answers) = shadowed(&shadow, 0.25);
    for _ in 0..400 {
        ask(&router).await.unwrap();
        tokio::task::yield_now().await;
    }
    drop(router);
    let mut count = 0;
    while answers.recv().await.is_some() {
        count += 1;
    }
    assert!((70..130).contains(&count), "{count}");
    let (router, _answers) = shadowed(&shadow, 0.0);
    let before = shadow.calls();
    ask(&router).await.unwrap();
    assert_eq!(shadow.calls(), before);
}

#[tokio::test]
async fn number_of_open_shadow_calls_is_limited() {
    let shadow = ScriptedProvider::new((0..40).map(|_| Reply::hang()));
    let limited = Shadow::new(Route::new("shadow", shadow.clone()), 1.0, |_| {});
    let route = Route::new("main", answering("main"));
    let router = Router::builder().route(route).shadow(limited).build().unwrap();
    for _ in 0..30 {
        ask(&router).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!((shadow.calls(), shadow.open_streams()), (16, 16));
}

#[test]
fn shadow_call_ends_with_its_runtime() {
    let shadow = script([Reply::hang()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (router, _answers) = shadowed(&shadow, 1.0);
        ask(&router).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(shadow.open_streams(), 1);
    });
    drop(runtime);
    assert_eq!(shadow.open_streams(), 0);
}

#[test]
fn call_outside_of_a_runtime_has_no_shadow() {
    let (sender, answers) = mpsc::channel();
    let sender = Arc::new(Mutex::new(sender));
    let shadow = Shadow::new(Route::new("shadow", answering("s")), 1.0, move |answer| {
        let _ = sender.lock().unwrap().send(answer);
    });
    let route = Route::new("main", answering("main"));
    let router = Router::builder().route(route).shadow(shadow).build().unwrap();
    let response = futures_util::FutureExt::now_or_never(ask(&router)).unwrap();
    assert_eq!(response.unwrap().message.text(), "main");
    drop(router);
    assert!(answers.recv().is_err());
}

/// A provider that records the cache breakpoint of each request.
#[derive(Clone)]
struct Breakpoints(ScriptedProvider, Arc<Mutex<Vec<Option<CacheControl>>>>);

impl Provider for Breakpoints {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.1.lock().unwrap().push(request.cache);
        self.0.complete_ref(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.1.lock().unwrap().push(request.cache);
        self.0.complete_stream_ref(request).await
    }
}

/// Shadow calls lost the cache breakpoint, because an owned request cannot contain it.
#[tokio::test]
async fn all_routes_and_the_shadow_receive_the_cache_breakpoint() {
    let seen = Arc::default();
    let recording = |replies: ScriptedProvider| Breakpoints(replies, Arc::clone(&seen));
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let shadow = Route::new("shadow", recording(answering("shadow")));
    let failing = script([Reply::error(busy()), Reply::error(busy())]);
    let router = Router::builder()
        .route(Route::new("first", recording(failing)))
        .route(Route::new("second", recording(answering("b"))).change(|_| {}))
        .shadow(Shadow::new(shadow, 1.0, move |answer| drop(sender.send(answer))))
        .build()
        .unwrap();
    let (request, cache) = (request(), Some(CacheControl::default()));
    let request = RequestRef { cache, ..request.view() };
    router.complete_ref(request).await.unwrap();
    answers.recv().await.unwrap();
    router.complete_stream_ref(request).await.unwrap().into_response().await.unwrap();
    answers.recv().await.unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 5 && seen.iter().all(|seen| *seen == cache), "{seen:?}");
}
