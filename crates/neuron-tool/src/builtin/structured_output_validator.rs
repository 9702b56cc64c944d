//! [`StructuredOutputValidator`], which validates arguments against one schema.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use super::schema::Schema;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Validates the arguments of a call against one JSON Schema, and lets the model retry.
///
/// For a tool with which the model returns a structured result. Invalid arguments return [`ToolError::ModelRetry`] with
/// the place and the expectation, without a limit. For a limit, wrap it in a
/// [`RetryLimitedValidator`](super::RetryLimitedValidator). See [`SchemaValidator`](super::SchemaValidator) for the
/// supported parts of JSON Schema and for invalid schemas.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::StructuredOutputValidator;
///
/// let schema = serde_json::json!({
///     "type": "object",
///     "required": ["result"],
///     "properties": { "result": { "type": "string" } }
/// });
/// let mut registry = ToolRegistry::new();
/// registry.add_tool_middleware("report", StructuredOutputValidator::new(schema, 3));
/// ```
#[derive(Debug)]
pub struct StructuredOutputValidator {
    schema: Schema,
    max_retries: usize,
}

impl StructuredOutputValidator {
    /// Creates a validator with a schema. The number of retries is for a
    /// [`RetryLimitedValidator`](super::RetryLimitedValidator) around it.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the constructor of the documentation")]
    pub fn new(schema: Value, max_retries: usize) -> Self {
        let schema = Schema::new(&schema);
        if let Some(problem) = schema.problem() {
            tracing::warn!(problem, "the schema of a validator cannot be used; calls will fail");
        }
        Self { schema, max_retries }
    }

    /// Returns the number of retries for a [`RetryLimitedValidator`](super::RetryLimitedValidator).
    #[must_use]
    pub fn max_retries(&self) -> usize {
        self.max_retries
    }
}

impl ToolMiddleware for StructuredOutputValidator {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.schema.check(call)? {
                None => next.run(call, ctx).await,
                Some(faults) => Err(ToolError::ModelRetry(faults)),
            }
        })
    }
}
