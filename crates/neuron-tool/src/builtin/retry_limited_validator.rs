//! [`RetryLimitedValidator`], a validator with a limit on retries.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use super::{RetryLimit, StructuredOutputValidator};
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// A [`StructuredOutputValidator`] with a limit on consecutive retries.
///
/// Retries are counted separately for each conversation and tool, as in [`RetryLimit`]. A
/// [`ModelRetry`](ToolError::ModelRetry) from the tool itself counts too. A successful call resets the counter.
///
/// After [`max_retries`](StructuredOutputValidator::max_retries) consecutive retries, the next error is a
/// [`ToolError::InvalidInput`]. As in [`RetryLimit`], it ends the run only with `ToolErrorPolicy::EndRun`.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::{RetryLimitedValidator, StructuredOutputValidator};
///
/// let schema = serde_json::json!({ "type": "object", "required": ["result"] });
/// let validator = RetryLimitedValidator::new(StructuredOutputValidator::new(schema, 3));
///
/// let mut registry = ToolRegistry::new();
/// registry.add_tool_middleware("report", validator);
/// ```
#[derive(Debug)]
pub struct RetryLimitedValidator {
    inner: StructuredOutputValidator,
    limit: RetryLimit,
}

impl RetryLimitedValidator {
    /// Wraps a validator. The limit is the validator's [`max_retries`](StructuredOutputValidator::max_retries).
    #[must_use]
    pub fn new(inner: StructuredOutputValidator) -> Self {
        let limit = RetryLimit::new(inner.max_retries());
        Self { inner, limit }
    }
}

impl ToolMiddleware for RetryLimitedValidator {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let result = self.inner.process(call, ctx, next).await;
            self.limit.settle(call, ctx, result)
        })
    }
}
