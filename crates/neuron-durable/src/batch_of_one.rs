//! Runs a single tool call as a batch, for adapters whose journal stores batches.

use neuron_types::{
    ActivityOptions, DurableContext, DurableError, ToolCall, ToolContext, ToolInvocation,
    ToolOutput, ToolSet,
};

/// Runs one tool call through [`DurableContext::execute_tools`]. Contexts can use it to implement
/// [`DurableContext::execute_tool`].
///
/// The call gets the [`ToolEffect`](neuron_types::ToolEffect) that its tool in `tools` declares. A tool that is not in
/// `tools` has the effect [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce).
///
/// # Errors
///
/// Returns the error of the call, or [`DurableError::ActivityFailed`] if the context returned no result.
pub async fn execute_as_batch(
    context: &impl DurableContext,
    tools: &dyn ToolSet,
    call: ToolCall,
    ctx: &ToolContext,
    options: ActivityOptions,
) -> Result<ToolOutput, DurableError> {
    let missing = DurableError::ActivityFailed(format!("`{}` returned no result", call.name));
    let tool = tools.get(&call.name);
    let invocation = ToolInvocation::new(call, ctx.clone()).of_tool(tool.as_deref());
    context.execute_tools(vec![invocation], options).await.pop().ok_or(missing)?
}
