//! Messages as lines of JSON, within a limit.

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

/// How long a line may be.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// The bytes that may wait for a client that does not read, while more is read of it.
const WAITING_BYTES: usize = 32 * 1024 * 1024;

/// How long calls may go on after the end of the input.
const GRACE: Duration = Duration::from_secs(5);

/// How long calls that were told to end may take for it, and what was not written yet for getting out.
const LAST: Duration = Duration::from_secs(2);

/// A connection over a pair of streams.
pub(super) struct LineTransport<R> {
    lines: LineReader<R>,
    output: LineWriter,
    /// An answer that the connection itself gives. It goes out before anything more is read, and is kept here
    /// because `receive` may be dropped at any time.
    answer: Option<Waiting>,
    /// What ends the input.
    until: CancellationToken,
    /// How far the connection's end has come.
    closing: Closing,
    /// When the input ended, and when calls were told to end.
    ended_at: Option<Instant>,
    told_at: Option<Instant>,
    /// The requests that were received and not answered, nor cancelled by the client.
    unanswered: HashSet<RequestId>,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    /// A connection whose input ends when a token is cancelled, if not before: so that what answers there is
    /// still gets out.
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

    /// The next message; nothing at the end of the input. What is no message is refused or skipped.
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

    /// Waits until all requests are answered, as long as that may take.
    ///
    /// Nothing changes while this waits: whoever answers drops the future, and calls again.
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
        // An error says that the connection is closed.
        self.answer = self.output.push(&message, usize::MAX).ok();
    }
}

/// What a line holds.
enum Content {
    Message(Box<ClientJsonRpcMessage>),
    /// JSON that is no message, and its id if it has one.
    Wrong(Option<RequestId>),
    /// Nothing, no JSON, or a notification that nobody knows.
    Nothing,
}

impl Content {
    fn of(line: &[u8]) -> Self {
        // A byte order mark may stand before JSON (RFC 8259, 8.1).
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

    /// The next message. The SDK takes what calls tell the client only while it waits for this: so there is no
    /// end of the input before the calls have ended.
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
                    // Whoever cancels a request gets no answer.
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
