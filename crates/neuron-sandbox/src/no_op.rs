//! A sandbox without any restriction ([`NoOpSandbox`]).

use neuron_types::{Sandbox, SandboxError, ToolContext, ToolDyn, ToolOutput};
use serde_json::Value;

/// Runs tools in this process without any restriction, as if there were no sandbox.
///
/// Use it if an application chooses its sandbox at run time. A [`CommandTool`](super::CommandTool) does not run in this
/// sandbox.
///
/// # Example
///
/// ```
/// use neuron_sandbox::{NoOpSandbox, Sandbox};
/// # use neuron_types::*;
/// # struct Answer;
/// # impl ToolDyn for Answer {
/// #     fn name(&self) -> &str { "answer" }
/// #     fn definition(&self) -> ToolDefinition {
/// #         ToolDefinition {
/// #             name: "answer".into(), title: None, description: String::new(),
/// #             input_schema: serde_json::json!({}), output_schema: None, annotations: None,
/// #             cache_control: None,
/// #         }
/// #     }
/// #     fn call_dyn<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext)
/// #         -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
/// #         Box::pin(async { Ok(ToolOutput::text("42")) })
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), SandboxError> {
/// let (tool, input, ctx) = (Answer, serde_json::json!({}), ToolContext::default());
/// let output = NoOpSandbox.execute_tool(&tool, input, &ctx).await?;
/// assert_eq!(output.content[0].to_string(), "42");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOpSandbox;

impl Sandbox for NoOpSandbox {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        Ok(tool.call_dyn(input, ctx).await?)
    }
}
