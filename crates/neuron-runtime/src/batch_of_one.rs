//! A tool call as a batch, for adapters that journal batches.

use neuron_types::{
    ActivityOptions, DurableContext, DurableError, ToolCall, ToolContext, ToolInvocation,
    ToolOutput, ToolSet,
};

/// Runs one tool call with [`DurableContext::execute_tools`], for implementations of
/// [`DurableContext::execute_tool`].
///
/// The call has the effect that its tool in `tools` declares, and the default effect if there is no such tool.
///
/// # Errors
///
/// The error of the call. [`DurableError::ActivityFailed`] if the context returns no result.
pub async fn execute_as_batch(
    context: &impl DurableContext,
    tools: &dyn ToolSet,
    call: ToolCall,
    ctx: &ToolContext,
    options: ActivityOptions,
) -> Result<ToolOutput, DurableError> {
    let missing = DurableError::ActivityFailed(format!("`{}` gave nothing", call.name));
    let tool = tools.get(&call.name);
    let invocation = ToolInvocation::new(call, ctx.clone()).of_tool(tool.as_deref());
    context.execute_tools(vec![invocation], options).await.pop().ok_or(missing)?
}
