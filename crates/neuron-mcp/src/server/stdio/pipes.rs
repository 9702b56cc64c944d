//! Standard input and output without tokio's: their reads and writes run where the end of a runtime waits for
//! them, so that a program whose server was shut down would go on until its client says something. Threads of
//! our own end with the program.

use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use bytes::Bytes;
use futures_util::stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// Standard input and output.
pub(super) fn standard() -> io::Result<(impl AsyncRead + Send + Unpin + 'static, Output)> {
    Ok((input()?, Output::new()?))
}

/// Standard input, read by a thread.
fn input() -> io::Result<impl AsyncRead + Send + Unpin + 'static> {
    // One: what is not asked for stays in the pipe.
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

/// Standard output, written by a thread.
pub(super) struct Output {
    jobs: mpsc::UnboundedSender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
    /// What is collected until it is flushed.
    collected: Vec<u8>,
    /// The write that runs.
    running: Option<oneshot::Receiver<io::Result<()>>>,
}

impl Output {
    fn new() -> io::Result<Self> {
        let (jobs, mut receiver) =
            mpsc::unbounded_channel::<(Vec<u8>, oneshot::Sender<io::Result<()>>)>();
        thread::Builder::new().name("mcp-stdout".to_owned()).spawn(move || {
            let mut output = io::stdout();
            while let Some((bytes, done)) = receiver.blocking_recv() {
                let written = output.write_all(&bytes).and_then(|()| output.flush());
                // Nobody waits any more: then nobody needs to know.
                let _ = done.send(written);
            }
        })?;
        Ok(Self { jobs, collected: Vec::new(), running: None })
    }

    /// Waits for the write that runs.
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
