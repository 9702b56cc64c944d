//! Decodes the content encodings gzip and deflate ([`Decoding`]).
//!
//! This crate asks for no encoding, but some proxies compress in any case
//! (<https://www.rfc-editor.org/rfc/rfc9110#name-content-encoding>).

use std::io::{self, BufRead, ErrorKind, Read};

use bytes::{Buf, Bytes};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};
use neuron_types::{BoxError, ProviderError};

/// Maximum length in bytes of a decoded chunk. A short chunk of a server may decode into gigabytes.
const CHUNK_BYTES: usize = 16 * 1024;

/// Maximum number of encodings, one around the other.
const MAX_ENCODINGS: usize = 2;

/// A content encoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Encoding {
    Gzip,
    Deflate,
}

/// Returns the encodings of a body, the outermost first. Empty for nearly every response. Also empty for an error with an
/// unknown encoding, because its status says more than its body.
///
/// # Errors
///
/// [`ProviderError::Other`] if the encoding of a successful response is unknown.
pub(crate) fn encodings(
    headers: &HeaderMap,
    status: StatusCode,
) -> Result<Vec<Encoding>, ProviderError> {
    let mut encodings = Vec::new();
    let values = headers.get_all(CONTENT_ENCODING).into_iter();
    let names = values.filter_map(|value| value.to_str().ok());
    for name in names.flat_map(|value| value.split(',')) {
        let name = name.trim().to_lowercase();
        match name.as_str() {
            "" | "identity" => {}
            "gzip" | "x-gzip" if encodings.len() < MAX_ENCODINGS => encodings.push(Encoding::Gzip),
            "deflate" if encodings.len() < MAX_ENCODINGS => encodings.push(Encoding::Deflate),
            _ if status.is_success() => return Err(ProviderError::Other(unknown(&name).into())),
            _ => return Ok(Vec::new()),
        }
    }
    // The last one was applied last.
    encodings.reverse();
    Ok(encodings)
}

fn unknown(name: &str) -> String {
    format!(
        "the response has the content encoding `{name}`, which cannot be decoded: the server or a proxy before it must \
         send gzip, deflate or no encoding"
    )
}

/// Decodes a body in pieces. Its caller adds the next piece whenever everything before is decoded.
pub(crate) struct Decoding {
    encoding: Encoding,
    /// `None` before the first byte.
    reader: Option<Reader>,
    /// Set after the end of the decoded data. What follows is discarded.
    is_over: bool,
}

enum Reader {
    Gzip(MultiGzDecoder<Feed>),
    /// What the standard calls deflate.
    Zlib(ZlibDecoder<Feed>),
    /// What some servers call deflate.
    Raw(DeflateDecoder<Feed>),
}

/// The bytes that have arrived and are not decoded yet.
#[derive(Default)]
struct Feed {
    bytes: Bytes,
    is_over: bool,
}

