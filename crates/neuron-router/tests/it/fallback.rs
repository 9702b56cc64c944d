//! Tests of the fallback by kind of error, and of the error of a call that no route answered.

use std::time::Duration;

use neuron_model::ProviderError;
use neuron_router::{Route, Router};
use neuron_testing::Reply;

use crate::support::{
    answering, ask, ask_streamed, busy, calls, failing, limited, route_of, router, routes, script,
    text, too_long,
};

#[tokio::test]
async fn next_route_answers_after_an_error_of_the_vendor() {
    let errors: [fn() -> ProviderError; 8] = [
        busy,
        || limited(5),
        || ProviderError::Timeout(Duration::from_secs(1)),
        || ProviderError::Network("reset".into()),
        || ProviderError::ModelLoading("loading".into()),
        || ProviderError::InsufficientResources("quota".into()),
        || ProviderError::ModelNotFound("gone".into()),
        || ProviderError::StreamError("cut".into()),
    ];
    for error in errors {
        let providers = [failing(error), answering("b")];
        let router = router(&providers);
        assert_eq!(text(&router).await.unwrap(), "b");
        assert_eq!(ask_streamed(&router).await.unwrap().message.text(), "b");
    }
}

#[tokio::test]
async fn error_of_the_request_is_returned_at_once() {
    let errors: [fn() -> ProviderError; 3] = [
        || ProviderError::InvalidRequest("no".into()),
        || ProviderError::Authentication("wrong key".into()),
        || ProviderError::Other("odd".into()),
    ];
    for error in errors {
        let providers = [failing(error), answering("b")];
        let router = router(&providers);
        let failed = ask(&router).await.unwrap_err();
        assert_eq!(failed.kind(), error().kind());
        assert!(ask_streamed(&router).await.is_err());
        assert_eq!(calls(&providers), [2, 0]);
    }
}

#[tokio::test]
async fn wrong_key_falls_back_only_if_allowed() {
    let providers = [failing(|| ProviderError::Authentication("wrong".into())), answering("b")];
    let router = routes(&providers).fall_back_on_authentication().build().unwrap();
    assert_eq!(text(&router).await.unwrap(), "b");
}

#[tokio::test]
async fn request_that_exceeds_a_window_goes_only_to_larger_windows() {
    let providers = [failing(too_long), answering("b"), answering("c"), answering("d")];
    let windows = [Some(100), Some(100), None, Some(200)];
    let builder = ["a", "b", "c", "d"].into_iter().zip(&providers).zip(windows).fold(
        Router::builder(),
        |builder, ((name, provider), window)| {
            let route = Route::new(name, provider.clone());
            builder.route(match window {
                Some(tokens) => route.context_window(tokens),
                None => route,
            })
        },
    );
    let router = builder.build().unwrap();
    assert_eq!(text(&router).await.unwrap(), "d");
    // The window of a request says nothing about other requests, so the first route is called again.
    assert_eq!(text(&router).await.unwrap(), "d");
    assert_eq!(calls(&providers), [2, 0, 0, 2]);
}

#[tokio::test]
async fn exceeded_window_without_a_larger_window_stays_that_error() {
    let providers = [failing(too_long), answering("b")];
    let error = ask(&router(&providers)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "context window exceeded: no route answered: `a`: context window exceeded: prompt is too \
         long; `b` was not called: its window is not larger"
    );
    assert!(matches!(error, ProviderError::ContextWindowExceeded(_)));
}

#[tokio::test]
async fn error_lists_every_route_and_is_retryable_if_any_is() {
    let providers = [failing(busy), failing(|| ProviderError::ModelNotFound("gone".into()))];
    for is_streamed in [false, true] {
        let router = router(&providers);
        let error = match is_streamed {
            true => ask_streamed(&router).await.unwrap_err(),
            false => ask(&router).await.unwrap_err(),
        };
        assert_eq!(
            error.to_string(),
            "service unavailable: no route answered: `a`: service unavailable: 529 busy; `b`: \
             model not found: gone"
        );
        assert!(error.is_retryable() && error.takes_no_tokens());
    }
}

#[tokio::test]
async fn broken_stream_is_the_kind_of_the_error_because_it_may_have_used_tokens() {
    let refusals: [fn() -> ProviderError; 2] = [
        || ProviderError::ModelNotFound("gone".into()),
        || ProviderError::InvalidRequest("no".into()),
    ];
    for refusal in refusals {
        let providers = [failing(|| ProviderError::StreamError("cut".into())), failing(refusal)];
        let error = ask_streamed(&router(&providers)).await.unwrap_err();
        assert!(matches!(error, ProviderError::StreamError(_)), "{error:?}");
        assert!(!error.takes_no_tokens() && !error.is_retryable());
    }
}

#[tokio::test]
async fn answer_lists_the_failed_routes() {
    let providers = [failing(busy), failing(too_long), answering("c")];
    let router = Router::builder()
        .route(Route::new("a", providers[0].clone()))
        .route(Route::new("b", providers[1].clone()))
        .route(Route::new("c", providers[2].clone()).context_window(1))
        .build()
        .unwrap();
    let route = route_of(&ask(&router).await.unwrap());
    assert_eq!((&*route.name, &*route.provider), ("c", "scripted"));
    let failed: Vec<_> =
        route.failed.iter().map(|failed| (&*failed.name, &*failed.error.kind)).collect();
    assert_eq!(failed, [("a", "ServiceUnavailable"), ("b", "ContextWindowExceeded")]);
}

#[tokio::test]
async fn router_in_a_router_falls_back_too() {
    let inner = router(&[failing(busy)]);
    let outer = Router::builder()
        .route(Route::new("inner", inner))
        .route(Route::new("last", script([Reply::text("last")])))
        .build()
        .unwrap();
    let response = ask(&outer).await.unwrap();
    assert_eq!(response.message.text(), "last");
    assert!(route_of(&response).failed[0].error.detail.contains("`a`: service unavailable"));
}

#[test]
fn invalid_settings_are_refused() {
    let check = |result: Result<Router, ProviderError>, expected: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), format!("invalid request: {expected}"));
    };
    check(Router::builder().build(), "the router has no routes: add one with `route`");
    let route = || Route::new("a", script([]));
    check(
        Router::builder().route(route()).route(Route::new("b", script([]))).route(route()).build(),
        "two routes have the name `a`: rename one",
    );
    for share in [-0.1, 1.1, f64::NAN] {
        let shadow = neuron_router::Shadow::new(route(), share, |_| {});
        check(
            Router::builder().route(route()).shadow(shadow).build(),
            &format!("the share of the shadow is {share}: use a share from 0 to 1"),
        );
    }
}
