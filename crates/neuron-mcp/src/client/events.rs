//! Events that a client receives without a request.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::McpLogMessage;

/// Maximum number of queued events for a slow reader. When the queue is full, the oldest event is dropped.
const WAITING: usize = 256;
/// Maximum memory of a text or a value in an event, in bytes, so that queued events stay small.
const LONGEST: usize = 64 * 1024;

/// A notification of a server, or a change of the connection.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum McpEvent {
    /// The list of tools has changed.
    ToolsChanged,
    /// The list of resources has changed.
    ResourcesChanged,
    /// The list of prompts has changed.
    PromptsChanged,
    /// The content of a [subscribed](crate::McpClient::subscribe) resource, or of a part of it, has changed.
    ResourceUpdated {
        /// The URI of the changed resource, or of the part of it that changed.
        uri: String,
    },
    /// A log message of the server. If its data needs more than 64 KiB of memory, the data is replaced by its JSON
    /// text, truncated to 64 KiB.
    Log(McpLogMessage),
    /// The connection was lost without a call of [`close`](crate::McpClient::close). Sent once for each lost
    /// connection.
    ///
    /// The next request restores the connection, unless [reconnecting is off](crate::McpClientBuilder::reconnect).
    /// Until then no other event is sent. A program that sends no requests can call [`ping`](crate::McpClient::ping)
    /// repeatedly until it succeeds.
    Disconnected,
    /// A request restored the lost connection.
    Reconnected,
    /// The reader was too slow, and events between the previous and the next event were dropped.
    Lagged {
        /// Number of dropped events.
        missed: u64,
    },
}

/// The events of a client since [`McpClient::events`](crate::McpClient::events) was called.
///
/// At most 256 events are queued for each reader. If a reader is too slow, its oldest events are dropped, and
/// [`McpEvent::Lagged`] reports their number.
#[derive(Debug)]
pub struct McpEvents(Option<broadcast::Receiver<McpEvent>>);

impl McpEvents {
    /// Waits for the next event. Returns `None` once the client is closed or dropped. A lost connection is an event
    /// ([`McpEvent::Disconnected`]) and does not end the events, even if the connection cannot be restored.
    ///
    /// # Cancel safety
    ///
    /// No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<McpEvent> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(McpEvent::Lagged { missed }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Sends the events of a client to all readers.
#[derive(Debug)]
pub(super) struct EventSender(Mutex<Option<broadcast::Sender<McpEvent>>>);

impl Default for EventSender {
    fn default() -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(WAITING))))
    }
}

impl EventSender {
    /// Sends an event to every reader. Never waits.
    pub(super) fn send(&self, event: McpEvent) {
        let Some(event) = bounded(event) else { return };
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // An error means that there is no reader.
            let _ = sender.send(event);
        }
    }

    /// Returns a reader of the events from now on. The reader ends immediately if the sender is closed.
    pub(super) fn subscribe(&self) -> McpEvents {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        McpEvents(sender.as_ref().map(broadcast::Sender::subscribe))
    }

    /// Ends the events. Each reader still receives the events in its queue.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Truncates the texts of an event to [`LONGEST`] bytes. Returns `None` if the URI of an updated resource is longer,
/// because a truncated URI would name another resource.
fn bounded(event: McpEvent) -> Option<McpEvent> {
    match event {
        McpEvent::Log(mut message) => {
            message.logger = message.logger.map(cut);
            if memory(&message.data) > LONGEST {
                message.data = Value::String(cut(match message.data {
                    Value::String(text) => text,
                    data => data.to_string(),
                }));
            }
            Some(McpEvent::Log(message))
        }
        // A truncated URI would name another resource.
        McpEvent::ResourceUpdated { uri } if uri.len() > LONGEST => {
            tracing::debug!(
                length = uri.len(),
                "dropped the update of a resource whose URI is too long"
            );
            None
        }
        event => Some(event),
    }
}

/// Truncates a text to [`LONGEST`] bytes, or fewer if a character would be split.
fn cut(mut text: String) -> String {
    let mut end = LONGEST.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.shrink_to_fit();
    text
}

/// Returns the approximate memory of a value in bytes. It can be many times the length of the JSON text, for example
/// for a list of zeros.
fn memory(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory).sum(),
        // Each name also has an entry in the map's index.
        Value::Object(fields) => {
            let field = |(name, value): (&String, _)| {
                size_of::<String>() + 2 * size_of::<u64>() + name.len() + memory(value)
            };
            fields.iter().map(field).sum()
        }
    };
    size_of::<Value>().saturating_add(inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::LogLevel;

    fn kept(data: Value) -> Value {
        let message = McpLogMessage { level: LogLevel::Info, logger: None, data };
        match bounded(McpEvent::Log(message)) {
            Some(McpEvent::Log(message)) => message.data,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn large_log_data_becomes_truncated_json_text() {
        let small = json!({ "text": "x".repeat(1000), "list": [1, 2, { "deep": null }] });
        assert_eq!(kept(small.clone()), small);
        let text = Value::String("ü".repeat(LONGEST));
        assert_eq!(kept(text), Value::String("ü".repeat(LONGEST / 2)));
        // Short as JSON, but large in memory. Each item is a `Value`, and each name has a `String` and an index entry.
        let zeros = Value::Array(vec![json!(0); LONGEST / 2 - 1]);
        assert_eq!(kept(zeros.clone()), Value::String(zeros.to_string()));
        let empty = Value::Array(vec![json!([]); LONGEST / 3 - 1]);
        assert_eq!(kept(empty.clone()), Value::String(empty.to_string()));
        let names: Value = (0..5000).map(|name: u32| (name.to_string(), json!(0))).collect();
        assert_eq!(kept(names.clone()), Value::String(names.to_string()));
        let lists = Value::Array(vec![json!([0, 0, 0]); LONGEST]);
        assert_eq!(kept(lists.clone()), Value::String(lists.to_string()[..LONGEST].to_owned()));
    }
}
