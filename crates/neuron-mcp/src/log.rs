//! Log messages of servers.

use serde_json::Value;

/// The severity of a log message, by the levels of syslog (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For finding faults.
    Debug,
    /// Normal events.
    Info,
    /// Normal, but worth a look.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// Something failed that others depend on.
    Critical,
    /// Somebody must act now.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// A log message of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpLogMessage {
    /// Severity of the message.
    pub level: LogLevel,
    /// Name of the part of the server that wrote it.
    pub logger: Option<String>,
    /// The message, which is a text or any other value.
    pub data: Value,
}
