//! A connection that ends when its client does not read what it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Writes fail once nothing could be written for some time.
pub(super) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// When patience ends, while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, until: None }
    }

    /// What became of a write.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.judge(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.judge(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn who_reads_slowly_gets_all() {
        let (mut reader, stream) = tokio::io::duplex(10);
        let mut writer = Patient::new(stream, LIMIT);
        let read = async {
            let mut read = Vec::new();
            while read.len() < 50 {
                tokio::time::sleep(LIMIT.mul_f32(0.9)).await;
                let mut some = [0; 10];
                let length = reader.read(&mut some).await.unwrap();
                read.extend_from_slice(&some[..length]);
            }
            read
        };
        let (written, read) = futures_util::future::join(writer.write_all(&[7; 50]), read).await;
        written.unwrap();
        assert_eq!(read, [7; 50]);
        // Nothing waits to be written: that takes as long as it likes.
        tokio::time::sleep(LIMIT * 2).await;
        writer.write_all(&[8]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_left() {
        let (reader, stream) = tokio::io::duplex(10);
        let mut writer = Patient::new(stream, LIMIT);
        let begun = tokio::time::Instant::now();
        let error = writer.write_all(&[7; 50]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= LIMIT);
        drop(reader);
    }
}
