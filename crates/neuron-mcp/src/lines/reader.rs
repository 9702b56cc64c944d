//! Lines that are read, in bounded memory.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// As much as a pipe holds on Linux.
const READ_BYTES: usize = 64 * 1024;
/// The bytes that are kept of each end of a line that is too long.
pub(crate) const END_BYTES: usize = 512;

/// A piece of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A line without its end. The last one may lack its end too.
    Line(Vec<u8>),
    /// The first bytes of a line that exceeds the limit. Its other bytes are discarded.
    TooLong {
        /// The line's beginning.
        head: Vec<u8>,
    },
    /// The end of a line that exceeds the limit.
    TooLongEnds {
        /// The line's end.
        tail: Vec<u8>,
        /// Length of the line.
        bytes: u64,
    },
}

/// Cuts a stream of bytes into lines that end with LF or CRLF.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    limit: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The line so far.
    Within(Vec<u8>),
    /// The last discarded bytes of a line, and the number of discarded bytes.
    Beyond { tail: Vec<u8>, bytes: u64 },
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `limit` bytes without the line feed.
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self {
            input: BufReader::with_capacity(READ_BYTES, input),
            limit,
            state: State::Within(Vec::new()),
        }
    }

    /// Returns the next line that is not empty. `None` at the end of the stream, and in every later call.
    ///
    /// Cancel safe: what was read stays in the reader.
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
            // A line that has just become too long ends with the next call.
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
    /// Adds bytes to the line. When it becomes too long by them, it is given up.
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

    /// The line is over. Nothing for an empty one.
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

/// Adds bytes to the end that is kept of a line.
fn keep_end(tail: &mut Vec<u8>, added: &[u8]) {
    tail.extend_from_slice(added.get(added.len().saturating_sub(END_BYTES)..).unwrap_or(added));
    tail.drain(..tail.len().saturating_sub(END_BYTES));
}

#[cfg(test)]
mod tests;
