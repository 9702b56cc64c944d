//! Tests of the route in the metadata of an answer.

use neuron_model::{AnswerMetadata, CompletionRequest, Message, Provider, StreamEvent};
use neuron_router::{Route, Router};
use neuron_testing::Reply;

use crate::support::{answering, ask, busy, events, request, route_of, router, script};

#[tokio::test]
async fn route_is_in_the_last_events_of_a_stream_and_is_stored_with_the_message() {
    let providers = [script([Reply::error(busy())]), answering("b")];
    let seen = events(&router(&providers)).await.unwrap();
    let of = |message: &Message| message.metadata().unwrap().route.unwrap();
    let mut routes = Vec::new();
    for event in &seen {
        match event {
            StreamEvent::MessageComplete(message) => routes.push(of(message)),
            StreamEvent::ResponseComplete(response) => routes.push(of(&response.message)),
            _ => {}
        }
    }
    assert_eq!((routes.len(), &*routes[0].name), (2, "b"));
    assert_eq!(routes[0], routes[1]);
    let json = serde_json::to_value(&routes[0]).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "name": "b",
            "provider": "scripted",
            "model": "scripted-model",
            "failed": [{
                "name": "a",
                "error": {"kind": "ServiceUnavailable", "detail": "529 busy"},
            }],
        })
    );
}

#[tokio::test]
async fn metadata_of_the_provider_is_kept() {
    let mut metadata = AnswerMetadata::default();
    metadata.request_id = Some("req_1".into());
    let content = Message::assistant("hi").with_metadata(&metadata).content;
    let response = ask(&router(&[script([Reply::message(content)])])).await.unwrap();
    assert_eq!(response.message.metadata().unwrap().request_id.as_deref(), Some("req_1"));
    assert_eq!(route_of(&response).name, "a");
}

/// The response may name the model differently, for example with a date.
#[tokio::test]
async fn route_names_the_requested_model() {
    let check = async |change: fn(Route) -> Route, model: &str, expected: &str| {
        let answers = [Reply::text("hi").model("m-2026"), Reply::text("hi").model("m-2026")];
        let route = change(Route::new("fast", script(answers)));
        let router = Router::builder().route(route).build().unwrap();
        let request = CompletionRequest { model: model.into(), ..request() };
        let whole = router.complete_ref(request.view()).await.unwrap();
        let handle = router.complete_stream_ref(request.view()).await.unwrap();
        for response in [whole, handle.into_response().await.unwrap()] {
            assert_eq!((&*response.model, &*route_of(&response).model), ("m-2026", expected));
        }
    };
    check(|route| route, "", "scripted-model").await;
    check(|route| route, "fast", "scripted-model").await;
    check(|route| route, "m", "m").await;
    check(|route| route.model("own"), "m", "own").await;
    check(|route| route.model("own").change(|it| it.model = "x".into()), "", "x").await;
}

#[tokio::test]
async fn router_inside_a_router_names_the_model_of_the_inner_route() {
    let inner = Router::builder().route(Route::new("in", answering("hi")).model("m")).build();
    let outer = Router::builder().route(Route::new("out", inner.unwrap())).build().unwrap();
    let route = route_of(&ask(&outer).await.unwrap());
    assert_eq!((&*route.name, &*route.model), ("in", "m"));
}
