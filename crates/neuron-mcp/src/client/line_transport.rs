//! A transport of messages as lines on two streams.

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

/// Maximum number of queued bytes for a server that does not read.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Number of messages after which the transport yields. The SDK spawns a task for each notification, and these tasks
/// must be able to end during a flood.
const MESSAGES_WITHOUT_PAUSE: u32 = 32;

/// A transport over two streams. Dropping it closes both. Closing it closes the server's input and ends `receive`.
#[derive(Debug)]
pub(super) struct LineTransport<R> {
    inbox: Inbox<R>,
    /// Messages that were read and not yet returned.
    ready: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// Number of messages returned since the transport last yielded.
    without_pause: u32,
    is_closed: bool,
    outbox: LineWriter,
}

impl<R: AsyncRead + Unpin + Send> LineTransport<R> {
    /// Creates a transport that reads messages of at most `max_message_bytes`. Requires a tokio runtime for the writer
    /// task.
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

    /// Waits for the next line of the server and processes it. Cancel safe.
    async fn take_next(&mut self) {
        match self.inbox.next().await {
            Incoming::Messages(messages) => self.ready.extend(messages),
            Incoming::Refused(answer) => {
                // A failure needs no error here. The next request to a server that does not read fails anyway.
                if let Err(error) = self.outbox.push(&answer, WAITING_BYTES) {
                    tracing::debug!(%error, "a request of the server cannot be refused");
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

    /// Closes the server's input at once.
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

    /// Queues a message. It is written completely and in order, even if the future is dropped.
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
