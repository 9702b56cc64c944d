//! Errors of MCP peers.

use crate::BoxError;

/// The error of an MCP (Model Context Protocol) peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// No connection was made. The process did not start, or the server did not respond.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The handshake failed.
    #[error("initialization failed: {0}")]
    Initialization(String),
    /// The request of a tool call failed.
    #[error("tool call failed: {0}")]
    ToolCall(String),
    /// The connection broke.
    #[error("transport error: {0}")]
    Transport(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}
