//! [`StructuredOutputValidator`]: checks arguments against one schema, and lets the model try again.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use super::schema::Schema;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Checks the arguments of a call against one JSON Schema, and lets the model try again.
///
/// Meant for a tool by which the model hands over its structured answer. Arguments that do not fit
/// become [`ToolError::ModelRetry`], which says where and what was expected, without a limit: put it
/// into a [`RetryLimitedValidator`](super::RetryLimitedValidator) for one. See
/// [`SchemaValidator`](super::SchemaValidator) for what of JSON Schema is checked, and what happens
/// with a schema that is none.
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
    /// Checks against this schema. The number of retries is for a
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

    /// Returns how many retries a [`RetryLimitedValidator`](super::RetryLimitedValidator) allows.
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
