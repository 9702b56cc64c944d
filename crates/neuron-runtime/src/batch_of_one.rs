//! A tool call as a batch, for adapters that journal batches.

use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, DurableContext, DurableError, ToolCall, ToolContext, ToolInvocation,
    ToolOutput,
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
    tools: &ToolRegistry,
    call: ToolCall,
    ctx: &ToolContext,
    options: ActivityOptions,
) -> Result<ToolOutput, DurableError> {
    let missing = DurableError::ActivityFailed(format!("`{}` gave nothing", call.name));
    let effect = tools.get(&call.name).map(|tool| tool.effect()).unwrap_or_default();
    let invocation = ToolInvocation::new(call, ctx.clone()).with_effect(effect);
    context.execute_tools(vec![invocation], options).await.pop().ok_or(missing)?
}
