//! [`StructuredOutputValidator`], which validates arguments against one schema.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use super::schema::Schema;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Validates the arguments of each call against one JSON Schema, and lets the model retry.
///
/// Add this middleware to a tool with which the model returns a structured result. Invalid arguments return
/// [`ToolError::ModelRetry`]. Its text contains the JSON path of the invalid value and the expectation.
///
/// The validator itself does not limit the number of retries. The limit that is passed to [`new`](Self::new) applies
/// only in a [`RetryLimitedValidator`](super::RetryLimitedValidator) around the validator.
///
/// See [`SchemaValidator`](super::SchemaValidator) for the supported parts of JSON Schema and for invalid schemas.
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
    /// Creates a validator from a JSON Schema. `max_retries` is only used by a
    /// [`RetryLimitedValidator`](super::RetryLimitedValidator) around this validator. The validator itself does not
    /// limit retries.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the constructor of the documentation")]
    pub fn new(schema: Value, max_retries: usize) -> Self {
        let schema = Schema::new(&schema);
        if let Some(problem) = schema.problem() {
            tracing::warn!(problem, "the schema of a validator cannot be used; calls will fail");
        }
        Self { schema, max_retries }
    }

    /// Returns the maximum number of retries for a [`RetryLimitedValidator`](super::RetryLimitedValidator) around this
    /// validator.
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
