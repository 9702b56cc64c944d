//! What a request gets instead of a result.

use std::time::Duration;

use neuron_types::McpError;
use serde_json::Value;

/// A server refused a request: a JSON-RPC error, inside [`McpError::Other`](crate::McpError::Other).
///
/// A call of a tool that is refused is [`McpError::ToolCall`](crate::McpError::ToolCall) instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the server refused {method}: {message} ({code})")]
#[non_exhaustive]
pub struct McpRequestError {
    /// The method of the protocol that was asked for: `prompts/get` for one.
    pub method: String,
    /// What kind of error it is: `-32601`, the method is not known, for one.
    pub code: i32,
    /// What went wrong, in the server's words.
    pub message: String,
    /// More about it, in a form of the server's own.
    pub data: Option<Value>,
}

/// A request took too long; the server was told to stop. Inside [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server did not answer {method} within {limit:?}")]
#[non_exhaustive]
pub struct McpTimeout {
    /// The method of the protocol: `tools/call` for one.
    pub method: String,
    /// The limit that was reached: of the time without progress, or of the whole request.
    pub limit: Duration,
}

impl McpTimeout {
    pub(super) fn error(method: &str, limit: Duration) -> McpError {
        McpError::Other(Box::new(Self { method: method.to_owned(), limit }))
    }
}

/// A response or a list of a server is larger than a limit of this client. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method}: {what} has more than {limit} {unit}, a limit of this client{}", .setting.map(|setting| format!(" (`{setting}`)")).unwrap_or_default())]
#[non_exhaustive]
pub struct McpLimitExceeded {
    /// The method of the protocol, for example `tools/list`.
    pub method: String,
    /// The thing that is too large: a response, or a list of several pages.
    pub what: &'static str,
    /// Maximum number of units.
    pub limit: usize,
    /// The unit of the limit: bytes, items or pages.
    pub unit: &'static str,
    /// The method of [`McpClientBuilder`](crate::McpClientBuilder) that changes the limit. `None` if it is fixed.
    pub setting: Option<&'static str>,
}

/// A request was cancelled by its caller; the server was told to stop. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} was cancelled")]
#[non_exhaustive]
pub struct McpCancelled {
    /// The method of the protocol: `tools/call` for one.
    pub method: String,
}

/// A server of MCP 2026-07-28 answered a subscription, but left the resource out of what it
/// tells. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server does not tell when {uri} changes")]
#[non_exhaustive]
pub struct McpNotSubscribed {
    /// The address of the resource.
    pub uri: String,
}
