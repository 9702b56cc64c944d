//! A writer of whole lines in a task of its own, so that a caller that is dropped leaves no half of a line.

use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// Memory of a queued line beside its bytes, for its place in the queue and the waiting task.
const LINE_BYTES: usize = 4 * 1024;

/// The other side's input. Dropping it closes the input at once.
#[derive(Debug)]
pub(crate) struct LineWriter {
    /// The reader in words, `server` or `client`.
    to: &'static str,
    /// None when no more is to be written.
    queue: Option<mpsc::UnboundedSender<Line>>,
    /// Memory of the queued lines in bytes.
    waiting: watch::Sender<usize>,
    task: JoinHandle<io::Result<()>>,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
    _place: Place,
}

/// The bytes that a line counts for while it is in the queue.
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

/// A line that waits to be written. Dropping it changes nothing of that.
#[derive(Debug)]
pub(crate) struct Waiting {
    to: &'static str,
    written: oneshot::Receiver<io::Result<()>>,
}

impl LineWriter {
    /// Starts the task that writes.
    pub(crate) fn new(to: &'static str, output: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (queue, lines) = mpsc::unbounded_channel();
        let task = tokio::spawn(write(output, lines));
        Self { to, queue: Some(queue), waiting: watch::Sender::new(0), task }
    }

    /// Puts a message into the queue, in which `limit` bytes may wait. One message may always wait.
    ///
    /// # Errors
    ///
    /// The other side has closed its input, or does not read, and too much waits already.
    pub(crate) fn push(&self, message: &impl Serialize, limit: usize) -> io::Result<Waiting> {
        let Some(queue) = &self.queue else { return Err(closed(self.to)) };
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let needed = bytes.len().saturating_add(LINE_BYTES);
        let waiting = *self.waiting.borrow();
        if waiting > 0 && waiting.saturating_add(needed) > limit {
            let to = self.to;
            let text = format!("the {to} does not read its input: {waiting} bytes wait for it");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        self.waiting.send_modify(|waiting| *waiting += needed);
        let place = Place { waiting: self.waiting.clone(), bytes: needed };
        let (written, receiver) = oneshot::channel();
        // When the task has ended, the receiver hears of it.
        let _ = queue.send(Line { bytes, written, _place: place });
        Ok(Waiting { to: self.to, written: receiver })
    }

    /// Waits until no more than so many bytes wait.
    pub(crate) async fn room(&self, bytes: usize) {
        // An error says that nobody counts any more, which cannot be: `self` does.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting <= bytes).await;
    }

    /// Closes the input when all that waits has been written.
    pub(crate) fn finish(&mut self) {
        self.queue = None;
    }

    /// Closes the input now.
    pub(crate) fn abandon(&mut self) {
        self.queue = None;
        self.task.abort();
    }

    /// Closes the input when all that waits has been written, or else after this time.
    ///
    /// # Errors
    ///
    /// The input could not be closed.
    pub(crate) async fn close(&mut self, patience: Duration) -> io::Result<()> {
        if self.queue.take().is_none() {
            return Ok(());
        }
        let closed = tokio::time::timeout(patience, &mut self.task).await;
        self.task.abort();
        match closed {
            Ok(closed) => closed.unwrap_or(Ok(())),
            Err(_) => {
                tracing::debug!("the {} does not read", self.to);
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
    /// Waits until the system has taken the line.
    pub(crate) async fn wait(&mut self) -> io::Result<()> {
        (&mut self.written).await.unwrap_or_else(|_| Err(closed(self.to)))
    }
}

/// Writes until the queue is closed, or the other side has closed its input.
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
        // Who gave up does not need to know.
        let _ = written.send(result);
        if has_failed {
            return Ok(());
        }
    }
    output.shutdown().await
}

fn closed(to: &str) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, format!("the {to}'s input is closed"))
}
