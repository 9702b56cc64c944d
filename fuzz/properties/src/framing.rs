//! Checks that the decoders split a byte stream into the expected frames, no matter into which pieces the bytes are
//! cut.

use neuron_http::{Framing, LineDecoder, SseDecoder};

use crate::pieces::Cut;

/// Compares the decoder for server-sent events with the algorithm of the standard.
pub fn sse_decoder(input: &[u8]) {
    check::<SseDecoder>(input, events_by_the_standard);
}

/// Compares the decoder for lines of JSON with a split at line feeds.
pub fn line_decoder(input: &[u8]) {
    check::<LineDecoder>(input, |bytes| {
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    });
}

/// Checks a decoder on the whole input and on its pieces. `expected` returns the expected frames.
fn check<F: Framing + Default>(input: &[u8], expected: impl Fn(&[u8]) -> Vec<Vec<u8>>) {
    let cut = Cut::new(input);
    let expected = expected(cut.whole);
    assert_eq!(decode::<F>([cut.whole]), expected);
    assert_eq!(decode::<F>(cut.pieces()), expected);
}

/// Returns the frames that a decoder finds in these pieces.
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

/// Returns the data of the events in a stream, according to the algorithm of the standard. Events without data are left
/// out.
///
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
fn events_by_the_standard(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let (mut events, mut data) = (Vec::new(), Vec::<&[u8]>::new());
    let mut rest = bytes;
    // The standard discards a last line without a line end.
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
