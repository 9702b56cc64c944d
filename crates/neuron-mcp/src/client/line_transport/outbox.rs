//! What we write to a server: whole lines, one after the other, by a task of its own, so that a caller who
//! gives up leaves no half of a line.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// How many bytes may wait for a server that does not read. One message may always wait.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// What a line needs besides its bytes: its place in the queue, and the task that waits for it.
const LINE_BYTES: usize = 4 * 1024;

/// The server's input. Dropping it closes the input at once.
#[derive(Debug)]
pub(super) struct Outbox {
    /// None when no more is to be written.
    queue: Option<mpsc::UnboundedSender<Line>>,
    /// What the lines in the queue need, in bytes.
    waiting: Arc<AtomicUsize>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

/// A line that waits to be written. Dropping it changes nothing of that.
#[derive(Debug)]
pub(super) struct Waiting(oneshot::Receiver<io::Result<()>>);

impl Outbox {
    /// Starts the task that writes.
    pub(super) fn new(input: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (queue, lines) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(write(input, lines, Arc::clone(&waiting))).abort_handle();
        Self { queue: Some(queue), waiting, task }
    }

    /// Puts a message into the queue.
    ///
    /// # Errors
    ///
    /// The server has closed its input, or does not read, and too much waits already.
    pub(super) fn push(&self, message: &impl Serialize) -> io::Result<Waiting> {
        let Some(queue) = &self.queue else { return Err(closed()) };
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        let needed = needed(&bytes);
        let waiting = self.waiting.fetch_add(needed, Ordering::AcqRel);
        if waiting > 0 && waiting.saturating_add(needed) > WAITING_BYTES {
            self.waiting.fetch_sub(needed, Ordering::AcqRel);
            let text = format!("the server does not read its input: {waiting} bytes wait for it");
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        let (written, receiver) = oneshot::channel();
        // When the task has ended, the receiver hears of it.
        let _ = queue.send(Line { bytes, written });
        Ok(Waiting(receiver))
    }

    /// Closes the server's input when all that waits has been written.
    pub(super) fn finish(&mut self) {
        self.queue = None;
    }

    /// Closes the server's input now.
    pub(super) fn abandon(&mut self) {
        self.queue = None;
        self.task.abort();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Waiting {
    /// Waits until the system has taken the line.
    pub(super) async fn wait(self) -> io::Result<()> {
        self.0.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// Writes until the queue is closed, or the server has closed its input.
async fn write(
    mut input: impl AsyncWrite + Send + Unpin,
    mut lines: mpsc::UnboundedReceiver<Line>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(Line { bytes, written }) = lines.recv().await {
        let result = match input.write_all(&bytes).await {
            Ok(()) => input.flush().await,
            error => error,
        };
        waiting.fetch_sub(needed(&bytes), Ordering::AcqRel);
        let has_failed = result.is_err();
        // Who gave up does not need to know.
        let _ = written.send(result);
        if has_failed {
            return;
        }
    }
}

/// What a line counts for.
fn needed(bytes: &[u8]) -> usize {
    bytes.len().saturating_add(LINE_BYTES)
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the server's input is closed")
}
