//! Standard input and output, read and written by two threads that end with the program.
//!
//! Tokio's standard input is not used, because its blocking read delays the shutdown of the runtime. After a shutdown,
//! the server would run until the client sends another message.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;

/// Maximum size of one read, in bytes.
const CHUNK: usize = 64 * 1024;

/// Returns standard input and output as streams. Returns an error if a thread cannot be started.
pub(super) fn standard() -> io::Result<(impl AsyncRead + Send + Unpin + 'static, Output)> {
    Ok((input()?, Output::new()?))
}

/// Starts the thread that reads standard input, and returns the input as a stream.
fn input() -> io::Result<impl AsyncRead + Send + Unpin + 'static> {
    // The channel holds one chunk. All other data stays in the pipe, so a client must wait if the server does not read.
    let (sender, mut chunks) = mpsc::channel(1);
    thread::Builder::new().name("mcp-stdin".to_owned()).spawn(move || {
        let mut input = io::stdin();
        let mut buffer = vec![0; CHUNK];
        loop {
            let chunk = match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(StreamReader::new(stream::poll_fn(move |cx| chunks.poll_recv(cx))))
}

/// Standard output as a stream. A thread writes the data.
pub(super) struct Output {
    /// Data to write, with a channel for the result of the write.
    jobs: mpsc::UnboundedSender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
    /// Bytes that were written to this stream since the last flush.
    collected: Vec<u8>,
    /// Result of the write in progress. `None` if the thread is idle.
    running: Option<oneshot::Receiver<io::Result<()>>>,
}

impl Output {
    /// Starts the thread that writes standard output.
    fn new() -> io::Result<Self> {
        let (jobs, mut receiver) =
            mpsc::unbounded_channel::<(Vec<u8>, oneshot::Sender<io::Result<()>>)>();
        thread::Builder::new().name("mcp-stdout".to_owned()).spawn(move || {
            let mut output = io::stdout();
            while let Some((bytes, done)) = receiver.blocking_recv() {
                let written = output.write_all(&bytes).and_then(|()| output.flush());
                // Fails if the receiver was dropped. Then nobody needs the result.
                let _ = done.send(written);
            }
        })?;
        Ok(Self { jobs, collected: Vec::new(), running: None })
    }

    /// Polls the write in progress, and returns its result. Returns `Ok` if no write is in progress.
    fn poll_running(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(running) = &mut self.running else {
            return Poll::Ready(Ok(()));
        };
        let written = ready!(Pin::new(running).poll(cx));
        self.running = None;
        Poll::Ready(written.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())))
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_running(cx))?;
        self.collected.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_running(cx))?;
        if self.collected.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let bytes = std::mem::take(&mut self.collected);
        let (done, running) = oneshot::channel();
        if self.jobs.send((bytes, done)).is_err() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.running = Some(running);
        self.poll_running(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
