//! Transport of JSON messages, one per line and with a maximum length.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lines::{LineReader, LineWriter, Piece, Waiting};
use crate::server::session::Closing;

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Maximum number of queued bytes for a client that does not read. Above it, no more requests are read.
const WAITING_BYTES: usize = 32 * 1024 * 1024;

/// Grace period for calls after the end of the input.
const GRACE: Duration = Duration::from_secs(5);

/// Grace period for cancelled calls to end and for queued responses to be written.
const LAST: Duration = Duration::from_secs(2);

/// A transport over a pair of streams.
pub(super) struct LineTransport<R> {
    lines: LineReader<R>,
    output: LineWriter,
    /// A response of the transport itself. It is written before the next read. It is stored here, because `receive` may
    /// be dropped at any time.
    answer: Option<Waiting>,
    /// Ends the input when cancelled.
    until: CancellationToken,
    /// Stages at the end of the connection.
    closing: Closing,
    /// Times when the input ended, and when calls were cancelled.
    ended_at: Option<Instant>,
    told_at: Option<Instant>,
    /// Requests that are neither answered nor cancelled by the client.
    unanswered: HashSet<RequestId>,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    /// Creates a transport whose input ends when a token is cancelled, if not before. Pending responses are still
    /// written.
    pub(super) fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        until: CancellationToken,
        closing: Closing,
    ) -> Self {
        Self {
            lines: LineReader::new(input, MAX_LINE),
            output: LineWriter::new("client", output),
            answer: None,
            until,
            closing,
            ended_at: None,
            told_at: None,
            unanswered: HashSet::new(),
        }
    }

    /// Returns the next message, or `None` at the end of the input. Invalid lines are rejected or skipped.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(answer) = &mut self.answer {
                let sent = answer.wait().await;
                self.answer = None;
                if let Err(error) = sent {
                    tracing::debug!(%error, "the client reads no more");
                    return None;
                }
            }
            self.output.room(WAITING_BYTES).await;
            let piece = match self.lines.next().await {
                Ok(piece) => piece?,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the client");
                    return None;
                }
            };
            let content = match piece {
                Piece::Line(line) => Content::of(&line),
                Piece::TooLong { .. } => {
                    let text = format!("a message may have {MAX_LINE} bytes");
                    self.refuse(ErrorData::invalid_request(text, None), None);
                    continue;
                }
                Piece::TooLongEnds { .. } => continue,
            };
            match content {
                Content::Message(message) => return Some(*message),
                Content::Wrong(id) => {
                    self.refuse(ErrorData::invalid_request("this is no valid message", None), id);
                }
                Content::Nothing => {}
            }
        }
    }

    /// Waits until all requests are answered or the grace periods have passed.
    ///
    /// This future never completes by an answer. To answer, the SDK drops it and calls `receive` again.
    async fn last_answers(&mut self) {
        if self.unanswered.is_empty() {
            return;
        }
        let ended = *self.ended_at.get_or_insert_with(Instant::now);
        tokio::select! {
            () = self.until.cancelled() => {}
            () = tokio::time::sleep_until(ended + GRACE) => {}
        }
        self.closing.calls_end.cancel();
        let told = *self.told_at.get_or_insert_with(Instant::now);
        tokio::time::sleep_until(told + LAST).await;
    }

    fn refuse(&mut self, error: ErrorData, id: Option<RequestId>) {
        let message = ServerJsonRpcMessage::error(error, id);
        // An error means that the connection is closed.
        self.answer = self.output.push(&message, usize::MAX).ok();
    }
}

/// Content of a line.
enum Content {
    Message(Box<ClientJsonRpcMessage>),
    /// JSON that is not a message, with its id if it has one.
    Wrong(Option<RequestId>),
    /// An empty line, text that is not JSON, or an unknown notification.
    Nothing,
}

impl Content {
    fn of(line: &[u8]) -> Self {
        // A byte order mark may precede JSON (RFC 8259, 8.1).
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Self::Nothing;
        }
        let error = match serde_json::from_slice(line) {
            Ok(message) => return Self::Message(Box::new(message)),
            Err(error) => error,
        };
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            tracing::warn!(%error, "skipped a line that is no JSON");
            return Self::Nothing;
        };
        let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        if id.is_none() && value.get("method").is_some() {
            tracing::debug!(%error, "skipped a notification");
            return Self::Nothing;
        }
        tracing::warn!(%error, "received JSON that is no message");
        Self::Wrong(id)
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &message {
            ServerJsonRpcMessage::Response(response) => self.unanswered.remove(&response.id),
            ServerJsonRpcMessage::Error(error) => {
                error.id.as_ref().is_some_and(|id| self.unanswered.remove(id))
            }
            _ => false,
        };
        let written = self.output.push(&message, usize::MAX);
        async move { written?.wait().await }
    }

    /// Returns the next message. The SDK sends notifications of calls only while it waits here, so the end of the input
    /// is not reported before the calls have ended.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if !self.closing.input_ended.is_cancelled() {
            let until = self.until.clone();
            let message = tokio::select! {
                biased;
                () = until.cancelled() => None,
                message = self.next_message() => message,
            };
            match &message {
                Some(ClientJsonRpcMessage::Request(request)) => {
                    self.unanswered.insert(request.id.clone());
                }
                Some(ClientJsonRpcMessage::Notification(notification)) => {
                    // A request that the client has cancelled gets no response.
                    if let ClientNotification::CancelledNotification(cancelled) =
                        &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        self.unanswered.remove(id);
                    }
                }
                Some(_) => {}
                None => self.closing.input_ended.cancel(),
            }
            if message.is_some() {
                return message;
            }
        }
        self.last_answers().await;
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close(LAST).await
    }
}
