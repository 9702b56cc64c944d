//! [`RetryInvalidInput`]: lets the model correct arguments that do not fit.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use super::RetryLimit;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets the model correct arguments that do not fit, instead of ending the run.
///
/// [`ToolError::InvalidInput`] from inside becomes [`ToolError::ModelRetry`] with the same text: that
/// of a [`Tool`](neuron_types::Tool) whose arguments have the wrong type, of a `SchemaValidator`, or
/// the tool's own. It counts as [`RetryLimit`] does, and gives up with the error after so many
/// retries in a row.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::RetryInvalidInput;
///
/// let mut registry = ToolRegistry::new();
/// // Add it before what checks the arguments.
/// registry.add_middleware(RetryInvalidInput::new(3));
/// ```
#[derive(Debug)]
pub struct RetryInvalidInput {
    limit: RetryLimit,
}

impl RetryInvalidInput {
    /// Allows so many retries in a row.
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
