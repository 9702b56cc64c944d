//! [`RetryInvalidInput`], which lets the model correct invalid arguments.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use super::RetryLimit;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets the model correct invalid arguments. Without this middleware, invalid arguments end the run.
///
/// A [`ToolError::InvalidInput`] from an inner middleware or from the tool becomes a [`ToolError::ModelRetry`] with the
/// same text. A [`Tool`](neuron_types::Tool) returns `InvalidInput` for arguments of the wrong type. A
/// `SchemaValidator` returns it for arguments that do not match the schema.
///
/// After the maximum number of consecutive retries, the `InvalidInput` is returned and ends the run. Retries are
/// counted as in [`RetryLimit`].
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
