//! A message transport over two streams, with one message in each line.

mod inbox;
mod response_id;

use std::collections::VecDeque;
use std::future::Future;
use std::io;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};

use self::inbox::{Inbox, Incoming};
use crate::lines::LineWriter;

/// Maximum number of queued bytes for a server that does not read its input.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Number of messages after which `receive` yields to other tasks. The SDK spawns a task for each notification, and
/// these tasks must get time to run.
const MESSAGES_WITHOUT_PAUSE: u32 = 32;

/// A message transport over two streams. Closing the transport closes the input of the server and ends `receive`.
/// Dropping the transport closes both streams.
#[derive(Debug)]
pub(super) struct LineTransport<R> {
    inbox: Inbox<R>,
    /// Messages that are parsed but not returned yet.
    ready: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// Number of messages that were returned since `receive` last yielded.
    without_pause: u32,
    /// `true` once `receive` must return `None`.
    is_closed: bool,
    outbox: LineWriter,
}

impl<R: AsyncRead + Unpin + Send> LineTransport<R> {
    /// Creates a transport. A message of the server may have at most `max_message_bytes` bytes. Requires a tokio
    /// runtime for the writer task.
    pub(super) fn new(
        reader: R,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        max_message_bytes: usize,
    ) -> Self {
        Self {
            inbox: Inbox::new(reader, max_message_bytes),
            ready: VecDeque::new(),
            without_pause: 0,
            is_closed: false,
            outbox: LineWriter::new("server", writer),
        }
    }

    /// Reads the next line of the server and processes it. Cancel safe.
    async fn take_next(&mut self) {
        match self.inbox.next().await {
            Incoming::Messages(messages) => self.ready.extend(messages),
            Incoming::Refused(answer) => {
                // The server's request is not answered then. The next request to a server that does not read its input
                // fails with an error.
                if let Err(error) = self.outbox.push(&answer, WAITING_BYTES) {
                    tracing::debug!(%error, "the error response to a request of the server could not be sent");
                }
            }
            Incoming::Nothing => {}
            Incoming::End => self.is_closed = true,
        }
    }

    /// Closes the server's input after all queued messages are written.
    pub(super) fn finish_input(&mut self) {
        self.outbox.finish();
    }

    /// Closes the server's input immediately. Queued messages are not written.
    pub(super) fn close_input(&mut self) {
        self.outbox.abandon();
    }

    /// Reads and discards messages until the server closes its output. Cancel safe.
    pub(super) async fn drain(&mut self) {
        while !matches!(self.inbox.next().await, Incoming::End) {}
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleClient> for LineTransport<R> {
    type Error = io::Error;

    /// Queues a message and waits until it is written. The message is written completely and in order, even if the
    /// future is dropped.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let written = self.outbox.push(&message, WAITING_BYTES);
        async move { written?.wait().await }
    }

    /// Waits for the next message. Cancel safe.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        if self.without_pause >= MESSAGES_WITHOUT_PAUSE {
            self.without_pause = 0;
            tokio::task::yield_now().await;
        }
        loop {
            if let Some(message) = self.ready.pop_front() {
                self.without_pause += 1;
                return Some(message);
            }
            if self.is_closed {
                return None;
            }
            self.take_next().await;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close_input();
        self.is_closed = true;
        Ok(())
    }
}
