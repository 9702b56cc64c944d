//! Tests of the request that a route receives, and of the route that a request names.

use std::sync::{Arc, Mutex};

use neuron_model::{
    CompletionRequest, CompletionResponse, HistoryKey, Provider, ProviderError, RequestRef,
    StreamHandle, ThinkingConfig,
};
use neuron_router::{Route, Router};
use neuron_testing::{Reply, ScriptedProvider};
use serde_json::{Value, json};

use crate::support::{answering, busy, request};

/// The index of a route, and the model and the `extra` fields that it received.
type Asked = (usize, String, Option<Value>);

/// Calls a router with three routes. The routes before `answers_at` fail. Returns the order in which the routes were
/// called, with the model and the `extra` fields that each received.
async fn asked(model: &str, answers_at: usize) -> Vec<Asked> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let provider = |index: usize| Logged {
        index,
        log: log.clone(),
        inner: match index == answers_at {
            true => answering("ok"),
            false => ScriptedProvider::new([Reply::error(busy())]),
        },
    };
    let router = Router::builder()
        .route(Route::new("first", provider(0)))
        .route(Route::new("second", provider(1)).model("own-model"))
        .route(Route::new("third", provider(2)).change(|settings| {
            settings.extra = Some(json!({"own": true}));
            settings.thinking = None;
        }))
        .build()
        .unwrap();
    let request = CompletionRequest {
        model: model.into(),
        extra: Some(json!({"x": 1})),
        thinking: Some(ThinkingConfig::Adaptive),
        ..request()
    };
    router.complete_ref(request.view()).await.unwrap();
    log.lock().unwrap().clone()
}

/// A provider that records its index and the requests.
struct Logged {
    index: usize,
    log: Arc<Mutex<Vec<Asked>>>,
    inner: ScriptedProvider,
}

impl Provider for Logged {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        assert_eq!(request.thinking.is_some(), self.index != 2);
        let entry = (self.index, request.model.to_owned(), request.extra.cloned());
        self.log.lock().unwrap().push(entry);
        self.inner.complete_ref(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.inner.complete_stream_ref(request).await
    }
}

#[tokio::test]
async fn request_without_a_model_gives_extra_fields_to_the_first_route_only() {
    let (x, own) = (Some(json!({"x": 1})), Some(json!({"own": true})));
    assert_eq!(
        asked("", 2).await,
        [(0, "".into(), x), (1, "own-model".into(), None), (2, "".into(), own)]
    );
}

#[tokio::test]
async fn model_of_no_route_is_for_the_first_route_only() {
    let x = Some(json!({"x": 1}));
    assert_eq!(
        asked("vendor-model", 1).await,
        [(0, "vendor-model".into(), x), (1, "own-model".into(), None)]
    );
}

#[tokio::test]
async fn route_that_the_model_names_is_called_first_with_the_extra_fields() {
    let x = || Some(json!({"x": 1}));
    for model in ["second", "own-model"] {
        assert_eq!(
            asked(model, 0).await,
            [(1, "own-model".into(), x()), (0, "".into(), None)],
            "{model}"
        );
    }
    assert_eq!(asked("third", 2).await, [(2, "".into(), Some(json!({"own": true})))]);
}

#[tokio::test]
async fn name_of_a_route_is_not_sent_as_a_model() {
    let expected = [("first", ""), ("second", "own-model"), ("third", "")];
    for (index, (name, own)) in expected.into_iter().enumerate() {
        let called = asked(name, index).await;
        assert_eq!((called.len(), &*called[0].1), (1, own), "{name}");
    }
}

#[tokio::test]
async fn conversation_is_not_copied_and_keeps_its_key() {
    struct Checks(usize);
    impl Provider for Checks {
        async fn complete_ref(
            &self,
            request: RequestRef<'_>,
        ) -> Result<CompletionResponse, ProviderError> {
            assert_eq!(request.messages.as_ptr() as usize, self.0);
            assert!(request.history_key().is_some());
            Err(busy())
        }

        async fn complete_stream_ref(
            &self,
            _: RequestRef<'_>,
        ) -> Result<StreamHandle, ProviderError> {
            Err(busy())
        }
    }
    let request = request();
    let address = request.messages.as_ptr() as usize;
    let router = Router::builder()
        .route(Route::new("a", Checks(address)).model("m"))
        .route(Route::new("b", Checks(address)).change(|settings| settings.max_tokens = Some(1)))
        .build()
        .unwrap();
    let keyed = request.view().with_history(HistoryKey::unique());
    assert!(router.complete_ref(keyed).await.is_err());
}
