//! Tools and registries for the tests.

use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ContentItem, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

pub(crate) type Result<T = ToolOutput> = std::result::Result<T, ToolError>;

/// A tool whose calls run a closure.
pub(crate) struct TestTool<F> {
    definition: ToolDefinition,
    effect: ToolEffect,
    call: F,
}

impl<F> ToolDyn for TestTool<F>
where
    F: for<'a> Fn(Value, &'a ToolContext) -> WasmBoxedFuture<'a, Result> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call_dyn<'a>(&'a self, input: Value, ctx: &'a ToolContext) -> WasmBoxedFuture<'a, Result> {
        (self.call)(input, ctx)
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }
}

pub(crate) fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Creates a tool whose calls await the future of a closure.
pub(crate) fn async_tool<F>(
    definition: ToolDefinition,
    effect: ToolEffect,
    call: F,
) -> Arc<dyn ToolDyn>
where
    F: for<'a> Fn(Value, &'a ToolContext) -> WasmBoxedFuture<'a, Result> + Send + Sync + 'static,
{
    Arc::new(TestTool { definition, effect, call })
}

/// Creates a tool whose calls return the result of a closure.
pub(crate) fn tool<F>(name: &str, call: F) -> Arc<dyn ToolDyn>
where
    F: Fn(Value) -> Result + Send + Sync + 'static,
{
    async_tool(definition(name), ToolEffect::AtMostOnce, move |input, _| {
        let result = call(input);
        Box::pin(async move { result })
    })
}

/// Creates a tool that returns its arguments.
pub(crate) fn echo(name: &str) -> Arc<dyn ToolDyn> {
    tool(name, |input| Ok(ToolOutput::text(input.to_string())))
}

pub(crate) fn registry(tools: impl IntoIterator<Item = Arc<dyn ToolDyn>>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(tool);
    }
    registry
}

pub(crate) async fn run(registry: &ToolRegistry, name: &str, input: Value) -> Result {
    registry.execute(name, input, &ToolContext::default()).await
}

/// Returns the variant and the text of an error, or the text of an output.
pub(crate) fn shown(result: &Result) -> String {
    match result {
        Ok(output) => output.content.iter().map(ContentItem::to_string).collect(),
        Err(ToolError::ModelRetry(hint)) => format!("retry: {hint}"),
        Err(error) => error.to_string(),
    }
}
