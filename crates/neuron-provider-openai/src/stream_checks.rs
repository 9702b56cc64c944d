//! Functions that decode and check streams, for the tests of Chat Completions and of the Responses API, and the tests
//! of what both have in common.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use neuron_http::{AnswerStream, Decoder, Secret};
use neuron_types::{
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