impl Decoding {
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { encoding, reader: None, is_over: false }
    }

    /// Adds a piece of the body.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() && !self.is_over {
            let encoding = self.encoding;
            let reader = self.reader.get_or_insert_with(|| Reader::new(encoding, &piece));
            reader.feed().bytes = piece;
        }
    }

    /// Marks the end of the body. Returns `false` if everything is decoded. A body without any byte is empty.
    pub(crate) fn end(&mut self) -> bool {
        match &mut self.reader {
            Some(reader) if !self.is_over => {
                reader.feed().is_over = true;
                true
            }
            _ => false,
        }
    }

    /// Returns the next decoded chunk. Returns `None` if the next piece is needed.
    pub(crate) fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        let reader = self.reader.as_mut().filter(|_| !self.is_over)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        match reader.read(&mut chunk) {
            Ok(0) => {
                self.is_over = true;
                None
            }
            Ok(length) => {
                chunk.truncate(length);
                Some(Ok(chunk.into()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => {
                self.is_over = true;
                Some(Err(format!("the body cannot be decoded: {error}").into()))
            }
        }
    }
}

impl Reader {
    /// Creates a reader. `first` are the first bytes of the body.
    fn new(encoding: Encoding, first: &[u8]) -> Self {
        // The first byte of zlib names its method, which is always 8.
        let is_zlib = first.first().is_some_and(|byte| byte & 0x0f == 8);
        match encoding {
            Encoding::Gzip => Self::Gzip(MultiGzDecoder::new(Feed::default())),
            Encoding::Deflate if is_zlib => Self::Zlib(ZlibDecoder::new(Feed::default())),
            Encoding::Deflate => Self::Raw(DeflateDecoder::new(Feed::default())),
        }
    }

    /// Returns the feed, which is empty when the reader would block.
    fn feed(&mut self) -> &mut Feed {
        match self {
            Self::Gzip(reader) => reader.get_mut(),
            Self::Zlib(reader) => reader.get_mut(),
            Self::Raw(reader) => reader.get_mut(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(reader) => reader.read(buffer),
            Self::Zlib(reader) => reader.read(buffer),
            Self::Raw(reader) => reader.read(buffer),
        }
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.bytes.is_empty() && !self.is_over {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(&self.bytes),
        }
    }

    fn consume(&mut self, amount: usize) {
        self.bytes.advance(amount.min(self.bytes.len()));
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use futures_util::{FutureExt, StreamExt, stream};
    use http::Response;
    use http_body_util::StreamBody;

    use super::*;
    use crate::chunks::{Chunks, decoded};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn raw(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn response(encoding: &str, pieces: Vec<Vec<u8>>) -> Response<Chunks> {
        let frame = |piece: Vec<u8>| Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(piece)));
        let chunks = Chunks::boxed(StreamBody::new(stream::iter(pieces).map(frame)));
        let mut response = Response::new(chunks);
        response.headers_mut().insert(CONTENT_ENCODING, encoding.parse().unwrap());
        response
    }

    /// Returns the decoded chunks, or the error.
    fn read(encoding: &str, pieces: Vec<Vec<u8>>) -> Result<Vec<Bytes>, String> {
        let response = decoded(response(encoding, pieces)).map_err(|error| error.to_string())?;
        let mut chunks = response.into_body();
        let chunks = stream::poll_fn(move |cx| chunks.poll_next(cx));
        let chunks: Vec<_> = chunks.collect().now_or_never().expect("all pieces are there");
        chunks.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    #[test]
    fn encoded_bodies_are_decoded_for_every_split() {
        let text = b"data: {\"a\": 1}\n\ndata: {\"a\": 2}\n\n".repeat(4);
        let members = [gzip(b"data: "), gzip(b"x\n\n")].concat();
        for (encoding, bytes, expected) in [
            ("gzip", gzip(&text), &text[..]),
            ("X-Gzip", gzip(&text), &text),
            ("deflate", zlib(&text), &text),
            ("deflate", raw(&text), &text),
            ("identity", text.clone(), &text),
            ("gzip", members, b"data: x\n\n"),
            ("deflate, gzip", gzip(&zlib(&text)), &text),
            ("gzip", gzip(b""), b""),
            ("gzip", Vec::new(), b""),
            ("deflate", [zlib(&text), b"more".to_vec()].concat(), &text),
        ] {
            for at in 0..=bytes.len() {
                let (first, second) = bytes.split_at(at);
                let pieces = vec![first.to_vec(), Vec::new(), second.to_vec()];
                assert_eq!(read(encoding, pieces).unwrap().concat(), expected, "{encoding} {at}");
            }
            let single = bytes.iter().map(|byte| vec![*byte]).collect();
            assert_eq!(read(encoding, single).unwrap().concat(), expected, "{encoding}");
        }
    }

    #[test]
    fn truncated_and_damaged_bodies_are_errors() {
        for (encoding, bytes) in [("gzip", gzip(b"hello")), ("deflate", zlib(b"hello"))] {
            for at in 1..bytes.len() {
                let error = read(encoding, vec![bytes[..at].to_vec()]).unwrap_err();
                assert!(
                    error.starts_with("the body cannot be decoded: "),
                    "{encoding} {at} {error}"
                );
            }
        }
        assert!(read("gzip", vec![b"{\"a\": 1}".to_vec()]).is_err());
    }

    /// What a server has sent and flushed is decoded before more arrives, so that a stream is not delayed.
    #[test]
    fn flushed_events_are_decoded_at_once() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut pieces = Vec::new();
        for event in ["one", "two", "three"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            pieces.push(std::mem::take(encoder.get_mut()));
        }
        pieces.push(encoder.finish().unwrap());
        assert_eq!(read("gzip", pieces).unwrap(), ["one", "two", "three"]);
    }

    #[test]
    fn decoded_chunks_are_short() {
        let bytes = gzip(&vec![b' '; 10_000_000]);
        assert!(bytes.len() < 20_000, "{}", bytes.len());
        let chunks = read("gzip", vec![bytes]).unwrap();
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
        assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), 10_000_000);
    }

    #[test]
    fn unknown_encoding_is_named() {
        for (encoding, name) in [("br", "br"), ("gzip, zstd", "zstd"), ("gzip,gzip,gzip", "gzip")] {
            let error = read(encoding, vec![b"x".to_vec()]).unwrap_err();
            assert!(error.contains(&format!("content encoding `{name}`")), "{error}");
        }
        // The status of an error says more than its body.
        let mut failed = response("br", vec![b"x".to_vec()]);
        *failed.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        assert!(decoded(failed).is_ok());
    }
}
