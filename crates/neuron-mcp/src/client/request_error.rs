//! Errors of requests.

use std::time::Duration;

use neuron_types::McpError;
use serde_json::Value;

/// A JSON-RPC error response of a server. Inside [`McpError::Other`](crate::McpError::Other).
///
/// A refused tool call is [`McpError::ToolCall`](crate::McpError::ToolCall) instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the server refused {method}: {message} ({code})")]
#[non_exhaustive]
pub struct McpRequestError {
    /// The method of the protocol, for example `prompts/get`.
    pub method: String,
    /// The error code, for example `-32601` for an unknown method.
    pub code: i32,
    /// The error message of the server.
    pub message: String,
    /// Additional data in a format of the server.
    pub data: Option<Value>,
}

/// A request exceeded its time limit, and the server was told to stop. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server did not answer {method} within {limit:?}")]
#[non_exhaustive]
pub struct McpTimeout {
    /// The method of the protocol, for example `tools/call`.
    pub method: String,
    /// The exceeded limit, either the time without progress or the time of the whole request.
    pub limit: Duration,
}

impl McpTimeout {
    pub(super) fn error(method: &str, limit: Duration) -> McpError {
        McpError::Other(Box::new(Self { method: method.to_owned(), limit }))
    }
}

/// A response, a list or an exchange of input is larger than a limit of this client. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method}: {what} has more than {limit} {unit}, a limit of this client{}", .setting.map(|setting| format!(" (`{setting}`)")).unwrap_or_default())]
#[non_exhaustive]
pub struct McpLimitExceeded {
    /// The method of the protocol, for example `tools/list`.
    pub method: String,
    /// The thing that is too large, which is a response, a list of several pages, or an exchange of input.
    pub what: &'static str,
    /// Maximum number of units.
    pub limit: usize,
    /// Unit of the limit, which is bytes, items, pages or rounds.
    pub unit: &'static str,
    /// The method of [`McpClientBuilder`](crate::McpClientBuilder) that changes the limit. `None` if it is fixed.
    pub setting: Option<&'static str>,
}

/// A request was cancelled by its caller, and the server was told to stop. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} was cancelled")]
#[non_exhaustive]
pub struct McpCancelled {
    /// The method of the protocol, for example `tools/call`.
    pub method: String,
}

/// A server of MCP 2026-07-28 accepted a subscription, but does not send updates of the resource. Inside
/// [`McpError::Other`](crate::McpError::Other).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server does not tell when {uri} changes")]
#[non_exhaustive]
pub struct McpNotSubscribed {
    /// The URI of the resource.
    pub uri: String,
}
