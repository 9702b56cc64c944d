//! A reader of lines in bounded memory.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Size of the read buffer in bytes, which is the capacity of a pipe on Linux.
const READ_BYTES: usize = 64 * 1024;
/// Number of bytes that are kept at each end of a line that is too long.
pub(crate) const END_BYTES: usize = 512;

/// A piece of the input. A line within the limit is one piece. A line that is too long gives two pieces, its beginning
/// and its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line without its line ending. The last line may have no line ending.
    Line(Vec<u8>),
    /// The first bytes of a line that exceeds the limit. The middle of the line is discarded. Its last bytes follow as
    /// `TooLongEnds`.
    TooLong {
        /// The beginning of the line, of at most [`END_BYTES`].
        head: Vec<u8>,
    },
    /// The end of a line that exceeds the limit.
    TooLongEnds {
        /// The end of the line, of at most [`END_BYTES`].
        tail: Vec<u8>,
        /// Length of the line in bytes.
        bytes: u64,
    },
}

/// A reader that splits a stream of bytes into lines that end with LF or CRLF.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    limit: usize,
    state: State,
}

/// The line that is being read.
#[derive(Debug)]
enum State {
    /// The bytes of a line that does not exceed the limit so far.
    Within(Vec<u8>),
    /// A line that exceeds the limit, with its last bytes (`tail`) and its length so far (`bytes`).
    Beyond { tail: Vec<u8>, bytes: u64 },
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader. A line may have at most `limit` bytes, without the line feed.
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self {
            input: BufReader::with_capacity(READ_BYTES, input),
            limit,
            state: State::Within(Vec::new()),
        }
    }

    /// Returns the next line or part of a long line. Skips empty lines. Returns `None` at the end of the stream, and in
    /// every later call.
    ///
    /// Cancel safe, because the reader keeps the bytes of an incomplete line.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let available = match self.input.fill_buf().await {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(self.state.end());
            }
            let length = memchr::memchr(b'\n', available).unwrap_or(available.len());
            let (line, rest) = available.split_at_checked(length).unwrap_or((available, &[]));
            let too_long = self.state.add(line, self.limit);
            let has_end = !rest.is_empty();
            // The line feed of a line that has just become too long is consumed by the next call.
            self.input.consume(if has_end && too_long.is_none() { length + 1 } else { length });
            if too_long.is_some() {
                return Ok(too_long);
            }
            if has_end && let Some(piece) = self.state.end() {
                return Ok(Some(piece));
            }
        }
    }
}

impl State {
    /// Adds bytes to the line. Returns the beginning of the line if the added bytes exceed the limit.
    fn add(&mut self, added: &[u8], limit: usize) -> Option<Piece> {
        match self {
            Self::Within(line) if line.len().saturating_add(added.len()) <= limit => {
                line.extend_from_slice(added);
                None
            }
            Self::Within(line) => {
                let mut head = line.get(..END_BYTES).unwrap_or(line).to_vec();
                let missing = END_BYTES - head.len();
                head.extend_from_slice(added.get(..missing).unwrap_or(added));
                let mut tail = Vec::new();
                keep_end(&mut tail, line);
                keep_end(&mut tail, added);
                *self = Self::Beyond { tail, bytes: (line.len() + added.len()) as u64 };
                Some(Piece::TooLong { head })
            }
            Self::Beyond { tail, bytes } => {
                keep_end(tail, added);
                *bytes += added.len() as u64;
                None
            }
        }
    }

    /// Ends the line and starts a new one. Returns `None` if the ended line is empty.
    fn end(&mut self) -> Option<Piece> {
        match std::mem::replace(self, Self::Within(Vec::new())) {
            Self::Within(mut line) => {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                (!line.is_empty()).then_some(Piece::Line(line))
            }
            Self::Beyond { tail, bytes } => Some(Piece::TooLongEnds { tail, bytes }),
        }
    }
}

/// Appends bytes to `tail`, and keeps only the last [`END_BYTES`].
fn keep_end(tail: &mut Vec<u8>, added: &[u8]) {
    tail.extend_from_slice(added.get(added.len().saturating_sub(END_BYTES)..).unwrap_or(added));
    tail.drain(..tail.len().saturating_sub(END_BYTES));
}

#[cfg(test)]
mod tests;
