//! A writer of lines that writes in its own task, so that a dropped future never leaves a partial line.

use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Memory in bytes that a queued line needs in addition to its text, for the queue entry and the waiting task.
const LINE_BYTES: usize = 4 * 1024;

/// A writer of messages to the peer, as lines. Dropping the writer closes the peer's input immediately, and discards
/// the queued lines.
#[derive(Debug)]
pub(crate) struct LineWriter {
    /// Name of the peer for errors, `server` or `client`.
    to: &'static str,
    /// Queue of the task that writes the lines. `None` once [`finish`](Self::finish) or [`abandon`](Self::abandon) was
    /// called.
    queue: Option<mpsc::UnboundedSender<Line>>,
    /// Memory of the queued lines in bytes.
    waiting: watch::Sender<usize>,
    task: JoinHandle<io::Result<()>>,
}

/// A queued line.
#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
    _place: Place,
}

/// The memory that a queued line occupies in the queue. Dropping the value frees the memory.
#[derive(Debug)]
struct Place {
    waiting: watch::Sender<usize>,
    bytes: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.send_modify(|waiting| *waiting -= self.bytes);
    }
}

/// A handle that waits until a queued line is written. Dropping the handle does not prevent the writing.
#[derive(Debug)]
pub(crate) struct Waiting {
    to: &'static str,
    written: oneshot::Receiver<io::Result<()>>,
}

impl LineWriter {
    /// Creates a writer, and starts the task that writes. `to` is the name of the peer for errors.
    pub(crate) fn new(to: &'static str, output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (queue, lines) = mpsc::unbounded_channel();
        let task = tokio::spawn(write(output, lines));
        Self { to, queue: Some(queue), waiting: watch::Sender::new(0), task }
    }

    /// Queues a message as a line. `limit` is the maximum size of the queue in bytes. An empty queue accepts a message
    /// of any size.
    ///
    /// # Errors
    ///
    /// - [`BrokenPipe`](io::ErrorKind::BrokenPipe) if [`finish`](Self::finish), [`abandon`](Self::abandon) or
    ///   [`close`](Self::close) was called before.
    /// - [`InvalidData`](io::ErrorKind::InvalidData) if the message cannot be serialised.
    /// - [`WouldBlock`](io::ErrorKind::WouldBlock) if the queue is full, because the peer does not read.
    pub(crate) fn push(&self, message: &impl Serialize, limit: usize) -> io::Result<Waiting> {
        let Some(queue) = &self.queue else { return Err(closed(self.to)) };
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let needed = bytes.len().saturating_add(LINE_BYTES);
        let waiting = *self.waiting.borrow();
        if waiting > 0 && waiting.saturating_add(needed) > limit {
            let to = self.to;
            let text = format!("the {to} does not read its input: {waiting} bytes are queued");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        self.waiting.send_modify(|waiting| *waiting += needed);
        let place = Place { waiting: self.waiting.clone(), bytes: needed };
        let (written, receiver) = oneshot::channel();
        // If the task has ended, `written` is dropped and `Waiting::wait` returns an error.
        let _ = queue.send(Line { bytes, written, _place: place });
        Ok(Waiting { to: self.to, written: receiver })
    }

    /// Waits until the queued lines need at most `bytes` bytes of memory.
    pub(crate) async fn room(&self, bytes: usize) {
        // Never an error, because `self` holds the sender of the channel.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting <= bytes).await;
    }

    /// Lets the writer task close the peer's input after all queued lines are written. Returns immediately.
    pub(crate) fn finish(&mut self) {
        self.queue = None;
    }

    /// Closes the peer's input immediately. Queued lines are not written.
    pub(crate) fn abandon(&mut self) {
        self.queue = None;
        self.task.abort();
    }

    /// Writes the queued lines and closes the peer's input. If this takes longer than `patience`, discards the
    /// remaining lines and closes the input.
    ///
    /// # Errors
    ///
    /// Returns an error if writing or closing fails. Returns `Ok` if `patience` is exceeded.
    pub(crate) async fn close(&mut self, patience: Duration) -> io::Result<()> {
        if self.queue.take().is_none() {
            return Ok(());
        }
        let closed = tokio::time::timeout(patience, &mut self.task).await;
        self.task.abort();
        match closed {
            Ok(closed) => closed.unwrap_or(Ok(())),
            Err(_) => {
                tracing::debug!("the {} does not read its input", self.to);
                Ok(())
            }
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Waiting {
    /// Waits until the line is written to the stream. Returns an error if the writing fails, or if the writer is closed
    /// first.
    pub(crate) async fn wait(&mut self) -> io::Result<()> {
        (&mut self.written).await.unwrap_or_else(|_| Err(closed(self.to)))
    }
}

/// Writes lines until the queue is closed or a write fails.
async fn write(
    mut output: impl AsyncWrite + Send + Unpin,
    mut lines: mpsc::UnboundedReceiver<Line>,
) -> io::Result<()> {
    while let Some(Line { bytes, written, _place }) = lines.recv().await {
        let result = match output.write_all(&bytes).await {
            Ok(()) => output.flush().await,
            error => error,
        };
        let has_failed = result.is_err();
        // The send fails if the caller has dropped its handle.
        let _ = written.send(result);
        if has_failed {
            return Ok(());
        }
    }
    output.shutdown().await
}

/// Returns the error for a message after the writer is closed.
fn closed(to: &str) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, format!("the {to}'s input is closed"))
}
