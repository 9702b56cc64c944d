//! [`RetryInvalidInput`], which lets the model correct invalid arguments.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use super::RetryLimit;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets the model correct invalid arguments in a run with [`ToolErrorPolicy::EndRun`], the default of
/// [`LoopConfig`](neuron_types::LoopConfig). Without this middleware, invalid arguments end such a run.
///
/// A [`ToolError::InvalidInput`] from an inner middleware or from the tool becomes a [`ToolError::ModelRetry`] with the
/// same text. A [`Tool`](neuron_types::Tool) returns `InvalidInput` for arguments of the wrong type. A
/// `SchemaValidator` returns it for arguments that do not match the schema.
///
/// After the maximum number of consecutive retries, the `InvalidInput` is returned and ends the run. Retries are
/// counted as in [`RetryLimit`].
///
/// In a run, the loop rejects arguments that are not JSON, and invalid arguments of a call that would wait for an
/// approval. These calls do not reach the middleware, and end a run with [`ToolErrorPolicy::EndRun`].
///
/// # Agents of `Agent::builder`
///
/// With [`ToolErrorPolicy::ReturnToModel`], the default of `Agent::builder`, the model receives an `InvalidInput` as an
/// error result, and the run continues. There, this middleware changes only the text of the result, and its maximum
/// never ends the run. To end the run after repeated failures of a tool, set
/// [`LoopConfig::tool_retry_limit`](neuron_types::LoopConfig::tool_retry_limit).
///
/// [`ToolErrorPolicy::EndRun`]: neuron_types::ToolErrorPolicy::EndRun
/// [`ToolErrorPolicy::ReturnToModel`]: neuron_types::ToolErrorPolicy::ReturnToModel
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::RetryInvalidInput;
///
/// let mut registry = ToolRegistry::new();
/// // Add it before the middleware that validates arguments.
/// registry.add_middleware(RetryInvalidInput::new(3));
/// ```
#[derive(Debug)]
pub struct RetryInvalidInput {
    limit: RetryLimit,
}

impl RetryInvalidInput {
    /// Creates middleware with a maximum number of consecutive retries of a tool.
    #[must_use]
    pub fn new(max_retries: usize) -> Self {
        Self { limit: RetryLimit::new(max_retries) }
    }
}

impl ToolMiddleware for RetryInvalidInput {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let result = match next.run(call, ctx).await {
                Err(ToolError::InvalidInput(text)) => Err(ToolError::ModelRetry(text)),
                result => result,
            };
            self.limit.settle(call, ctx, result)
        })
    }
}
