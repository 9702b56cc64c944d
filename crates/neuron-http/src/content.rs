//! Decodes the content encoding of a response body ([`Content`]).
//!
//! No request asks for an encoding. By [RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3) a server may
//! then use any of them, and some servers and proxies compress every response.

use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use neuron_model::BoxError;

use crate::chunks::Chunks;
use crate::secret::excerpt;

/// The content encoding that the headers of a response name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Deflate,
}

impl Encoding {
    /// Returns the encoding that the header `content-encoding` names.
    ///
    /// # Errors
    ///
    /// Returns a text for the user if the encoding is not supported. On wasm32 this never happens, because the browser
    /// has decoded the body, and the header may remain.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, String> {
        if cfg!(target_family = "wasm") {
            return Ok(Self::Identity);
        }
        let mut found = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                let encoding = Self::named(name);
                match encoding {
                    Some(Self::Identity) => {}
                    Some(encoding) if found == Self::Identity => found = encoding,
                    None => return Err(unsupported(&format!("`{}`", excerpt(name)))),
                    Some(_) => return Err(unsupported("in more than one layer")),
                }
            }
        }
        Ok(found)
    }

    /// Returns the encoding with this name. Returns `None` if the encoding is not supported.
    fn named(name: &[u8]) -> Option<Self> {
        // https://www.iana.org/assignments/http-parameters/http-parameters.xhtml#content-coding
        const UNSUPPORTED: [&str; 6] = ["br", "zstd", "compress", "x-compress", "dcb", "dcz"];
        let is = |other: &&str| name.eq_ignore_ascii_case(other.as_bytes());
        if ["gzip", "x-gzip"].iter().any(is) {
            Some(Self::Gzip)
        } else if is(&"deflate") {
            Some(Self::Deflate)
        } else {
            // Some servers name the character encoding or the media type here, and the body is plain.
            (!UNSUPPORTED.iter().any(is)).then_some(Self::Identity)
        }
    }

    /// Returns the format of a body by its first bytes. Returns `None` if more bytes are needed to decide.
    ///
    /// A body with the bytes of gzip is gzip, whatever its headers say. Neither JSON, an event nor a binary frame
    /// begins with them. A body that is named gzip without these bytes is not compressed.
    fn format(self, bytes: &[u8]) -> Option<Format> {
        match (bytes, self) {
            ([0x1f, 0x8b, ..], _) => Some(Format::Gzip),
            ([] | [0x1f], _) | ([_], Self::Deflate) => None,
            // The header of zlib: https://www.rfc-editor.org/rfc/rfc1950#page-4
            ([first, second, ..], Self::Deflate)
                if first & 0x8f == 8
                    && u16::from_be_bytes([*first, *second]).is_multiple_of(31) =>
            {
                Some(Format::Zlib)
            }
            // JSON, events and JSON lines that a proxy names deflate. A raw stream of deflate begins with `{`, `[` or
            // `:` only if its text begins with a byte above 143.
            ([b'{' | b'[' | b':', ..], Self::Deflate) => Some(Format::Plain),
            ([first, second, ..], Self::Deflate)
                if [*b"da", *b"ev", *b"id", *b"re"].contains(&[*first, *second]) =>
            {
                Some(Format::Plain)
            }
            // Some servers send deflate without the header of zlib.
            (_, Self::Deflate) => Some(Format::Raw),
            (_, Self::Identity | Self::Gzip) => Some(Format::Plain),
        }
    }
}

/// Returns the text of an error about the encoding `shown`.
fn unsupported(shown: &str) -> String {
    format!(
        "the response has the content encoding {shown}, which is not supported: make the server or the proxy send \
         gzip, deflate or no encoding, or send the request with a client of your own that decodes it"
    )
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Plain,
    Gzip,
    /// Deflate within zlib, which HTTP calls deflate.
    Zlib,
    /// Deflate alone.
    Raw,
}

/// The chunks of a response body without its content encoding.
pub(crate) struct Content {
    chunks: Chunks,
    state: State,
}

enum State {
    /// The format is not known yet. The bytes are those that arrived, at most one.
    Start(Encoding, Bytes),
    Plain,
    Compressed(Box<Inflater>),
    Ended,
}

impl Content {
    /// Creates the content of a body whose headers name `encoding`.
    pub(crate) fn new(chunks: Chunks, encoding: Encoding) -> Self {
        Self { chunks, state: State::Start(encoding, Bytes::new()) }
    }

