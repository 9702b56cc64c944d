//! Functions that decode and check streams, for the tests of Chat Completions and of the Responses API, and the tests
//! of what both have in common.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use neuron_http::{AnswerStream, Decoder, Secret};
use neuron_model::{
    CompletionResponse, ContentBlock, Message, ProviderError, StreamEvent, ToolCall,
};
use serde_json::{Value, json};

use crate::responses::stream::ResponsesDecoder;
use crate::stream::ChatDecoder;

pub(crate) const SECRET: &str = "sk-secret";

/// Decodes a stream to its end, and returns its events. All chunks are available immediately.
pub(crate) fn read<A>(pieces: Vec<Result<Bytes, ProviderError>>) -> Vec<StreamEvent>
where
    A: Decoder<Framing: Unpin> + Default + Unpin,
{
    read_with(A::default(), pieces)
}

/// Decodes a stream with a decoder that is not the default.
pub(crate) fn read_with<A>(
    decoder: A,
    pieces: Vec<Result<Bytes, ProviderError>>,
) -> Vec<StreamEvent>
where
    A: Decoder<Framing: Unpin> + Unpin,
{
    let secret = Secret::new(SECRET);
    let events = AnswerStream::from_bytes(stream::iter(pieces), decoder, secret);
    events.collect::<Vec<_>>().now_or_never().expect("nothing to wait for")
}

pub(crate) fn read_bytes<A>(bytes: &[u8]) -> Vec<StreamEvent>
where
    A: Decoder<Framing: Unpin> + Default + Unpin,
{
    read::<A>(vec![Ok(Bytes::copy_from_slice(bytes))])
}

/// Serialises `events` as server-sent events.
pub(crate) fn sse(events: &[Value]) -> Vec<u8> {
    let lines = events.iter().map(|event| format!("data: {event}\n\n"));
    lines.collect::<String>().into_bytes()
}

/// Returns the complete response of a stream. Checks that the response is the last event and matches the deltas.
#[track_caller]
pub(crate) fn response_of(events: &[StreamEvent]) -> &CompletionResponse {
    let [
        deltas @ ..,
        StreamEvent::Usage(usage),
        StreamEvent::MessageComplete(message),
        StreamEvent::ResponseComplete(response),
    ] = events
    else {
        panic!("no complete answer: {events:?}");
    };
    assert_eq!((usage, message), (&response.usage, &response.message), "the same thrice");
    let (mut text, mut thinking) = (String::new(), String::new());
    for event in deltas {
        match event {
            StreamEvent::TextDelta(piece) => text.push_str(piece),
            StreamEvent::ThinkingDelta(piece) => thinking.push_str(piece),
            _ => {}
        }
    }
    assert_eq!(text, message.text(), "the text of all deltas");
    assert_eq!(thinking, thoughts(message), "the reasoning of all deltas");
    check_calls(deltas, message);
    response
}

fn thoughts(message: &Message) -> String {
    let thought = |block: &ContentBlock| match block.portable() {
        Some(ContentBlock::Thinking { thinking, .. }) => Some(thinking.clone()),
        _ => None,
    };
    message.content.iter().filter_map(thought).collect()
}

/// Checks that each call has a start and an end. A call with valid arguments must also have a `ToolUse` event.
#[track_caller]
fn check_calls(deltas: &[StreamEvent], message: &Message) {
    let begun = deltas.iter().filter_map(|event| match event {
        StreamEvent::ToolUseStart { id, name } => Some((id.as_str(), name.as_str())),
        _ => None,
    });
    let calls: Vec<_> = message.tool_uses().collect();
    let expected: Vec<_> = calls.iter().map(|call| (call.id, call.name)).collect();
    assert_eq!(begun.collect::<Vec<_>>(), expected, "the calls that begin");
    for call in calls {
        let mut arguments = String::new();
        let mut whole = None;
        for event in deltas {
            match event {
                StreamEvent::ToolUseInputDelta { id, delta } if id == call.id => {
                    arguments.push_str(delta);
                }
                StreamEvent::ToolUse { id, input, .. } if id == call.id => whole = Some(input),
                _ => {}
            }
        }
        let ends = deltas
            .iter()
            .filter(|event| matches!(event, StreamEvent::ToolUseEnd { id } if id == call.id));
        assert_eq!(ends.count(), 1, "{} ends once", call.id);
        match ToolCall::invalid_json(call.input) {
            Some(raw) => assert_eq!((arguments.as_str(), whole), (raw, None)),
            None => assert_eq!(whole, Some(call.input)),
        }
    }
}

/// Checks that a stream ends with an error of this kind and without a response. Returns the error's text.
#[track_caller]
pub(crate) fn check_error(events: &[StreamEvent], kind: &str) -> String {
    let Some((StreamEvent::Error(error), before)) = events.split_last() else {
        panic!("no error at the end: {events:?}");
    };
    assert!(before.iter().all(StreamEvent::is_delta), "{before:?}");
    let error = ProviderError::from(error.clone());
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(!text.contains(SECRET), "{text}");
    text
}

/// Returns the deltas of a response as short texts, for example `text Hi` for a delta with the text `Hi`.
pub(crate) fn short(events: &[StreamEvent]) -> Vec<String> {
    let deltas = events.iter().filter(|event| event.is_delta());
    let shown = deltas.map(|event| match event {
        StreamEvent::TextDelta(text) => format!("text {text}"),
        StreamEvent::ThinkingDelta(text) => format!("thinking {text}"),
        StreamEvent::ToolUseStart { id, name } => format!("start {id} {name}"),
        StreamEvent::ToolUseInputDelta { id, delta } => format!("input {id} {delta}"),
        StreamEvent::ToolUseEnd { id } => format!("end {id}"),
        StreamEvent::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        other => format!("{other:?}"),
    });
    shown.collect()
}

