//! Errors of MCP peers.

use crate::BoxError;

/// The error of an MCP (Model Context Protocol) peer.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/mcp_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The connection could not be established. The server process did not start, or the server did not respond.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The MCP handshake failed.
    #[error("initialization failed: {0}")]
    Initialization(String),
    /// The request that calls a tool failed.
    #[error("tool call failed: {0}")]
    ToolCall(String),
    /// The established connection failed.
    #[error("transport error: {0}")]
    Transport(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}