    /// Polls for the next chunk. Returns `None` at the end of the body. A decoded chunk has at most [`MAX_PIECE`]
    /// bytes.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            match &mut self.state {
                State::Plain => return self.chunks.poll_next(cx),
                State::Ended => return Poll::Ready(None),
                State::Start(encoding, held) => {
                    let bytes = match ready!(self.chunks.poll_next(cx)) {
                        Some(Ok(chunk)) if held.is_empty() => chunk,
                        Some(Ok(chunk)) => [std::mem::take(held), chunk].concat().into(),
                        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                        None => {
                            let (held, encoding) = (std::mem::take(held), *encoding);
                            self.state = State::Ended;
                            return Poll::Ready(match encoding {
                                _ if held.is_empty() => None,
                                Encoding::Identity => Some(Ok(held)),
                                Encoding::Gzip => Some(Err(cut("gzip"))),
                                Encoding::Deflate => Some(Err(cut("deflate"))),
                            });
                        }
                    };
                    match encoding.format(&bytes) {
                        None => *held = bytes,
                        Some(Format::Plain) => {
                            self.state = State::Plain;
                            return Poll::Ready(Some(Ok(bytes)));
                        }
                        Some(format) => {
                            self.state = State::Compressed(Box::new(Inflater::new(format, bytes)));
                        }
                    }
                }
                State::Compressed(inflater) => {
                    let next = match inflater.next() {
                        Ok(None) => match ready!(self.chunks.poll_next(cx)) {
                            Some(Ok(chunk)) => {
                                inflater.input = chunk;
                                continue;
                            }
                            Some(Err(error)) => Err(error),
                            None => inflater.finish().map(|()| None),
                        },
                        next => next,
                    };
                    if !matches!(next, Ok(Some(_))) {
                        self.state = State::Ended;
                    }
                    return Poll::Ready(next.transpose());
                }
            }
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").finish_non_exhaustive()
    }
}

/// Maximum size in bytes of a decoded piece (64 KiB). A few bytes of a hostile body may decode to a thousand times as
/// many, and the reader checks its limits between two pieces.
const MAX_PIECE: usize = 64 * 1024;

/// Minimum capacity in bytes of a decoded piece.
const MIN_PIECE: usize = 1024;

/// Maximum size in bytes of the header of a gzip member (64 KiB). Servers send ten bytes.
const MAX_HEADER: usize = 64 * 1024;

/// A streaming decoder of deflate, in gzip, in zlib or alone.
struct Inflater {
    format: Format,
    stage: Stage,
    inflate: Decompress,
    /// Checksum and length of the decoded bytes of a gzip member.
    checksum: Crc,
    /// Bytes that are not decoded yet.
    input: Bytes,
    /// Beginning of a header or a trailer that is still incomplete.
    held: Bytes,
    /// Set if the last piece was filled, so that decoded bytes may wait without further input.
    is_full: bool,
}

/// The part of the body that comes next.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The header of a gzip member.
    Header,
    Data,
    /// The checksum and the length after the data of a gzip member.
    Trailer,
    /// Zeros after a gzip member, or the next member.
    Padding,
    /// Bytes after the end, which are ignored as gzip itself does.
    Rest,
}

impl Inflater {
    fn new(format: Format, input: Bytes) -> Self {
        let stage = if format == Format::Gzip { Stage::Header } else { Stage::Data };
        Self {
            format,
            stage,
            inflate: Decompress::new(format == Format::Zlib),
            checksum: Crc::new(),
            input,
            held: Bytes::new(),
            is_full: false,
        }
    }

