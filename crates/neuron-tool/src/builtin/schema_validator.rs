//! [`SchemaValidator`], which validates arguments and results against the tools' schemas.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use neuron_types::{
    ContentItem, ToolContext, ToolDefinition, ToolError, ToolOutput, WasmBoxedFuture,
};

use super::schema::Schema;
use crate::ToolRegistry;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Validates the arguments of each call against the tool's [`input_schema`](ToolDefinition::input_schema), before the
/// tool runs.
///
/// Invalid arguments return [`ToolError::InvalidInput`]. The text contains the JSON path of the invalid value
/// (`$.filters[0].limit`) and the expectation.
///
/// With `Agent::builder`, the model receives this error as the result of the call and may retry. With the
/// [`ToolErrorPolicy`](neuron_types::ToolErrorPolicy) of `LoopConfig::default()`, the error ends the run. To let the
/// model retry there too, add [`RetryInvalidInput`](super::RetryInvalidInput) before this middleware.
///
/// # Results
///
/// If a tool has an [`output_schema`](ToolDefinition::output_schema), the
/// [structured content](ToolOutput::structured_content) of its results is validated too, except for results with an
/// error. The tool has run then, so a result with invalid content is kept. A text with the errors is added to it.
///
/// # Which schemas
///
/// All drafts of JSON Schema are supported. A `$ref` may only refer to the same schema, because no references are
/// fetched. Patterns may use lookahead, and their running time is limited. `format` is not validated, because it is
/// only an annotation in JSON Schema.
///
/// If a tool's schema is invalid, a warning is logged. Calls of the tool then fail with [`ToolError::ExecutionFailed`],
/// because their arguments cannot be validated. With an invalid output schema, results are not validated.
///
/// # Which tools
///
/// [`new`](Self::new) compiles the schemas of the registered tools. The schema of a tool that is registered or replaced
/// later is compiled at the next call of the tool.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::SchemaValidator;
///
/// let mut registry = ToolRegistry::new();
/// // Register the tools, then:
/// let validator = SchemaValidator::new(&registry);
/// registry.add_middleware(validator);
/// ```
pub struct SchemaValidator {
    /// The compiled schemas by tool name.
    schemas: RwLock<HashMap<String, Compiled>>,
}

/// The compiled schema of a definition.
///
/// A definition is recognised by its address. The `Arc` keeps the definition alive, so that its address is not reused.
#[derive(Clone)]
struct Compiled {
    definition: Arc<ToolDefinition>,
    schema: Arc<Schema>,
    /// The compiled output schema. `None` if the tool has none.
    output: Option<Arc<Schema>>,
}

impl SchemaValidator {
    /// Creates a validator and compiles the schemas of all tools in `registry`.
    #[must_use]
    pub fn new(registry: &ToolRegistry) -> Self {
        let validator = Self { schemas: RwLock::default() };
        for definition in registry.shared_definitions() {
            validator.compile(definition);
        }
        validator
    }

    /// Returns the compiled schemas of a definition. Compiles the schemas if the definition is new.
    fn schemas(&self, definition: &Arc<ToolDefinition>) -> Compiled {
        let schemas = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        match schemas.get(&definition.name) {
            Some(compiled) if Arc::ptr_eq(&compiled.definition, definition) => compiled.clone(),
            _ => {
                // Release the read lock, because `compile` takes the write lock.
                drop(schemas);
                self.compile(definition)
            }
        }
    }

    /// Compiles and stores the schemas of a definition.
    fn compile(&self, definition: &Arc<ToolDefinition>) -> Compiled {
        let tool = &definition.name;
        let schema = Arc::new(Schema::new(&definition.input_schema));
        if let Some(problem) = schema.problem() {
            tracing::warn!(tool, problem, "the input schema cannot be used; calls will fail");
        }
        let output = definition.output_schema.as_ref().map(|schema| Arc::new(Schema::new(schema)));
        if let Some(problem) = output.as_ref().and_then(|schema| schema.problem()) {
            tracing::warn!(tool, problem, "the output schema cannot be used");
        }
        let compiled = Compiled { definition: definition.clone(), schema, output };
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        schemas.insert(tool.clone(), compiled.clone());
        compiled
    }
}

impl ToolMiddleware for SchemaValidator {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let Compiled { schema, output, .. } = self.schemas(next.shared_definition());
            if let Some(faults) = schema.check(call)? {
                return Err(ToolError::InvalidInput(faults));
            }
            let mut result = next.run(call, ctx).await?;
            if let (Some(schema), Some(content), false) =
                (output, &result.structured_content, result.is_error)
                && let Some(faults) = schema.faults(content)
            {
                let note = format!(
                    "[`{}` ran, but its structured content does not match its output schema: {faults}]",
                    call.name
                );
                result.content.push(ContentItem::Text(note));
            }
            Ok(result)
        })
    }
}

impl fmt::Debug for SchemaValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schemas = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = schemas.keys().collect();
        names.sort();
        f.debug_struct("SchemaValidator").field("tools", &names).finish()
    }
}
