//! Messages to and from a server, as lines on two streams.

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

/// The bytes that may wait for a server that does not read.
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Number of messages without a pause after which other tasks run, because tasks that a flood of notifications
/// starts must be able to end.
const MESSAGES_WITHOUT_PAUSE: u32 = 32;

/// Messages to and from a server over two streams. Dropping or closing it closes both.
#[derive(Debug)]
pub(super) struct LineTransport<R> {
    inbox: Inbox<R>,
    /// Messages that have been read and not been given out.
    ready: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// Messages given out since the last pause.
    without_pause: u32,
    is_closed: bool,
    outbox: LineWriter,
}

impl<R: AsyncRead + Unpin + Send> LineTransport<R> {
    /// Reads messages of at most `max_message_bytes`. Needs a tokio runtime, for the task that writes.
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

    /// Waits for the next output of the server, and takes it. Cancel safe.
    async fn take_next(&mut self) {
        match self.inbox.next().await {
            Incoming::Messages(messages) => self.ready.extend(messages),
            Incoming::Refused(answer) => {
                // Nobody waits for it, and a server that does not read is noticed by requests.
                if let Err(error) = self.outbox.push(&answer, WAITING_BYTES) {
                    tracing::debug!(%error, "a request of the server cannot be refused");
                }
            }
            Incoming::Nothing => {}
            Incoming::End => self.is_closed = true,
        }
    }

    /// Closes the server's input when all that waits has been written.
    pub(super) fn finish_input(&mut self) {
        self.outbox.finish();
    }

    /// Closes the server's input now.
    pub(super) fn close_input(&mut self) {
        self.outbox.abandon();
    }

    /// Reads until the server has closed its output, and throws it away. Cancel safe.
    pub(super) async fn drain(&mut self) {
        while !matches!(self.inbox.next().await, Incoming::End) {}
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleClient> for LineTransport<R> {
    type Error = io::Error;

    /// The message is written whole and after those before it, also when the future is dropped.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let written = self.outbox.push(&message, WAITING_BYTES);
        async move { written?.wait().await }
    }

    /// Cancel safe.
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
