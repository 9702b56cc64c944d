//! The messages of a server's output.
//!
//! A line that is not a message is logged and skipped. If the line is the response to a request, the request fails.

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::Value;
use tokio::io::AsyncRead;

use super::response_id::response_id;
use crate::lines::{LineReader, Piece};
use crate::wire;

/// Maximum number of logged characters of a line.
const SHOWN_CHARS: usize = 200;
/// Maximum number of warnings about lines that are not messages. Later ones are logged at `DEBUG`.
const WARNINGS: u32 = 10;

type FromServer = RxJsonRpcMessage<RoleClient>;
type ToServer = TxJsonRpcMessage<RoleClient>;

/// The content of a line.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message, or the messages of a batch.
    Messages(Vec<FromServer>),
    /// The error response to a request that cannot be parsed.
    Refused(Box<ToServer>),
    /// A line that is not a message, or that is ignored.
    Nothing,
    /// The server has closed its output. Every later call returns `End` too.
    End,
}

impl Incoming {
    fn message(message: FromServer) -> Self {
        Self::Messages(vec![message])
    }
}

/// A reader of messages.
#[derive(Debug)]
pub(super) struct Inbox<R> {
    lines: LineReader<R>,
    limit: usize,
    /// First bytes of a line that is too long and whose request id has not been found yet.
    head: Option<Vec<u8>>,
    /// Number of logged warnings.
    warnings: u32,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    /// Creates a reader of messages of at most `limit` bytes.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { lines: LineReader::new(input, limit), limit, head: None, warnings: 0 }
    }

    /// Waits for the next line. Cancel safe.
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

    fn line(&mut self, line: &[u8]) -> Incoming {
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
        match line.first() {
            None => Incoming::Nothing,
            Some(b'[') => self.batch(line),
            Some(_) => match serde_json::from_slice(line) {
                Ok(message) => Incoming::message(message),
                Err(error) => self.unreadable(line, &error),
            },
        }
    }

    /// Parses several messages in one line, which only protocol version 2025-03-26 allows.
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
                    // An invalid request within a batch gets no error response.
                    Incoming::Refused(_) | Incoming::Nothing | Incoming::End => {}
                },
            }
        }
        Incoming::Messages(messages)
    }

    fn unreadable(&mut self, line: &[u8], error: &serde_json::Error) -> Incoming {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => self.not_of_the_protocol(&value, error),
            Err(error) => match response_id(line, line) {
                Some(id) => unreadable_answer(id, &error),
                None => self.no_message(line, &error),
            },
        }
    }

    /// Handles JSON that is not a message, or a message that the protocol does not have.
    fn not_of_the_protocol(&mut self, value: &Value, error: &serde_json::Error) -> Incoming {
        let id =
            value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        match (id, value.get("method")) {
            (Some(id), None) => unreadable_answer(id, error),
            (Some(id), Some(method)) => {
                tracing::warn!(%method, %error, "a request of the server cannot be read; it is refused");
                let refused = ErrorData::invalid_request(
                    format!("this request cannot be read: {error}"),
                    None,
                );
                Incoming::Refused(Box::new(JsonRpcMessage::error(refused, Some(id))))
            }
            (None, Some(method)) => {
                tracing::debug!(%method, %error, "a notification of the server cannot be read");
                Incoming::Nothing
            }
            (None, None) => self.no_message(value.to_string().as_bytes(), error),
        }
    }

    fn no_message(&mut self, line: &[u8], error: &dyn std::fmt::Display) -> Incoming {
        let line = beginning(line);
        if self.warnings < WARNINGS {
            self.warnings += 1;
            tracing::warn!(line, %error, "the server wrote something that is no message to its output");
        } else {
            tracing::debug!(line, %error, "the server wrote something that is no message to its output");
        }
        Incoming::Nothing
    }

    fn too_long(&mut self, head: Vec<u8>) -> Incoming {
        match response_id(&head, &[]) {
            Some(id) => too_long_answer(id, self.limit),
            None => {
                self.head = Some(head);
                Incoming::Nothing
            }
        }
    }

    fn too_long_ends(&mut self, tail: &[u8], bytes: u64) -> Incoming {
        let Some(head) = self.head.take() else { return Incoming::Nothing };
        match response_id(&head, tail) {
            Some(id) => too_long_answer(id, self.limit),
            None => {
                let reason =
                    format!("it has {bytes} bytes, more than the {} that are allowed", self.limit);
                self.no_message(&head, &reason)
            }
        }
    }
}

fn unreadable_answer(id: RequestId, error: &serde_json::Error) -> Incoming {
    Incoming::message(JsonRpcMessage::error(wire::error::unreadable(error), Some(id)))
}

fn too_long_answer(id: RequestId, limit: usize) -> Incoming {
    tracing::warn!(%id, limit, "an answer of the server is too long");
    Incoming::message(JsonRpcMessage::error(wire::error::too_long(limit), Some(id)))
}

/// Returns the beginning of a line for a log.
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
