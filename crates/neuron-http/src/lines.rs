//! Decodes newline-delimited JSON ([`LineDecoder`]).

use memchr::memchr;
use neuron_model::ProviderError;

use crate::Framing;
use crate::framing::{append, check_size};

/// Decodes newline-delimited JSON from chunks of any size. A frame is one line. Empty lines are ignored.
///
/// # Example
///
/// ```
/// use neuron_http::{Framing, LineDecoder};
///
/// let mut decoder = LineDecoder::default();
/// let mut lines = Vec::new();
/// for piece in [&b"{\"a\""[..], b":1}\n\r\n", b"{}"] {
///     decoder.feed(piece, |line| Ok(lines.push(line.to_vec())))?;
/// }
/// decoder.finish(|line| Ok(lines.push(line.to_vec())))?;
/// assert_eq!(lines, [&b"{\"a\":1}"[..], b"{}"]);
/// # Ok::<_, neuron_model::ProviderError>(())
/// ```
#[derive(Debug, Default)]
pub struct LineDecoder {
    /// The beginning of a line whose end has not arrived yet.
    line: Vec<u8>,
}

impl Framing for LineDecoder {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        while let Some(end) = line_end(bytes) {
            let (line, rest) = bytes.split_at(end);
            if self.line.is_empty() {
                end_line(line, &mut on_frame)?;
            } else {
                check_size(self.line.len() + line.len())?;
                self.line.extend_from_slice(line);
                let ended = end_line(&self.line, &mut on_frame);
                self.line.clear();
                ended?;
            }
            bytes = rest.get(1..).unwrap_or_default();
        }
        check_size(self.line.len() + bytes.len())?;
        append(&mut self.line, bytes);
        Ok(())
    }

    /// Emits the last line, which may have no line feed.
    fn finish(
        &mut self,
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        end_line(&std::mem::take(&mut self.line), &mut on_frame)
    }
}

/// Returns the position of the first line feed, or `None` if there is none. A simple loop is used for fewer than 16
/// bytes, where it is faster than `memchr`.
#[inline]
fn line_end(bytes: &[u8]) -> Option<usize> {
    match bytes.len() {
        ..16 => bytes.iter().position(|byte| *byte == b'\n'),
        _ => memchr(b'\n', bytes),
    }
}

/// Calls `on_frame` with a line, without surrounding white space. An empty line is ignored.
fn end_line(
    line: &[u8],
    on_frame: &mut impl FnMut(&[u8]) -> Result<(), ProviderError>,
) -> Result<(), ProviderError> {
    let line = line.trim_ascii();
    if line.is_empty() { Ok(()) } else { on_frame(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = LineDecoder::default();
        let mut lines = Vec::new();
        let mut keep = |line: &[u8]| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        };
        for piece in pieces {
            decoder.feed(piece, &mut keep).unwrap();
        }
        decoder.finish(&mut keep).unwrap();
        lines
    }

    /// Checks the lines that the decoder finds in `text`. Feeds the text in one piece, byte by byte, and in two pieces
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
    fn decoder_splits_lines_of_every_form() {
        check("", &[]);
        check("\n\r\n \n", &[]);
        check("a\nb\r\n  c \n", &["a", "b", "c"]);
        check("a\n日本 🦀", &["a", "日本 🦀"]);
    }

    #[test]
    fn line_above_the_limit_is_an_error() {
        let megabyte = vec![b'x'; 1024 * 1024];
        let mut decoder = LineDecoder::default();
        let mut fed = 0;
        while decoder.feed(&megabyte, |_| Ok(())).is_ok() {
            fed += 1;
            assert!(fed <= 64);
        }
    }
}
