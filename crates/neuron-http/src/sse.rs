//! Decodes server-sent events ([`SseDecoder`]).
//!
//! The decoder follows the
//! [standard](https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream). Lines end with
//! LF, CR or CRLF. A line that begins with a colon is a comment. One space after the colon of a field is removed.
//! Several `data` lines of an event are joined with line feeds. Fields other than `data` are ignored, except for an event
//! with the name `error`.
//!
//! Some servers and proxies answer with JSON or an HTML page instead of events, or write an error between two events. The
//! standard ignores such lines. [`Framing::foreign`] returns them.

use memchr::memchr2;
use neuron_model::ProviderError;

use crate::Framing;
use crate::framing::{append, check_size, without_mark};

/// Maximum number of bytes that are kept of lines that belong to no event.
const MAX_FOREIGN_BYTES: usize = 16 * 1024;

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
/// # Ok::<_, neuron_model::ProviderError>(())
/// ```
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
    /// The `data` lines of the current event, joined with line feeds.
    data: Vec<u8>,
    /// Set if the current event has a `data` line, which may be empty.
    has_data: bool,
    /// Set if the current event has the name `error`.
    is_error: bool,
    /// The first lines of JSON or HTML that belong to no event, each with a line feed. Or the data of an event with the
    /// name `error` that the decoder does not know.
    foreign: Vec<u8>,
    /// Set if the last line belongs to `foreign`.
    in_foreign: bool,
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
                [b'\n', after @ ..] | [b'\r', b'\n', after @ ..]
                    if !(self.has_data || self.is_error) =>
                {
                    Some(after)
                }
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

    /// Discards an incomplete event at the end of the stream, as the standard requires. Only an error is not discarded.
    fn finish(
        &mut self,
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_line(&line, &mut on_frame)?;
        }
        match self.is_error && self.has_data {
            true => self.end_line(b"", &mut on_frame),
            false => Ok(()),
        }
    }

    fn foreign(&self) -> &[u8] {
        &self.foreign
    }
}

/// Returns the position of the first CR or LF. For a few bytes, a simple loop is faster than `memchr2`.
#[inline]
fn line_end(bytes: &[u8]) -> Option<usize> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    match bytes {
        [byte] => is_end(byte).then_some(0),
        bytes if bytes.len() < 16 => bytes.iter().position(is_end),
        bytes => memchr2(b'\n', b'\r', bytes),
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
            false => without_mark(line),
        };
        if line.is_empty() {
            self.in_foreign = false;
            let is_error = std::mem::take(&mut self.is_error);
            if !std::mem::take(&mut self.has_data) && !is_error {
                return Ok(());
            }
            let result = on_frame(&self.data);
            if is_error && result.is_ok() {
                // The decoder does not know this error.
                self.foreign = std::mem::take(&mut self.data);
                return Err(ProviderError::StreamError("the server reports an error".into()));
            }
            self.data.clear();
            return result;
        }
        let Some(value) = line.strip_prefix(b"data") else {
            match line.strip_prefix(b"event:") {
                Some(name) => self.is_error = name.trim_ascii() == b"error",
                None => self.keep_foreign(line),
            }
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

    /// Keeps a line that belongs to no event, if it begins like JSON or HTML, which no field of an event does. The lines
    /// after it are kept too, up to an empty line.
    fn keep_foreign(&mut self, line: &[u8]) {
        let is_start = matches!(line.trim_ascii_start(), [b'{' | b'[' | b'<', ..]);
        self.in_foreign |= is_start && self.foreign.is_empty();
        let room = MAX_FOREIGN_BYTES.saturating_sub(self.foreign.len());
        if self.in_foreign && room > 0 {
            self.foreign.extend_from_slice(line.get(..room).unwrap_or(line));
            self.foreign.push(b'\n');
        }
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
    fn lines_of_another_format_are_kept() {
        let page = "<html>\n<p>Not found</p>\n</html>";
        let error = "{\n  \"error\": {\"message\": \"no\"}\n}";
        for (text, expected) in [
            (error, error),
            (page, page),
            ("\u{feff}{}", "{}"),
            ("data: a\n\n{\"error\": 1}\n\ndata: b\n\n", "{\"error\": 1}"),
            ("{\"error\": 1}\n\n: ping\n\n{\"error\": 1}\n\nretry: 1\n", "{\"error\": 1}"),
            (": [1]\nid: {}\ndata: {}\n\n", ""),
        ] {
            let bytes = text.as_bytes();
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let mut decoder = SseDecoder::default();
                let mut on_frame = |_: &[u8]| Ok(());
                decoder.feed(first, &mut on_frame).unwrap();
                decoder.feed(second, &mut on_frame).unwrap();
                decoder.finish(on_frame).unwrap();
                let found = String::from_utf8(decoder.foreign().to_vec()).unwrap();
                assert_eq!(found.trim_end(), expected, "{text:?} {at}");
            }
        }
        let mut decoder = SseDecoder::default();
        for _ in 0..10_000 {
            decoder.feed(b"<html>\n", |_| Ok(())).unwrap();
        }
        assert!(decoder.foreign().len() <= MAX_FOREIGN_BYTES + 1);
    }

    #[test]
    fn event_named_error_is_never_skipped() {
        for (text, expected) in [
            ("event: error\ndata: {\"error\": \"no\"}\n\n", "{\"error\": \"no\"}"),
            ("event:error\ndata: oops\n\n", "oops"),
            ("event: error\n\n", ""),
            // Without its end.
            ("event: error\ndata: oops\n", "oops"),
            ("event: error\ndata: oops", "oops"),
        ] {
            let bytes = text.as_bytes();
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let mut decoder = SseDecoder::default();
                let ignore = |_: &[u8]| Ok(());
                let fed = decoder.feed(first, ignore).and_then(|()| decoder.feed(second, ignore));
                let error = fed.and_then(|()| decoder.finish(ignore)).unwrap_err();
                assert_eq!(error.to_string(), "stream error: the server reports an error");
                assert_eq!(decoder.foreign(), expected.as_bytes(), "{text:?} {at}");
            }
        }
        // A decoder that knows the error decides, and the name belongs to one event.
        let mut decoder = SseDecoder::default();
        let known = |_: &[u8]| Err(ProviderError::ServiceUnavailable("busy".into()));
        let error = decoder.feed(b"event: error\ndata: a\n\n", known).unwrap_err();
        assert_eq!(error.kind(), "ServiceUnavailable");
        check("event: error\nevent: ping\ndata: a\n\ndata: b\n\n", &["a", "b"]);
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
