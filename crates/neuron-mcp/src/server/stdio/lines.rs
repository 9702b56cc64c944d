//! [`LineTransport`], which sends and receives JSON messages, one per line.

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
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::lines::{LineReader, LineWriter, Piece, Waiting};
use crate::server::session::Closing;

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Maximum number of queued bytes for a client that does not read. Above this number, no more requests are read.
const WAITING_BYTES: usize = 32 * 1024 * 1024;

/// Time for which running calls may continue after the end of the input.
const GRACE: Duration = Duration::from_secs(5);

/// Time for which cancelled calls may still respond. Also the maximum time for writing the queued responses at the end.
const LAST: Duration = Duration::from_secs(2);

/// A transport over a pair of streams, with one JSON message per line.
pub(super) struct LineTransport<R> {
    /// The client's messages.
    lines: LineReader<R>,
    /// Queue of messages to the client.
    output: LineWriter,
    /// An error response that the transport itself sends, for example to an invalid line. No further line is read until
    /// the response is written. Stored in a field, because the SDK may drop the future of `receive` in the meantime.
    answer: Option<Waiting>,
    /// Cancelled when the server shuts down. The input then ends.
    until: CancellationToken,
    /// Tokens that this transport cancels when the input ends and when the calls must end.
    closing: Closing,
    /// Cancels the calls that have become tasks, because a task ends with its connection.
    _tasks_end: DropGuard,
    /// Time when the input ended. `None` while the input is open.
    ended_at: Option<Instant>,
    /// Time when the transport cancelled the running calls. `None` if they are not cancelled yet.
    told_at: Option<Instant>,
    /// Ids of the client's requests that have no response and that the client has not cancelled.
    unanswered: HashSet<RequestId>,
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    /// Creates a transport. Its input ends when the client closes the input, or when `until` is cancelled. Responses of
    /// running calls are still written afterwards.
    ///
    /// The transport cancels the tokens in `closing`, when its input ends and when running calls must end.
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
            _tasks_end: closing.calls_end.clone().drop_guard(),
            closing,
            ended_at: None,
            told_at: None,
            unanswered: HashSet::new(),
        }
    }

    /// Returns the next valid message. Returns `None` at the end of the input, or if reading or writing fails. Invalid
    /// lines get an error response or are skipped (see [`Content`]).
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(answer) = &mut self.answer {
                let sent = answer.wait().await;
                self.answer = None;
                if let Err(error) = sent {
                    tracing::debug!(%error, "cannot write to the client");
                    return None;
                }
            }
            // Waits while the client does not read, so that further requests do not create further responses.
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
                    let text =
                        format!("the message is too long: at most {MAX_LINE} bytes are allowed");
                    self.refuse(ErrorData::invalid_request(text, None), None);
                    continue;
                }
                // The error was sent when the line exceeded the limit.
                Piece::TooLongEnds { .. } => continue,
            };
            match content {
                Content::Message(message) => return Some(*message),
                Content::Wrong(id) => {
                    self.refuse(
                        ErrorData::invalid_request("not a valid JSON-RPC message", None),
                        id,
                    );
                }
                Content::Nothing => {}
            }
        }
    }

    /// Waits for the responses of running calls after the end of the input. Cancels the calls after 5 seconds
    /// ([`GRACE`]), or immediately if the server shuts down. Then waits at most 2 more seconds ([`LAST`]).
    ///
    /// The SDK drops this future each time it sends a response, and later calls `receive` again. Therefore the start
    /// times of both waits are stored in fields.
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

    /// Queues an error response, which [`next_message`](Self::next_message) writes before it reads the next line.
    fn refuse(&mut self, error: ErrorData, id: Option<RequestId>) {
        let message = ServerJsonRpcMessage::error(error, id);
        // `push` fails only if the writer is finished, so the response can be dropped.
        self.answer = self.output.push(&message, usize::MAX).ok();
    }
}

/// Content of one line of the server's input, as the result of parsing it.
enum Content {
    /// A valid message.
    Message(Box<ClientJsonRpcMessage>),
    /// JSON that is not a valid message. Contains the id of the message if it has one.
    Wrong(Option<RequestId>),
    /// Content that gets no response, such as an empty line, text that is not JSON, or an unknown notification.
    Nothing,
}

impl Content {
    /// Parses one line.
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
            tracing::warn!(%error, "skipped a line of the client that is not JSON");
            return Self::Nothing;
        };
        let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        // A notification never gets a response (JSON-RPC 2.0, 4.1).
        if id.is_none() && value.get("method").is_some() {
            tracing::debug!(%error, "skipped an unknown notification of the client");
            return Self::Nothing;
        }
        tracing::warn!(%error, "refused JSON of the client that is not a message");
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
        // Responses have no limit of their own, because `next_message` stops reading requests instead.
        let written = self.output.push(&message, usize::MAX);
        async move { written?.wait().await }
    }

    /// Returns the next message. At the end of the input, waits for the running calls and then returns `None`. The SDK
    /// sends no more notifications of calls once it has received `None`.
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
