//! Errors of a client's requests.

use std::time::Duration;

use neuron_types::McpError;
use serde_json::Value;

/// The server's JSON-RPC error response to a request. Contained in [`McpError::Other`](crate::McpError::Other).
///
/// A refused tool call returns [`McpError::ToolCall`](crate::McpError::ToolCall) instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the server refused {method}: {message} ({code})")]
#[non_exhaustive]
pub struct McpRequestError {
    /// Method of the request, for example `prompts/get`.
    pub method: String,
    /// The error code, for example `-32601` for an unknown method.
    pub code: i32,
    /// The error message of the server.
    pub message: String,
    /// Additional data, in a format that the server defines.
    pub data: Option<Value>,
}

/// The server did not respond to a request in time, and the request was cancelled at the server. Contained in
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server did not answer {method} within {limit:?}")]
#[non_exhaustive]
pub struct McpTimeout {
    /// Method of the request, for example `tools/call`.
    pub method: String,
    /// The exceeded limit. Either the maximum time without progress, or the maximum duration of the request.
    pub limit: Duration,
}

impl McpTimeout {
    /// Creates the error as an [`McpError`].
    pub(super) fn error(method: &str, limit: Duration) -> McpError {
        McpError::Other(Box::new(Self { method: method.to_owned(), limit }))
    }
}

/// A limit of this client was exceeded, for example by the size of a response, the length of a list, or the number of
/// times that a server required input. Contained in [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method}: {what} has more than {limit} {unit}, a limit of this client{}", .setting.map(|setting| format!(" (`{setting}`)")).unwrap_or_default())]
#[non_exhaustive]
pub struct McpLimitExceeded {
    /// Method of the request, for example `tools/list`.
    pub method: String,
    /// Name of the item that exceeds the limit, for example `the server's list`.
    pub what: &'static str,
    /// The limit, in the unit of `unit`.
    pub limit: usize,
    /// Unit of the limit, which is `bytes`, `items`, `pages` or `rounds`.
    pub unit: &'static str,
    /// The method of [`McpClientBuilder`](crate::McpClientBuilder) that sets the limit. `None` for a fixed limit.
    pub setting: Option<&'static str>,
}

/// The caller cancelled a request, and the request was cancelled at the server. Contained in
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} was cancelled")]
#[non_exhaustive]
pub struct McpCancelled {
    /// Method of the request, for example `tools/call`.
    pub method: String,
}

/// A server of MCP 2026-07-28 responded to a subscription without confirming the resource. So it sends no updates of
/// the resource. Contained in [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server does not send updates of {uri}")]
#[non_exhaustive]
pub struct McpNotSubscribed {
    /// The URI of the resource.
    pub uri: String,
}
