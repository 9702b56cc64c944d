//! Checks the parsing of streamed responses. The events must not depend on how the bytes are cut. A stream has exactly
//! one end, and the message at the end matches the deltas before it.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use neuron_testing::bedrock::frame;
use neuron_types::{CompletionResponse, ContentBlock, StreamEvent, ToolCall};

use crate::pieces::Cut;
use crate::vendor::{self, Vendor};
use crate::{assert_short, echo};

/// Parses a stream of Anthropic's Messages API.
pub fn anthropic(input: &[u8]) {
    check(&vendor::ANTHROPIC, input);
}

/// Parses a stream of OpenAI's Chat Completions API.
pub fn chat(input: &[u8]) {
    check(&vendor::CHAT, input);
}

/// Parses a stream of OpenAI's Responses API.
pub fn responses(input: &[u8]) {
    check(&vendor::RESPONSES, input);
}

/// Parses a stream of Ollama.
pub fn ollama(input: &[u8]) {
    check(&vendor::OLLAMA, input);
}

/// Parses a stream of Bedrock.
pub fn bedrock(input: &[u8]) {
    check(&vendor::BEDROCK, input);
}

/// Parses a stream of Bedrock, with a valid frame for each line of the input. A line is the name and the JSON of an
/// event or, if the name ends with `Exception`, of an error. Without this, the checksums would hide all changes.
pub fn bedrock_events(input: &[u8]) {
    let Some((cut, lines)) = input.split_first() else {
        return;
    };
    let mut stream = vec![*cut];
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (name, payload) = line.split_at(end);
        let name = String::from_utf8_lossy(name);
        let (header, kind) = match name.ends_with("Exception") {
            true => (":exception-type", "exception"),
            false => (":event-type", "event"),
        };
        stream.extend(frame(&[(":message-type", kind), (header, &name)], payload));
    }
    check(&vendor::BEDROCK, &stream);
}

/// Checks an input. Panics if the events of the whole stream and of its pieces differ, or if the stream does not end
/// with exactly one response or error.
fn check(vendor: &Vendor, input: &[u8]) {
    let cut = Cut::new(input);
    let whole = read(vendor, vec![Bytes::copy_from_slice(cut.whole)]);
    let in_pieces = read(vendor, cut.pieces());
    assert_eq!(without_made_ids(&whole), without_made_ids(&in_pieces));

    let Some((last, before)) = whole.split_last() else {
        panic!("a stream without an end");
    };
    let is_end = |event: &StreamEvent| {
        matches!(event, StreamEvent::ResponseComplete(_) | StreamEvent::Error(_))
    };
    assert!(!before.iter().any(is_end), "something follows the end: {whole:?}");
    match last {
        StreamEvent::ResponseComplete(response) => complete(vendor, before, response),
        StreamEvent::Error(error) => assert_short(error),
        other => panic!("{other:?} is no end"),
    }
}

/// Returns all events of a stream whose bytes are available immediately. Panics if the stream waits.
fn read(vendor: &Vendor, pieces: Vec<Bytes>) -> Vec<StreamEvent> {
    let mut receiver = (vendor.read_stream)(pieces).receiver;
    let mut context = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    loop {
        match Pin::new(&mut receiver).poll_next(&mut context) {
            Poll::Ready(Some(event)) => events.push(event),
            Poll::Ready(None) => return events,
            Poll::Pending => panic!("there is nothing to wait for"),
        }
    }
}

/// Formats events for a comparison. Removes the random ids that the parser creates for tool calls without an id.
fn without_made_ids(events: &[StreamEvent]) -> String {
    const HEX_DIGITS: usize = 32;
    let text = format!("{events:?}");
    let mut parts = text.split("call_");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_made = part.len() >= HEX_DIGITS
            && part.bytes().take(HEX_DIGITS).all(|byte| byte.is_ascii_hexdigit());
        masked.push_str("call_");
        masked.push_str(if is_made { &part[HEX_DIGITS..] } else { part });
    }
    masked
}

/// Checks a stream that ended with a response. `before` are the events before the last event.
fn complete(vendor: &Vendor, before: &[StreamEvent], response: &CompletionResponse) {
    // The usage and the complete message are always the last two events before the response.
    let [deltas @ .., StreamEvent::Usage(usage), StreamEvent::MessageComplete(message)] = before
    else {
        panic!("usage and message do not come before the response: {before:?}");
    };
    assert_eq!(usage, &response.usage);
    assert_eq!(message, &response.message);
    assert!(deltas.iter().all(StreamEvent::is_delta), "{deltas:?}");
    calls_begin_and_end(deltas);
    if vendor.assembles {
        pieces_make_the_message(deltas, response);
    }
    echo::check(vendor, response);
}

/// Checks that every tool call starts before its deltas and ends after them.
fn calls_begin_and_end(deltas: &[StreamEvent]) {
    let mut open: HashMap<&str, usize> = HashMap::new();
    for delta in deltas {
        match delta {
            StreamEvent::ToolUseStart { id, .. } => *open.entry(id).or_default() += 1,
            StreamEvent::ToolUseInputDelta { id, .. } => {
                assert!(open.get(id.as_str()).is_some_and(|calls| *calls > 0), "{deltas:?}");
            }
            StreamEvent::ToolUseEnd { id } => match open.get_mut(id.as_str()) {
                Some(calls) if *calls > 0 => *calls -= 1,
                _ => panic!("{id} ends and did not begin: {deltas:?}"),
            },
            _ => {}
        }
    }
    assert!(open.values().all(|calls| *calls == 0), "a call does not end: {deltas:?}");
}

/// Checks that the deltas contain exactly the text, the thinking and the tool calls of the message.
fn pieces_make_the_message(deltas: &[StreamEvent], response: &CompletionResponse) {
    let message = &response.message;
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            StreamEvent::TextDelta(piece) => text.push_str(piece),
            StreamEvent::ThinkingDelta(piece) => thinking.push_str(piece),
            StreamEvent::ToolUse { id, name, input } => calls.push((id, name, input)),
            _ => {}
        }
    }
    // A server may interleave the deltas of several blocks, but the message contains one block after the other. The
    // characters are therefore compared without their order.
    assert_eq!(letters(&text), letters(&message.text()), "{deltas:?} made {message:?}");
    let thoughts = message.content.iter().filter_map(|block| match block.portable()? {
        ContentBlock::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    assert_eq!(letters(&thinking), letters(&thoughts.collect::<String>()), "{message:?}");

    let whole = message.tool_uses().filter(|call| ToolCall::invalid_json(call.input).is_none());
    assert_eq!(whole.count(), calls.len(), "{deltas:?} made {message:?}");
    for (id, name, input) in calls {
        let is_it = message
            .tool_uses()
            .any(|call| call.id == id && call.name == name && call.input == input);
        assert!(is_it, "{id} is not in {message:?}");
    }
}

/// Returns the characters of a text in sorted order.
fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}
