//! Decodes server-sent events ([`SseDecoder`]).
//!
//! The decoder follows the
//! [standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream). Lines end with
//! LF, CR or CRLF. A line that begins with a colon is a comment. One space after the colon of a field is removed.
//! Several `data` lines of an event are joined with line feeds. Fields other than `data` are ignored.

use memchr::memchr2;
use neuron_types::ProviderError;

use crate::Framing;
use crate::framing::{append, check_size};

/// Decodes server-sent events from chunks of any size. A frame is the data of one event.
///
/// # Example
///
/// ```
/// use neuron_http::{Framing, SseDecoder};
///
/// let mut decoder = SseDecoder::default();
/// let mut events = Vec::new();
/// for piece in [&b"data: he"[..], b"llo\r\n\r", b"\n"] {
///     decoder.feed(piece, |data| {
///         events.push(data.to_vec());
///         Ok(())
///     })?;
/// }
/// assert_eq!(events, [b"hello"]);
/// # Ok::<_, neuron_types::ProviderError>(())
/// ```
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
    /// The `data` lines of the current event, joined with line feeds.
    data: Vec<u8>,
    /// Set if the current event has a `data` line, which may be empty.
    has_data: bool,
    /// Set if the last chunk ended with CR. If the next byte is LF, it belongs to the same line end.
    after_cr: bool,
    /// Set after the first line. Only the first line may start with a byte order mark.
    begun: bool,
}

impl Framing for SseDecoder {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = line_end(bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            if !self.line.is_empty() {
                check_size(self.line.len() + line.len())?;
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.end_line(&whole, &mut on_frame)?;
                // The buffer is put back to reuse its allocation.
                whole.clear();
                self.line = whole;
                continue;
            }
            // Fast path without a copy. Nearly every event has one `data` line, which is complete in this chunk.
            let after = match bytes {
                [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] if !self.has_data => Some(after),
                _ => None,
            };
            match after.zip(line.strip_prefix(b"data:")) {
                Some((after, value)) => {
                    self.begun = true;
                    bytes = after;
                    on_frame(value.strip_prefix(b" ").unwrap_or(value))?;
                }
                None => self.end_line(line, &mut on_frame)?,
            }
        }
        check_size(self.line.len() + self.data.len() + bytes.len())?;
        append(&mut self.line, bytes);
        Ok(())
    }

    /// Discards an incomplete event at the end of the stream, as the standard requires.
    fn finish(
        &mut self,
        _on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        Ok(())
    }
}

/// Returns the position of the first CR or LF. For a few bytes, a simple loop is faster than `memchr2`.
#[inline]
fn line_end(bytes: &[u8]) -> Option<usize> {
    match bytes.len() {
        ..16 => bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')),
        _ => memchr2(b'\n', b'\r', bytes),
    }
}

impl SseDecoder {
    /// Processes one complete line. An empty line ends the event and calls `on_frame` with its data.
    fn end_line(
        &mut self,
        line: &[u8],
        on_frame: &mut impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let line = match std::mem::replace(&mut self.begun, true) {
            true => line,
            false => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line),
        };
        if line.is_empty() {
            if !std::mem::take(&mut self.has_data) {
                return Ok(());
            }
            let result = on_frame(&self.data);
            self.data.clear();
            return result;
        }
        let Some(value) = line.strip_prefix(b"data") else {
            return Ok(());
        };
        let value = match value {
            [] => value,
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            // The line is a field with another name that starts with `data`.
            _ => return Ok(()),
        };
        check_size(self.data.len() + value.len())?;
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder
                .feed(piece, |data| {
                    events.push(String::from_utf8(data.to_vec()).unwrap());
                    Ok(())
                })
                .unwrap();
        }
        events
    }

    /// Checks the events that the decoder finds in `text`. Feeds the text in one piece, byte by byte, and in two pieces
    /// with every possible split.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let bytes = text.as_bytes();
        assert_eq!(decode(&[bytes]), expected);
        assert_eq!(decode(&bytes.chunks(1).collect::<Vec<_>>()), expected);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(decode(&[first, &[], second]), expected, "split at {at}");
        }
    }

    #[test]
    fn decoder_splits_events_of_every_form() {
        check("", &[]);
        check("data: a\n\n", &["a"]);
        check("data:a\n\ndata:  b\n\n", &["a", " b"]);
        check("data: a\r\n\r\ndata: b\r\rdata: c\n\n", &["a", "b", "c"]);
        check("event: x\nid: 7\nretry: 9\ndata: a\n\n", &["a"]);
        check(": comment\n\n:\n\ndata: a\n: in between\ndata: b\n\n", &["a\nb"]);
        check("data\n\ndata:\n\ndata\ndata\n\n", &["", "", "\n"]);
        check("database: a\nDATA: b\n data: c\n\n", &[]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("data: {\"text\":\"日本 🦀 é\"}\r\n\r\n", &["{\"text\":\"日本 🦀 é\"}"]);
    }

    #[test]
    fn incomplete_event_is_discarded() {
        check("data: a\n\ndata: b\n", &["a"]);
        check("data: a\n\ndata: b", &["a"]);
    }

    #[test]
    fn event_above_the_limit_is_an_error() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let none = |_: &[u8]| Ok(());
        let mut decoder = SseDecoder::default();
        let mut fed = 0;
        while decoder.feed(&megabyte, none).is_ok() {
            fed += 1;
            assert!(fed <= 64, "one line");
        }
        let mut decoder = SseDecoder::default();
        let line = [b"data: ".as_slice(), &megabyte, b"\n"].concat();
        let mut fed = 0;
        while decoder.feed(&line, none).is_ok() {
            fed += 1;
            assert!(fed <= 64, "many lines");
        }
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_chunk_boundaries(
            text in "(data|data:|: |event: |[ab\u{65e5}]|\r|\n|\r\n|\n\n){0,40}",
            cuts in prop::collection::vec(0_usize..200, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts {
                pieces.push(&bytes[start..cut]);
                start = cut;
            }
            pieces.push(&bytes[start..]);
            prop_assert_eq!(decode(&pieces), decode(&[bytes]));
        }
    }
}
