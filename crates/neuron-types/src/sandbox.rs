//! The trait of what isolates a tool's execution.

use std::future::Future;

use serde_json::Value;

use crate::{SandboxError, ToolContext, ToolDyn, ToolOutput, WasmCompatSend, WasmCompatSync};

/// Runs tools in isolation: restricted files, network, time or memory.
///
/// # Contract
///
/// What the sandbox cannot confine it refuses, with [`SandboxError::SetupFailed`].
///
/// # Example
///
/// ```
/// use neuron_types::*;
///
/// /// Isolates nothing.
/// struct PassThrough;
///
/// impl Sandbox for PassThrough {
///     async fn execute_tool(
///         &self,
///         tool: &dyn ToolDyn,
///         input: serde_json::Value,
///         ctx: &ToolContext,
///     ) -> Result<ToolOutput, SandboxError> {
///         tool.call_dyn(input, ctx).await.map_err(|error| SandboxError::ExecutionFailed(error.to_string()))
///     }
/// }
/// ```
pub trait Sandbox: WasmCompatSend + WasmCompatSync {
    /// Runs a tool.
    ///
    /// # Errors
    ///
    /// [`SandboxError::ExecutionFailed`] when the tool fails, [`SandboxError::SetupFailed`] when
    /// the sandbox does.
    fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, SandboxError>> + WasmCompatSend;
}
