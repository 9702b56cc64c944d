//! Decodes the binary frames of a stream.

use std::collections::BTreeMap;

use serde_json::Value;

/// A decoded frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    /// The value of each header.
    pub(crate) headers: BTreeMap<String, String>,
    /// The JSON of the payload. Null if the payload is empty.
    pub(crate) payload: Value,
}

impl Frame {
    /// Returns the value of a header, or an empty text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Returns the type of the event.
    pub(crate) fn name(&self) -> &str {
        self.header(":event-type")
    }
}

/// Decodes all frames of a stream. Panics if the bytes are not whole frames of string headers and JSON.
pub(crate) fn frames_of(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (frame, rest) = bytes.split_at(number(bytes));
        frames.push(frame_of(frame));
        bytes = rest;
    }
    frames
}

fn frame_of(frame: &[u8]) -> Frame {
    let (body, payload) = frame[12..frame.len() - 4].split_at(number(&frame[4..]));
    let mut headers = BTreeMap::new();
    let mut rest = body;
    while let Some((&length, after)) = rest.split_first() {
        let (name, after) = after.split_at(usize::from(length));
        assert_eq!(after[0], 7, "a header is no string");
        let length = usize::from(u16::from_be_bytes([after[1], after[2]]));
        let (value, after) = after[3..].split_at(length);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        headers.insert(text(name), text(value));
        rest = after;
    }
    let payload = match payload {
        [] => Value::Null,
        json => serde_json::from_slice(json).unwrap(),
    };
    Frame { headers, payload }
}

/// Reads the first four bytes as a number.
fn number(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes[..4].try_into().unwrap()).try_into().unwrap()
}
