//! Checks that frames match their format, and do not depend on the cuts of the bytes.

use neuron_http::{Framing, LineDecoder, SseDecoder};

use crate::pieces::Cut;

/// Decodes server-sent events.
pub fn sse_decoder(input: &[u8]) {
    check::<SseDecoder>(input, events_by_the_standard);
}

/// Decodes lines of JSON.
pub fn line_decoder(input: &[u8]) {
    check::<LineDecoder>(input, |bytes| {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    });
}

fn check<F: Framing + Default>(input: &[u8], expected: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let cut = Cut::new(input);
    let expected = expected(cut.whole);
    assert_eq!(decode::<F>([cut.whole]), expected);
    assert_eq!(decode::<F>(cut.pieces()), expected);
}

fn decode<F: Framing + Default>(pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Vec<u8>> {
    let mut decoder = F::default();
    let mut frames = Vec::new();
    let mut keep = |frame: &[u8]| {
        frames.push(frame.to_vec());
        Ok(())
    };
    for piece in pieces {
        decoder.feed(piece.as_ref(), &mut keep).expect("far below the limit");
    }
    decoder.finish(&mut keep).expect("far below the limit");
    frames
}

/// Returns the events with data, by the steps of the standard in their order.
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
fn events_by_the_standard(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let (mut events, mut data) = (Vec::new(), Vec::<&[u8]>::new());
    let mut rest = bytes;
    // A line without an end is not a line.
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let (line, after) = rest.split_at(end);
        rest = after.strip_prefix(b"\r\n").unwrap_or(&after[1..]);
        if line.is_empty() {
            if !data.is_empty() {
                events.push(data.join(&b'\n'));
            }
            data.clear();
            continue;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        if field == b"data" {
            data.push(value.strip_prefix(b" ").unwrap_or(value));
        }
    }
    events
}
