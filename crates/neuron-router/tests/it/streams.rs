//! Tests of streams that break before and after their first content.

use neuron_model::{ProviderError, StreamEvent};
use neuron_testing::Reply;

use crate::support::{answering, ask_streamed, busy, calls, events, route_of, router, script};

fn texts<'e>(events: &'e [StreamEvent]) -> Vec<&'e str> {
    let text = |event: &'e StreamEvent| match event {
        StreamEvent::TextDelta(text) => Some(&**text),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[tokio::test]
async fn stream_that_breaks_before_its_content_falls_back() {
    let replies = [
        Reply::text("lost").fail_after(0, busy()),
        Reply::text("lost").end_early_after(0),
        Reply::text("lost").fail_after(0, ProviderError::StreamError("cut".into())),
    ];
    for reply in replies {
        let providers = [script([reply]), answering("b")];
        let events = events(&router(&providers)).await.unwrap();
        assert_eq!(texts(&events), ["b"]);
    }
}

#[tokio::test]
async fn stream_that_breaks_after_its_content_is_not_repeated() {
    let whole = Reply::text("one two three").chunk_chars(4);
    for cut in 1..=3 {
        let providers = [script([whole.clone().fail_after(cut, busy())]), answering("b")];
        let router = router(&providers);
        let seen = events(&router).await.unwrap();
        assert_eq!(texts(&seen), ["one ", "two ", "thre"][..cut].to_vec());
        let Some(StreamEvent::Error(error)) = seen.last() else { panic!("{seen:?}") };
        assert_eq!(error.to_string(), busy().to_string());
        assert_eq!(calls(&providers), [1, 0]);
        // The broken route cools off, so a retry of the caller is answered by the other route.
        assert_eq!(texts(&events(&router).await.unwrap()), ["b"]);
    }
}

#[tokio::test]
async fn stream_that_ends_without_an_error_after_its_content_ends_for_the_caller_too() {
    let providers = [script([Reply::text("one").end_early_after(1)]), answering("b")];
    let router = router(&providers);
    let seen = events(&router).await.unwrap();
    assert_eq!((texts(&seen), seen.len()), (vec!["one"], 1));
    assert_eq!(texts(&events(&router).await.unwrap()), ["b"]);
}

#[tokio::test]
async fn events_of_a_stream_are_the_same_as_without_a_router() {
    let reply = || {
        Reply::tool_call("call_1", "add", serde_json::json!({"a": 1}))
            .thinking("hm", "signature")
            .with_text("Let me add.")
    };
    let direct = events(&script([reply()])).await.unwrap();
    let routed = events(&router(&[script([reply()])])).await.unwrap();
    let deltas = |events: &[StreamEvent]| {
        let deltas = events.iter().filter(|event| event.is_delta());
        deltas.map(|event| format!("{event:?}")).collect::<Vec<_>>()
    };
    assert_eq!(deltas(&routed), deltas(&direct));
    assert_eq!(routed.len(), direct.len());
}

#[tokio::test]
async fn response_without_content_is_an_answer() {
    let providers = [script([Reply::text("")]), answering("b")];
    let response = ask_streamed(&router(&providers)).await.unwrap();
    assert_eq!((response.message.text(), route_of(&response).name), (String::new(), "a".into()));
}
