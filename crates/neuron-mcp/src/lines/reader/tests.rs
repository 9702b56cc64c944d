//! Tests of the reader with inputs that are split at every byte.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::*;

/// A reader that returns one element of its list with each read. Before each element, the reader is pending once.
struct Parts {
    parts: VecDeque<Vec<u8>>,
    is_ready: bool,
}

impl AsyncRead for Parts {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.is_ready = !self.is_ready;
        if !self.is_ready {
            ctx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(part) = self.parts.pop_front() {
            to.put_slice(&part);
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads all pieces of the input `parts`, with lines of at most `limit` bytes. Each pending read is dropped and started
/// again, because the SDK may do so too.
fn read(parts: impl IntoIterator<Item = Vec<u8>>, limit: usize) -> Vec<Piece> {
    let parts = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut reader = LineReader::new(Parts { parts, is_ready: false }, limit);
    let mut pieces = Vec::new();
    loop {
        match reader.next().now_or_never() {
            None => {}
            Some(Ok(Some(piece))) => pieces.push(piece),
            Some(Ok(None)) => return pieces,
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

/// Computes the pieces that the reader should return for `text`, by a simple algorithm. Lines of more than `limit`
/// bytes are too long.
fn expected(text: &[u8], limit: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if line.len() > limit {
            pieces.push(Piece::TooLong { head: line.iter().copied().take(END_BYTES).collect() });
            let tail = line[line.len().saturating_sub(END_BYTES)..].to_vec();
            pieces.push(Piece::TooLongEnds { tail, bytes: line.len() as u64 });
            continue;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            pieces.push(Piece::Line(line.to_vec()));
        }
    }
    pieces
}

/// Empties the `head` of each [`Piece::TooLong`], because its length depends on the boundaries of the reads.
fn without_short_heads(pieces: Vec<Piece>) -> Vec<Piece> {
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::TooLong { .. } => Piece::TooLong { head: vec![] },
            piece => piece,
        })
        .collect()
}

#[test]
fn input_split_at_any_byte_gives_the_same_pieces() {
    let text = "{\"a\":1}\r\n\n\r\n  \näöü\nlonger than ten\nshort\r\nno end".as_bytes();
    for limit in [10, 100] {
        let whole = without_short_heads(expected(text, limit));
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let pieces = read([first.to_vec(), second.to_vec()], limit);
            assert_eq!(without_short_heads(pieces), whole, "limit {limit}, cut at {cut}");
        }
        let pieces = read(text.chunks(1).map(<[u8]>::to_vec), limit);
        assert_eq!(without_short_heads(pieces), whole, "limit {limit}, byte by byte");
    }
}

#[test]
fn line_longer_than_the_limit_is_too_long() {
    assert_eq!(read([b"12345\n".to_vec()], 5), [Piece::Line(b"12345".to_vec())]);
    assert_eq!(
        read([b"123456\nx\n".to_vec()], 5),
        [
            Piece::TooLong { head: b"123456".to_vec() },
            Piece::TooLongEnds { tail: b"123456".to_vec(), bytes: 6 },
            Piece::Line(b"x".to_vec()),
        ]
    );
}

#[test]
fn huge_line_keeps_only_its_ends() {
    let mut parts = vec![b"begin".to_vec()];
    parts.extend(std::iter::repeat_n(vec![b'x'; 60_000], 2_000));
    parts.push(b"end\nnext".to_vec());
    let pieces = read(parts, 1_000_000);
    let [Piece::TooLong { head }, Piece::TooLongEnds { tail, bytes }, Piece::Line(next)] =
        &pieces[..]
    else {
        panic!("{} pieces", pieces.len());
    };
    assert!(head.starts_with(b"beginxxx") && head.len() == END_BYTES);
    assert!(tail.ends_with(b"xxxend") && tail.len() == END_BYTES);
    assert_eq!((*bytes, &next[..]), (120_000_008, &b"next"[..]));
}

#[tokio::test]
async fn read_error_is_returned() {
    let broken = broken_pipe();
    assert_eq!(
        LineReader::new(broken, 10).next().await.unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

/// Returns a reader that fails with `BrokenPipe`.
fn broken_pipe() -> impl AsyncRead + Unpin {
    struct Broken;
    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
    }
    Broken
}

proptest! {
    #[test]
    fn pieces_equal_those_of_a_simple_reader(
        parts in proptest::collection::vec(proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..40), 0..20),
        limit in 0..60_usize,
    ) {
        let text = parts.concat();
        prop_assert_eq!(
            without_short_heads(read(parts, limit)),
            without_short_heads(expected(&text, limit))
        );
    }
}
