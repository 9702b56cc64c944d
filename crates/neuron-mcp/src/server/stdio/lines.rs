//! Messages as lines of JSON, within a limit.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backlog::Backlog;
use crate::server::session::Closing;

/// How long a line may be.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// How long calls may go on after the end of the input.
const GRACE: Duration = Duration::from_secs(5);

/// How long calls that were told to end may take for it, and what was not written yet for getting out.
const LAST: Duration = Duration::from_secs(2);

/// A connection over a pair of streams.
pub(super) struct LineTransport<R, W> {
    input: R,
    /// What ends the input.
    until: CancellationToken,
    /// How far the connection's end has come.
    closing: Closing,
    /// When the input ended, and when calls were told to end.
    ended_at: Option<Instant>,
    told_at: Option<Instant>,
    /// The requests that were received and not answered, nor cancelled by the client.
    unanswered: HashSet<RequestId>,
    /// What has been read and not been used. Never longer than a line may be, and a little.
    read: BytesMut,
    /// Up to where `read` holds no end of a line.
    searched: usize,
    /// The line that is being read is too long: up to its end, nothing of it is kept.
    skipping: bool,
    ended: bool,
    /// Nothing once the connection is closed.
    output: Arc<Mutex<Option<W>>>,
    /// Whoever still writes gives up.
    closed: CancellationToken,
    backlog: Arc<Backlog>,
    /// An answer that the connection itself gives. It goes out before anything more is read, and is kept here
    /// because `receive` may be dropped at any time.
    answer: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
    max_line: usize,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A connection whose input ends when a token is cancelled, if not before: so that what answers there is
    /// still gets out.
    pub(super) fn new(input: R, output: W, until: CancellationToken, closing: Closing) -> Self {
        Self {
            input,
            until,
            closing,
            ended_at: None,
            told_at: None,
            unanswered: HashSet::new(),
            read: BytesMut::new(),
            searched: 0,
            skipping: false,
            ended: false,
            output: Arc::new(Mutex::new(Some(output))),
            closed: CancellationToken::new(),
            backlog: Arc::default(),
            answer: None,
            max_line: MAX_LINE,
        }
    }

    /// The next message; nothing at the end of the input.
    async fn next_message(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(answer) = &mut self.answer {
                let sent = answer.await;
                self.answer = None;
                if let Err(error) = sent {
                    tracing::debug!(%error, "the client reads no more");
                    return None;
                }
            }
            self.backlog.room().await;
            let line = match self.next_line().await {
                Ok(line) => line?,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the client");
                    return None;
                }
            };
            let content = match line {
                Line::Whole(line) => Content::of(&line),
                Line::TooLong => {
                    let text = format!("a message may have {} bytes", self.max_line);
                    self.refuse(ErrorData::invalid_request(text, None), None);
                    continue;
                }
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

    /// The next line, without its end; nothing at the end of the input.
    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.ended {
                // The last line may be without its end.
                let rest = self.read.split();
                self.searched = 0;
                let rest = (!rest.is_empty() && !self.skipping).then_some(Line::Whole(rest));
                return Ok(rest);
            }
            self.read.reserve(8 * 1024);
            self.ended = self.input.read_buf(&mut self.read).await? == 0;
        }
    }

    /// A line out of what has been read.
    fn take_line(&mut self) -> Option<Line> {
        loop {
            let unsearched = self.read.get(self.searched..).unwrap_or_default();
            let end = unsearched.iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.read.len();
                if self.searched > self.max_line {
                    self.read.clear();
                    self.searched = 0;
                    if !std::mem::replace(&mut self.skipping, true) {
                        return Some(Line::TooLong);
                    }
                }
                return None;
            };
            let mut line = self.read.split_to(end + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            line.truncate(end);
            return Some(if end > self.max_line { Line::TooLong } else { Line::Whole(line) });
        }
    }

    fn write(
        &self,
        message: &ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + use<R, W> {
        let line = serde_json::to_vec(message).map(|mut line| {
            line.push(b'\n');
            line
        });
        let waiting = self.backlog.count(line.as_ref().map_or(0, Vec::len));
        let (output, closed) = (self.output.clone(), self.closed.clone());
        async move {
            let (line, _waiting) = (line?, waiting);
            let gone = || io::Error::from(io::ErrorKind::NotConnected);
            let write = async {
                let mut output = output.lock().await;
                let output = output.as_mut().ok_or_else(gone)?;
                output.write_all(&line).await?;
                output.flush().await
            };
            // The client may read nothing.
            closed.run_until_cancelled(write).await.unwrap_or_else(|| Err(gone()))
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
        self.answer = Some(Box::pin(self.write(&message)));
    }
}

/// What was read.
enum Line {
    Whole(BytesMut),
    TooLong,
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

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
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
        self.write(&message)
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
        let output = self.output.clone();
        let close = async move {
            match output.lock().await.take() {
                Some(mut output) => output.shutdown().await,
                None => Ok(()),
            }
        };
        let closed = tokio::time::timeout(LAST, close).await;
        self.closed.cancel();
        closed.unwrap_or_else(|_| {
            tracing::debug!("the client does not read");
            Ok(())
        })?;
        self.output.lock().await.take();
        Ok(())
    }
}