/// Checks that a stream has the same events wherever its bytes are split. Also checks that a stream truncated before
/// the position `needed` ends with an error and without a response.
#[track_caller]
pub(crate) fn check_every_byte<A>(bytes: &[u8], needed: usize)
where
    A: Decoder<Framing: Unpin> + Default + Unpin,
{
    let shown = |events: Vec<StreamEvent>| format!("{events:?}");
    let piece = |bytes: &[u8]| Ok(Bytes::copy_from_slice(bytes));
    let whole = read_bytes::<A>(bytes);
    let message = response_of(&whole).message.clone();
    let expected = shown(whole);
    assert_eq!(shown(read::<A>(bytes.chunks(1).map(piece).collect())), expected);
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(shown(read::<A>(vec![piece(first), piece(second)])), expected, "split at {at}");
        let broken = Err(ProviderError::StreamError("reset".into()));
        for pieces in [vec![piece(first)], vec![piece(first), broken]] {
            let events = read::<A>(pieces);
            match events.last() {
                Some(StreamEvent::ResponseComplete(response)) if at >= needed => {
                    assert_eq!(response.message, message, "cut at {at}");
                }
                _ => drop(check_error(&events, "StreamError")),
            }
        }
    }
}

/// Decodes a stream of Chat Completions and a stream of the Responses API, each of which consists of an event that
/// begins the response and of `rest`, and both without the event. Returns the events of the four streams.
fn read_all(rest: &[u8]) -> [Vec<StreamEvent>; 4] {
    let chunk =
        json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]});
    let created = json!({"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}});
    let begun = |event| [sse(&[event]), rest.to_vec()].concat();
    [
        read_bytes::<ChatDecoder>(rest),
        read_bytes::<ChatDecoder>(&begun(chunk)),
        read_bytes::<ResponsesDecoder>(rest),
        read_bytes::<ResponsesDecoder>(&begun(created)),
    ]
}

/// Errors that stand where events were due, and error events whose body is unknown. None is skipped.
#[test]
fn errors_outside_of_known_events_are_reported() {
    let long = r#"{"error": {"message": "prompt is too long", "code": "x"}}"#;
    for (rest, kind, text) in [
        (long.to_owned(), "ContextWindowExceeded", "in the stream x: prompt is too long"),
        (format!("{long}\n"), "ContextWindowExceeded", "in the stream x: prompt is too long"),
        ("[{\"error\": {\"code\": \"too_many_requests\"}}]".into(), "RateLimit", "rate limited"),
        (
            "<html>sk-secret</html>".into(),
            "StreamError",
            "[redacted]</html>; the base URL is probably wrong",
        ),
        ("event: error\ndata: {\"oops\": 1}\n\n".into(), "StreamError", "{\"oops\": 1}"),
        ("event: error\n\n".into(), "StreamError", "the server reports an error"),
        ("event: error\ndata: oops".into(), "StreamError", "oops"),
        (format!("{long}\n\ndata: [DONE]\n\n"), "ContextWindowExceeded", "prompt is too long"),
        (format!("<html>{}sk-secret", " ".repeat(220)), "StreamError", "<html>"),
    ] {
        for events in read_all(rest.as_bytes()) {
            let found = check_error(&events, kind);
            assert!(found.contains(text) && !found.contains("sk-s"), "{found}");
        }
    }
}

/// What follows the end of a response has no effect, in the same chunk as in a later one. Regression test. An error
/// turned the complete response into an error if it arrived in the same chunk.
#[test]
fn bytes_after_the_end_are_ignored() {
    let chunk = json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]});
    let chat = [sse(&[chunk]), b"data: [DONE]\n\n".to_vec()].concat();
    let completed = json!({"type": "response.completed", "response": {"id": "resp_1", "model": "m", "status": "completed", "output": []}});
    let responses = sse(&[completed]);
    for rest in [
        "{\"error\": {\"message\": \"why\"}}\n",
        "event: error\ndata: {\"error\": {\"message\": \"why\"}}\n\n",
        "event: error\n\n",
        "data: {\"error\": \"why\"}\n\n",
        "<html>\"error\"</html>",
        "data: nonsense\n\ndata: [DONE]\n\n",
    ] {
        check_end::<ChatDecoder>(&chat, rest);
        check_end::<ResponsesDecoder>(&responses, rest);
    }
}

/// Checks that the stream `whole` has the same events if `rest` follows it.
#[track_caller]
fn check_end<A>(whole: &[u8], rest: &str)
where
    A: Decoder<Framing: Unpin> + Default + Unpin,
{
    let expected = read_bytes::<A>(whole);
    response_of(&expected);
    let piece = |bytes: &[u8]| Ok(Bytes::copy_from_slice(bytes));
    let joined = [whole, rest.as_bytes()].concat();
    for pieces in [
        vec![piece(&joined)],
        vec![piece(whole), piece(rest.as_bytes())],
        joined.chunks(1).map(piece).collect(),
    ] {
        assert_eq!(format!("{:?}", read::<A>(pieces)), format!("{expected:?}"), "{rest}");
    }
}
