//! Conversion of MCP errors into errors of a tool call.

use neuron_types::{McpError, ToolError};

use crate::{McpCancelled, McpRequestError};

/// Code for an unknown method (JSON-RPC 2.0, "Error object").
const METHOD_NOT_FOUND: i32 = -32601;
/// Code for invalid parameters (JSON-RPC 2.0, "Error object"), and for an unknown tool (MCP specification
/// 2025-11-25, "Tools", "Error Handling").
const INVALID_PARAMS: i32 = -32602;

/// Converts the error of a tool call. `tool` is the name by which the model knows the tool.
pub(super) fn tool_error(tool: &str, error: McpError) -> ToolError {
    let source = match error {
        McpError::Other(source) => source,
        error => return ToolError::ExecutionFailed(Box::new(error)),
    };
    if source.is::<McpCancelled>() {
        return ToolError::Cancelled;
    }
    match source.downcast_ref::<McpRequestError>() {
        Some(refusal) if is_unknown_tool(refusal) => ToolError::NotFound(tool.to_owned()),
        Some(refusal) if refusal.code == INVALID_PARAMS => {
            ToolError::InvalidInput(format!("arguments of `{tool}`: {}", refusal.message))
        }
        _ => ToolError::ExecutionFailed(source),
    }
}

/// Returns `true` if an error response means that the server does not know the tool. JSON-RPC has no error code for an
/// unknown tool. Therefore the text of an "invalid params" error is compared with the wording of the specification
/// (`Unknown tool: x`) and of the official SDKs (`Tool x not found`). A "method not found" error counts too.
fn is_unknown_tool(refusal: &McpRequestError) -> bool {
    let words = refusal.message.to_lowercase();
    let says = |part: &str| words.contains(part);
    refusal.code == METHOD_NOT_FOUND
        || (refusal.code == INVALID_PARAMS
            && (says("unknown tool") || (says("tool") && says("not found"))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::McpTimeout;

    fn refusal(code: i32, message: &str) -> McpError {
        McpError::Other(Box::new(McpRequestError {
            method: "tools/call".into(),
            code,
            message: message.into(),
            data: None,
        }))
    }

    #[track_caller]
    fn check(error: McpError, kind: &str, text: &str) {
        let error = tool_error("fs_read", error);
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    #[test]
    fn tool_error_maps_each_mcp_error() {
        check(refusal(-32602, "Unknown tool: read"), "NotFound", "tool not found: fs_read");
        check(
            refusal(-32602, "MCP error -32602: Tool read not found"),
            "NotFound",
            "tool not found: fs_read",
        );
        check(refusal(-32601, "Method not found"), "NotFound", "tool not found: fs_read");
        check(
            refusal(-32602, "`path` is missing"),
            "InvalidInput",
            "invalid input: arguments of `fs_read`: `path` is missing",
        );
        check(
            refusal(-32603, "out of memory"),
            "ExecutionFailed",
            "execution failed: the server refused tools/call: out of memory (-32603)",
        );
        let method = || "tools/call".to_owned();
        let cancelled = McpCancelled { method: method() };
        check(McpError::Other(Box::new(cancelled)), "Cancelled", "cancelled");
        let timeout = McpTimeout { method: method(), limit: Duration::from_secs(60) };
        check(
            McpError::Other(Box::new(timeout)),
            "ExecutionFailed",
            "execution failed: the server did not answer tools/call within 60s",
        );
        check(
            McpError::Transport("the connection was lost".into()),
            "ExecutionFailed",
            "execution failed: transport error: the connection was lost",
        );
    }
}
