//! Parsing of the lines that a server writes to its output.
//!
//! A line that is not a message is logged and skipped. If the line is an invalid response to a request of the client,
//! the request fails.

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::Value;
use tokio::io::AsyncRead;

use super::response_id::response_id;
use crate::client::deep_tools::without_deep_tools;
use crate::lines::{LineReader, Piece};
use crate::wire;

/// Maximum number of characters of a line that are logged.
const SHOWN_CHARS: usize = 200;
/// Maximum number of warnings about lines that are not messages. Further lines are logged at level `DEBUG`.
const WARNINGS: u32 = 10;

type FromServer = RxJsonRpcMessage<RoleClient>;
type ToServer = TxJsonRpcMessage<RoleClient>;

/// The result of parsing a line.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A single message, or the messages of a batch.
    Messages(Vec<FromServer>),
    /// The error response to send for a request that cannot be parsed.
    Refused(Box<ToServer>),
    /// The line is empty, is not a message, or is part of a line that is too long.
    Nothing,
    /// The server has closed its output. Every later call of [`Inbox::next`] also returns `End`.
    End,
}

impl Incoming {
    fn message(message: FromServer) -> Self {
        Self::Messages(vec![message])
    }
}

/// A reader of the messages in a server's output.
#[derive(Debug)]
pub(super) struct Inbox<R> {
    lines: LineReader<R>,
    /// Maximum size of a message in bytes.
    limit: usize,
    /// First bytes of a line that is too long, kept while the rest of the line is read. `None` for any other line, or
    /// if the request id of the line is already found.
    head: Option<Vec<u8>>,
    /// Number of warnings logged so far for lines that are not messages. Limited to [`WARNINGS`].
    warnings: u32,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    /// Creates a reader. A message may have at most `limit` bytes.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { lines: LineReader::new(input, limit), limit, head: None, warnings: 0 }
    }

    /// Reads and parses the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> Incoming {
        match self.lines.next().await {
            Ok(None) => Incoming::End,
            Ok(Some(Piece::Line(line))) => self.line(&line),
            Ok(Some(Piece::TooLong { head })) => self.too_long(head),
            Ok(Some(Piece::TooLongEnds { tail, bytes })) => self.too_long_ends(&tail, bytes),
            Err(error) => {
                tracing::warn!(%error, "the server's output cannot be read");
                Incoming::End
            }
        }
    }

    /// Parses a complete line.
    fn line(&mut self, line: &[u8]) -> Incoming {
        // Some programs start their output with a byte order mark.
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
        match line.first() {
            None => Incoming::Nothing,
            Some(b'[') => self.batch(line),
            Some(_) => match serde_json::from_slice(line) {
                Ok(message) => Incoming::message(message),
                Err(error) => match read_without_deep_tools(line) {
                    Some(message) => Incoming::message(message),
                    None => self.unreadable(line, &error),
                },
            },
        }
    }

    /// Parses a batch, which is a line with a JSON array of messages. Only protocol version 2025-03-26 has batches.
    fn batch(&mut self, line: &[u8]) -> Incoming {
        let values: Vec<Value> = match serde_json::from_slice(line) {
            Ok(values) => values,
            Err(error) => return self.no_message(line, &error),
        };
        let mut messages = Vec::new();
        for value in values {
            match serde_json::from_value(value.clone()) {
                Ok(message) => messages.push(message),
                Err(error) => match self.not_of_the_protocol(&value, &error) {
                    Incoming::Messages(errors) => messages.extend(errors),
                    // An invalid request in a batch gets no error response, because a line has only one result here.
                    Incoming::Refused(_) | Incoming::Nothing | Incoming::End => {}
                },
            }
        }
        Incoming::Messages(messages)
    }

    /// Handles a line that cannot be parsed as a message. `error` is the error of parsing.
    fn unreadable(&mut self, line: &[u8], error: &serde_json::Error) -> Incoming {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => self.not_of_the_protocol(&value, error),
            Err(error) => match response_id(line, line) {
                Some(id) => unreadable_answer(id, &error),
                None => self.no_message(line, &error),
            },
        }
    }

    /// Handles JSON that is not a valid message. Its members `id` and `method` show what kind of message it was meant
    /// to be. An invalid response makes the client's request fail. An invalid request gets an error response. An
    /// invalid notification is ignored.
    fn not_of_the_protocol(&mut self, value: &Value, error: &serde_json::Error) -> Incoming {
        let id =
            value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        match (id, value.get("method")) {
            (Some(id), None) => unreadable_answer(id, error),
            (Some(id), Some(method)) => {
                tracing::warn!(%method, %error, "refused an invalid request of the server");
                let refused = ErrorData::invalid_request(
                    format!("this request cannot be parsed: {error}"),
                    None,
                );
                Incoming::Refused(Box::new(JsonRpcMessage::error(refused, Some(id))))
            }
            (None, Some(method)) => {
                tracing::debug!(%method, %error, "ignored an invalid notification of the server");
                Incoming::Nothing
            }
            (None, None) => self.no_message(value.to_string().as_bytes(), error),
        }
    }

    /// Logs a line of the server's output that is not a message. Always returns [`Incoming::Nothing`].
    fn no_message(&mut self, line: &[u8], error: &dyn std::fmt::Display) -> Incoming {
        let line = beginning(line);
        if self.warnings < WARNINGS {
            self.warnings += 1;
            tracing::warn!(line, %error, "skipped a line of the server's output that is not a message");
        } else {
            tracing::debug!(line, %error, "skipped a line of the server's output that is not a message");
        }
        Incoming::Nothing
    }

    /// Handles the beginning of a line that is too long. If `head` contains the id of a client's request, this request
    /// fails now.
    fn too_long(&mut self, head: Vec<u8>) -> Incoming {
        match response_id(&head, &[]) {
            Some(id) => too_long_answer(id, self.limit),
            None => {
                self.head = Some(head);
                Incoming::Nothing
            }
        }
    }

    /// Handles the end of a line that is too long. If `head` or `tail` contains the id of a client's request, this
    /// request fails now. `bytes` is the length of the line.
    fn too_long_ends(&mut self, tail: &[u8], bytes: u64) -> Incoming {
        let Some(head) = self.head.take() else { return Incoming::Nothing };
        match response_id(&head, tail) {
            Some(id) => too_long_answer(id, self.limit),
            None => {
                let reason =
                    format!("the line has {bytes} bytes, but the maximum is {}", self.limit);
                self.no_message(&head, &reason)
            }
        }
    }
}

/// Parses a line as a message after the removal of tools that the parser rejects. Returns `None` if the line has no
/// such tool, or is no message.
fn read_without_deep_tools(line: &[u8]) -> Option<FromServer> {
    let message = without_deep_tools(std::str::from_utf8(line).ok()?)?;
    serde_json::from_str(&message).ok()
}

/// Returns the error response that replaces an unparseable response to the request `id`.
fn unreadable_answer(id: RequestId, error: &serde_json::Error) -> Incoming {
    Incoming::message(JsonRpcMessage::error(wire::error::unreadable(error), Some(id)))
}

/// Returns the error response that replaces a response of more than `limit` bytes to the request `id`.
fn too_long_answer(id: RequestId, limit: usize) -> Incoming {
    tracing::warn!(%id, limit, "a response of the server is too long");
    Incoming::message(JsonRpcMessage::error(wire::error::too_long(limit), Some(id)))
}

/// Returns the first [`SHOWN_CHARS`] characters of a line, for a log.
pub(super) fn beginning(line: &[u8]) -> String {
    // A UTF-8 character has at most four bytes.
    let line = String::from_utf8_lossy(line.get(..4 * SHOWN_CHARS).unwrap_or(line));
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests;
