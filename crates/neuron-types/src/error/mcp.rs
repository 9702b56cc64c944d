//! What goes wrong with an MCP peer.

use crate::BoxError;

/// What goes wrong with an MCP (Model Context Protocol) peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// No connection: the process did not start, or the server did not answer.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The handshake failed.
    #[error("initialization failed: {0}")]
    Initialization(String),
    /// A tool call failed as a request.
    #[error("tool call failed: {0}")]
    ToolCall(String),
    /// The connection broke.
    #[error("transport error: {0}")]
    Transport(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}