    /// Decodes the next piece. Returns `None` if more input is needed.
    fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            if !self.held.is_empty() {
                let held = std::mem::take(&mut self.held);
                self.input = [held, std::mem::take(&mut self.input)].concat().into();
            }
            match self.stage {
                Stage::Header => match header_rest(&self.input)?.map(<[u8]>::len) {
                    Some(rest) => {
                        self.input.advance(self.input.len().saturating_sub(rest));
                        self.stage = Stage::Data;
                    }
                    None if self.input.len() > MAX_HEADER => {
                        return Err(damaged("gzip", "its header is too long"));
                    }
                    None => return Ok(self.hold()),
                },
                Stage::Data if self.input.is_empty() && !self.is_full => return Ok(None),
                Stage::Data => {
                    let piece = self.inflate()?;
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                }
                Stage::Trailer => {
                    let Some((trailer, _)) = self.input.split_first_chunk::<8>() else {
                        return Ok(self.hold());
                    };
                    // https://www.rfc-editor.org/rfc/rfc1952#page-5
                    let expected = u64::from_le_bytes(*trailer);
                    let length = u64::from(self.checksum.amount()) << 32;
                    if expected != length | u64::from(self.checksum.sum()) {
                        return Err(damaged("gzip", "its checksum is wrong"));
                    }
                    self.input.advance(8);
                    self.stage = Stage::Padding;
                }
                Stage::Padding => {
                    let zeros = self.input.iter().take_while(|byte| **byte == 0).count();
                    self.input.advance(zeros);
                    match &*self.input {
                        [] => return Ok(None),
                        [0x1f] => return Ok(self.hold()),
                        [0x1f, 0x8b, ..] => {
                            self.inflate.reset(false);
                            self.checksum.reset();
                            self.stage = Stage::Header;
                        }
                        _ => self.stage = Stage::Rest,
                    }
                }
                Stage::Rest => {
                    self.input.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Decodes a piece, which may be empty.
    fn inflate(&mut self) -> Result<Bytes, BoxError> {
        let capacity = self.input.len().saturating_mul(4).clamp(MIN_PIECE, MAX_PIECE);
        let mut piece = Vec::with_capacity(capacity);
        let before = self.inflate.total_in();
        let status = self.inflate.decompress_vec(&self.input, &mut piece, FlushDecompress::None);
        let status = status.map_err(|error| damaged(self.name(), error))?;
        let used = usize::try_from(self.inflate.total_in() - before).unwrap_or(usize::MAX);
        self.input.advance(used.min(self.input.len()));
        self.is_full = piece.len() == piece.capacity();
        if status == Status::StreamEnd {
            self.is_full = false;
            self.stage = if self.format == Format::Gzip { Stage::Trailer } else { Stage::Rest };
        } else if used == 0 && piece.is_empty() && !self.input.is_empty() {
            return Err(damaged(self.name(), "it cannot be decoded"));
        }
        if self.format == Format::Gzip {
            self.checksum.update(&piece);
        }
        Ok(piece.into())
    }

    /// Keeps an incomplete header or trailer until more input arrives.
    fn hold(&mut self) -> Option<Bytes> {
        self.held = std::mem::take(&mut self.input);
        None
    }

    /// Handles the end of the body. Returns an error if the body is incomplete.
    fn finish(&self) -> Result<(), BoxError> {
        match self.stage {
            Stage::Padding | Stage::Rest => Ok(()),
            Stage::Header | Stage::Data | Stage::Trailer => Err(cut(self.name())),
        }
    }

    fn name(&self) -> &'static str {
        if self.format == Format::Gzip { "gzip" } else { "deflate" }
    }
}

/// Returns the bytes after the [header](https://www.rfc-editor.org/rfc/rfc1952#page-5) of a gzip member. Returns `None`
/// if the header is incomplete.
fn header_rest(bytes: &[u8]) -> Result<Option<&[u8]>, BoxError> {
    const DEFLATE: u8 = 8;
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    const RESERVED: u8 = 0xe0;
    let Some((fixed, rest)) = bytes.split_first_chunk::<10>() else {
        return Ok(None);
    };
    let [_, _, method, flags, ..] = *fixed;
    if method != DEFLATE || flags & RESERVED != 0 {
        return Err(damaged("gzip", "its header is unknown"));
    }
    let has = |flag: u8| flags & flag != 0;
    let rest = || {
        let mut rest = rest;
        if has(EXTRA) {
            let (length, after) = rest.split_first_chunk::<2>()?;
            rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
        }
        for flag in [NAME, COMMENT] {
            if has(flag) {
                rest = rest.get(memchr::memchr(0, rest)? + 1..)?;
            }
        }
        rest.get(if has(CHECKSUM) { 2 } else { 0 }..)
    };
    Ok(rest())
}

/// Returns the error of a body that ends too early.
fn cut(name: &str) -> BoxError {
    format!("the {name} body ended before it was complete").into()
}

/// Returns the error of a body with an invalid part.
fn damaged(name: &str, reason: impl fmt::Display) -> BoxError {
    format!("the {name} body is damaged: {reason}").into()
}

#[cfg(test)]
mod tests;
