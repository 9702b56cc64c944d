//! Tests of the route in the metadata of an answer.

use neuron_testing::Reply;
use neuron_types::{AnswerMetadata, Message, StreamEvent};

use crate::support::{answering, ask, busy, events, route_of, router, script};

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
