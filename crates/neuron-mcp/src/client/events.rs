//! Events that a client receives without a request.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::McpLogMessage;

/// Maximum number of events that wait for a slow reader. Beyond it the oldest are lost.
const WAITING: usize = 256;
/// Maximum memory of a text or value of an event in bytes, so that waiting events stay small.
const LONGEST: usize = 64 * 1024;

/// A notification of a server, or a change of the connection.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum McpEvent {
    /// The server has other tools now.
    ToolsChanged,
    /// The server has other resources now.
    ResourcesChanged,
    /// The server has other prompts now.
    PromptsChanged,
    /// A resource that was [subscribed](crate::McpClient::subscribe) to has another content now, or a part
    /// of it has.
    ResourceUpdated {
        /// Its address.
        uri: String,
    },
    /// A log message. Data that need more than 64 KiB of memory are the text of their JSON, cut to that length.
    Log(McpLogMessage),
    /// The connection was lost, rather than [closed](crate::McpClient::close). Told once for each connection.
    ///
    /// The next request makes it anew, unless [that is off](crate::McpClientBuilder::reconnect); until then
    /// nothing more is told. Who only waits for events may [`ping`](crate::McpClient::ping) now and then
    /// until it succeeds.
    Disconnected,
    /// The connection was lost, and made anew by a request.
    Reconnected,
    /// The reader was too slow, and events before the next one are lost.
    Lagged {
        /// Number of lost events.
        missed: u64,
    },
}

/// The events of a client, from the moment that they were asked for.
///
/// At most 256 wait to be read; of a slower reader the oldest are lost, and it is told so by
/// [`McpEvent::Lagged`]. Readers do not disturb each other.
#[derive(Debug)]
pub struct McpEvents(Option<broadcast::Receiver<McpEvent>>);

impl McpEvents {
    /// Waits for the next event. `None` once the client is closed or dropped. A lost connection is an event
    /// ([`McpEvent::Disconnected`]) and not the end, even if it cannot be restored.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<McpEvent> {
        match self.0.as_mut()?.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(McpEvent::Lagged { missed }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The source of events.
#[derive(Debug)]
pub(super) struct EventSender(Mutex<Option<broadcast::Sender<McpEvent>>>);

impl Default for EventSender {
    fn default() -> Self {
        Self(Mutex::new(Some(broadcast::Sender::new(WAITING))))
    }
}

impl EventSender {
    /// Tells every reader. Never waits.
    pub(super) fn send(&self, event: McpEvent) {
        let Some(event) = bounded(event) else { return };
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // Without a reader there is nobody to tell.
            let _ = sender.send(event);
        }
    }

    pub(super) fn subscribe(&self) -> McpEvents {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        McpEvents(sender.as_ref().map(broadcast::Sender::subscribe))
    }

    /// Ends every reader after its remaining events.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// An event that is not longer than what may be kept.
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
        // A cut address is another address.
        McpEvent::ResourceUpdated { uri } if uri.len() > LONGEST => {
            tracing::debug!(length = uri.len(), "a server told the update of an endless address");
            None
        }
        event => Some(event),
    }
}

fn cut(mut text: String) -> String {
    let mut end = LONGEST.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.shrink_to_fit();
    text
}

/// Returns an estimate of the memory of a value in bytes. A list of zeros needs many times its length as JSON.
fn memory(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory).sum(),
        // A name stands in a table, too.
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
    fn what_is_kept_of_a_message_is_small() {
        let small = json!({ "text": "x".repeat(1000), "list": [1, 2, { "deep": null }] });
        assert_eq!(kept(small.clone()), small);
        let text = Value::String("ü".repeat(LONGEST));
        assert_eq!(kept(text), Value::String("ü".repeat(LONGEST / 2)));
        // Short as JSON, and long in memory: each item is a value, each name a text and a place in a table.
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
