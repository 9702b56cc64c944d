//! Log messages that a server sends to its client.

use serde_json::Value;

/// The severity of a log message. The levels are those of syslog (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Information about normal operation.
    Info,
    /// Normal but significant events.
    Notice,
    /// A possible problem.
    Warning,
    /// A failed operation.
    Error,
    /// A critical failure, such as a failed component of the server.
    Critical,
    /// A problem that requires immediate action.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// A log message of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpLogMessage {
    /// Severity of the message.
    pub level: LogLevel,
    /// Name of the logger in the server.
    pub logger: Option<String>,
    /// The message, as a text or any other JSON value.
    pub data: Value,
}
