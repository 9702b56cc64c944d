//! Log messages of servers.

use serde_json::Value;

/// How grave a log message is: the levels of syslog (RFC 5424).
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
    /// Nothing works.
    Emergency,
}

/// A log message of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpLogMessage {
    /// How grave it is.
    pub level: LogLevel,
    /// Which part of the server wrote it.
    pub logger: Option<String>,
    /// The message: text, or anything else.
    pub data: Value,
}
